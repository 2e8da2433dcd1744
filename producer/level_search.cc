#include "producer/level_search.h"

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "features/csv_row_encoder.h"
#include "producer/moving_level.h"

namespace millrace {
namespace {

constexpr size_t kRowsForLevels = 20'000;

std::string MovesText(double share) {
  return absl::StrFormat(
      "the label stays at one level for many rows, and moves to another one (%.0f %% of what two "
      "labels differ by that are 512 rows apart)",
      100 * share);
}

}  // namespace

StatusOr<std::optional<double>> SearchMovingLevel(const std::string& path,
                                                  const CsvFile::Options& options,
                                                  const FeatureSpec& spec) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<CsvFile> file, CsvFile::Open(path, options));
  MILLRACE_ASSIGN_OR_RETURN(CsvRowEncoder encoder,
                            CsvRowEncoder::Create(spec, file->columns(), file->name()));
  std::vector<float> labels;
  CsvRecord record;
  Row row;
  while (labels.size() < kRowsForLevels) {
    MILLRACE_ASSIGN_OR_RETURN(const bool found, file->Next(&record));
    if (!found) break;
    if (!record.ok() || !encoder.Encode(record.fields, &row).ok()) continue;
    labels.push_back(spec.regression() ? row.target : static_cast<float>(row.label));
  }
  return MovingLevel(labels, !spec.regression());
}

std::string OneWorkerText(double share) {
  return absl::StrCat(MovesText(share),
                      ": worker 0 gets all rows, so that each is learnt after those before it; the "
                      "other workers stand by. If a column tells of the level, a new job "
                      "(another --job) with --rows-per-turn 256 has work for all of them");
}

std::string LeasedRowsText(double share) {
  return absl::StrCat(MovesText(share),
                      ". Workers lease rows (--sharding dynamic) and learn at the same time from "
                      "rows far apart, so they follow that late. If no column tells of the level, "
                      "start a new job (another --job) without --sharding");
}

std::string LongTurnsText(double share, uint32_t workers, uint32_t rows_per_turn) {
  return absl::StrCat(MovesText(share), ". ", workers, " workers, dealt turns of ", rows_per_turn,
                      " rows, learn at the same time from rows far apart, and follow that late. If "
                      "no column tells of the level, start a new job (another --job) without "
                      "--rows-per-turn");
}

}  // namespace millrace
