#include "producer/level_search.h"

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "features/csv_row_encoder.h"
#include "producer/moving_level.h"

namespace millrace {

StatusOr<std::optional<double>> SearchForMovingLevel(const std::string& path,
                                                     const CsvFile::Options& options,
                                                     const FeatureSpec& spec) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<CsvFile> file, CsvFile::Open(path, options));
  MILLRACE_ASSIGN_OR_RETURN(CsvRowEncoder encoder,
                            CsvRowEncoder::Create(spec, file->columns(), file->name()));
  std::vector<float> labels;
  CsvRecord record;
  Row row;
  while (labels.size() < kRowsForLevel) {
    MILLRACE_ASSIGN_OR_RETURN(const bool found, file->Next(&record));
    if (!found) break;
    if (!record.ok() || !encoder.Encode(record.fields, &row).ok()) continue;
    labels.push_back(LabelOf(row, spec.regression()));
  }
  return MovingLevel(labels, !spec.regression());
}

LevelVerdict VerdictOnLevel(double share, const JobConfig& config) {
  constexpr uint32_t kLongTurn = 32;
  const std::string moves = absl::StrFormat(
      "the labels change along the stream: %.0f %% of what two labels 512 rows "
      "apart differ by is a level that moves. ",
      100 * share);
  constexpr char kRemedy[] = "If no column tells of the level, start a new job (another --job) ";
  const Producer& settings = config.producer();
  LevelVerdict verdict;
  if (config.training().sharding() == Training::DYNAMIC) {
    verdict.warning = absl::StrCat(moves,
                                   "Workers lease rows (--sharding dynamic) and learn at the "
                                   "same time from rows far apart, so they follow that late. ",
                                   kRemedy, "without --sharding");
  } else if (!settings.has_rows_per_turn()) {
    verdict.is_for_one_worker = true;
    verdict.note = absl::StrCat(
        moves,
        "Worker 0 gets all rows, so that each is learnt after those before it; the other workers "
        "stand by. If a column tells of the level, a new job (another --job) with --rows-per-turn "
        "256 has work for all of them");
  } else if (settings.rows_per_turn() >= kLongTurn) {
    verdict.warning =
        absl::StrCat(moves, config.workers(), " workers, dealt turns of ", settings.rows_per_turn(),
                     " rows, learn at the same time from rows far apart, and follow that late. ",
                     kRemedy, "without --rows-per-turn");
  }
  return verdict;
}

StatusOr<bool> IsForOneWorker(const JobConfig& config, const SearchLevel& search,
                              ProgressDisplay& display) {
  if (config.workers() == 1) return false;
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<double> share, search());
  if (!share) return false;
  const LevelVerdict verdict = VerdictOnLevel(*share, config);
  if (!verdict.note.empty()) display.Say(verdict.note);
  if (!verdict.warning.empty()) display.Warn(verdict.warning);
  return verdict.is_for_one_worker;
}

}  // namespace millrace
