#include "features/csv_format.h"

#include "absl/strings/str_cat.h"
#include "formats/csv_dialect.h"

namespace millrace {

Status ApplyCsvFormat(const CsvFormat& format, CsvFile::Options* options) {
  options->is_latin1 = format.encoding() == CsvFormat::LATIN1;
  options->delimiter.reset();
  if (!format.has_delimiter()) return absl::OkStatus();
  const StatusOr<char> delimiter = ParseDelimiter(format.delimiter());
  if (!delimiter.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("delimiter (--delimiter): ", delimiter.status().message()));
  }
  options->delimiter = *delimiter;
  return absl::OkStatus();
}

}  // namespace millrace
