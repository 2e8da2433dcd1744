#include "features/csv_row_encoder.h"

#include <utility>

namespace millrace {

StatusOr<CsvRowEncoder> CsvRowEncoder::Create(const FeatureSpec& spec,
                                              const std::vector<std::string>& columns,
                                              std::string_view file) {
  MILLRACE_ASSIGN_OR_RETURN(FeatureEncoder encoder, FeatureEncoder::Create(spec));
  return Create(std::move(encoder), columns, file);
}

StatusOr<CsvRowEncoder> CsvRowEncoder::Create(FeatureEncoder encoder,
                                              const std::vector<std::string>& columns,
                                              std::string_view file) {
  MILLRACE_ASSIGN_OR_RETURN(CsvColumns found, CsvColumns::Find(encoder, columns, file));
  return CsvRowEncoder(std::move(encoder), std::move(found));
}

Status CsvRowEncoder::Encode(std::span<const std::string_view> fields, Row* row) {
  MILLRACE_ASSIGN_OR_RETURN(const std::span<const std::string_view> selected, Select(fields));
  return encoder_.Encode(selected, row);
}

}  // namespace millrace
