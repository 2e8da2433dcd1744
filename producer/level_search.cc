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
  std::vector<std::vector<float>> labels(1);
  CsvRecord record;
  Row row;
  for (size_t read = 0; read < kRowsForLevel; ++read) {
    MILLRACE_ASSIGN_OR_RETURN(const bool found, file->Next(&record));
    if (!found) break;
    if (!record.ok() || !encoder.Encode(record.fields, &row).ok()) continue;
    labels[0].push_back(LabelOf(row, spec.regression()));
  }
  return MovingLevel(labels, !spec.regression());
}

LevelVerdict VerdictOnLevel(double share, const JobConfig& config) {
  constexpr uint32_t kLongTurn = 32;
  const std::string moves = absl::StrFormat(
      "the level of the label moves along the stream: labels near each other differ by %.0f %% "
      "less than labels far apart. ",
      100 * share);
  const std::string workers = absl::StrCat(config.workers(), " workers");
  const auto warning = [&](const std::string& cause, const std::string& without) {
    return LevelVerdict{
        .warning =
            absl::StrCat(moves, workers, cause,
                         " learn at the same time from rows far apart, and follow the level late. "
                         "If no column tells of it, start a new job (another --job) ",
                         without)};
  };
  const Producer& settings = config.producer();
  if (config.training().sharding() == Training::DYNAMIC) {
    return warning(" that lease rows (--sharding dynamic)", "without --sharding");
  }
  if (config.topology().server_group_size() > 1) {
    return warning(" of several groups of servers", "with --workers 1 and without the file");
  }
  if (config.training().distribution_strategy() == Training::ALL_REDUCE) {
    return warning(" that train by all-reduce", "with --workers 1");
  }
  if (!settings.has_rows_per_turn()) {
    return {.is_for_one_worker = true,
            .note = absl::StrCat(
                moves,
                "Worker 0 gets all rows, so that each is learnt after those before it; the other "
                "workers get none. If a column tells of the level, a new job (another --job) with "
                "--rows-per-turn 256 has rows for all of them")};
  }
  if (settings.rows_per_turn() < kLongTurn) return {};
  return warning(absl::StrCat(", dealt turns of ", settings.rows_per_turn(), " rows,"),
                 "without --rows-per-turn");
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
