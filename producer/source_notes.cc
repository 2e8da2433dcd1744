#include "producer/source_notes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/grouped_number.h"
#include "features/quoted_value.h"

namespace millrace {
namespace {

// Each record of a source's transaction without many rows has the offsets of all.
constexpr int32_t kMostPartitions = 4096;

}  // namespace

Status CheckPartitions(const SourceTopic& topic, int32_t partitions) {
  if (partitions <= kMostPartitions) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(topic.name, " has ", partitions,
                                                    " partitions, but ", topic.program,
                                                    " reads at most ", kMostPartitions));
}

StatusOr<int32_t> PartitionsNow(KafkaAdmin& admin, const SourceTopic& topic, int32_t known) {
  const StatusOr<int32_t> count = admin.PartitionCount(topic.name);
  if (IsAway(count.status())) return known;
  MILLRACE_RETURN_IF_ERROR(count.status());
  return std::min(*count, kMostPartitions);
}

Status NoteDeleted(const SourceTopic& topic, int32_t partition, Offset next, Offset begin,
                   bool goes_on, ProgressDisplay& display) {
  const std::string what = absl::StrCat(
      topic.name, " [", partition, "]: ", GroupedNumber(static_cast<uint64_t>(begin - next)),
      " offsets from ", int64_t{next},
      " on were deleted before they were read, by retention or by somebody");
  if (!goes_on) {
    return absl::DataLossError(absl::StrCat(what, "; with --on-data-loss continue ", topic.program,
                                            " counts them and goes on behind them"));
  }
  display.Warn(absl::StrCat(what, "; going on behind them (--on-data-loss continue)"));
  return absl::OkStatus();
}

void WarnOfEmptyColumns(const SourceTopic& topic, const std::vector<std::string>& columns,
                        uint64_t rows, ProgressDisplay& display) {
  for (const std::string& column : columns) {
    display.Warn(absl::StrCat("column ", QuotedValue(column), " had no value in any of the first ",
                              GroupedNumber(rows), " rows of ", topic.name,
                              ": is it called otherwise there?"));
  }
}

}  // namespace millrace
