#include "producer/topic_classes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "features/quoted_value.h"
#include "kafka/timeouts.h"
#include "producer/unusable_reasons.h"

namespace millrace {
namespace {

constexpr uint64_t kMostScanned = 100'000;
constexpr size_t kScannedAtOnce = 1000;
constexpr char kGiveClasses[] = "; give the classes by --classes A,B,...";

StatusOr<ClassScan> Finish(const std::string& topic, const ClassTally& tally, ClassScan found,
                           const UnusableReasons& unusable) {
  if (found.rows == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        topic, " has no records yet to find the classes in", kGiveClasses,
        ", and TopicSource waits for the first record; or start it again when there are records of "
        "every class, since rows of others go to dead-letter"));
  }
  if (found.malformed == found.rows) {
    return absl::FailedPreconditionError(unusable.Text(topic, found.rows));
  }
  const Status finished = tally.Finish(found);
  if (finished.ok()) return found;
  // Where most records cannot be used, their classes are missing: that is what is to be mended.
  const std::string reason = unusable.Text(topic, found.rows);
  if (!reason.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(reason, " (", finished.message(), ")"));
  }
  return absl::FailedPreconditionError(absl::StrCat(finished.message(), kGiveClasses));
}

}  // namespace

StatusOr<ClassScan> ScanTopic(const std::string& topic, const std::string& label,
                              const FeatureEncoder& checker, TopicScan scan) {
  const auto partitions = static_cast<int32_t>(scan.begin.size());
  std::vector<Offset> next = std::move(scan.begin);
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<OffsetRange> ranges, scan.reader.Ranges(partitions));
  ClassTally tally(absl::StrCat(topic, ": column ", QuotedValue(label)));
  ClassScan found;
  UnusableReasons unusable;
  SourceReader::Handler handler;
  handler.on_record = [&](const ConsumedRecord& record) {
    next[record.partition] = record.offset + 1;
    if (record.value.data() == nullptr || found.rows == kMostScanned) return absl::OkStatus();
    ++found.rows;
    const TakeCells add = [&](std::span<const std::string_view> cells) {
      return tally.Add(checker, cells);
    };
    Status usable = scan.schema_wait.Run([&] { return scan.decode(record.value, add); },
                                         [] { return absl::OkStatus(); });
    if (IsOfNoRecord(usable)) return usable;
    if (!usable.ok()) {
      ++found.malformed;
      unusable.Add(TextOf(usable));
    }
    const Status count = tally.CheckCount();
    return count.ok() ? count : absl::FailedPreconditionError(count.message());
  };
  handler.on_end = [&](int32_t partition, Offset end) {
    next[partition] = std::max(next[partition], end);
  };
  handler.next_offset = [&](int32_t partition) { return next[partition]; };
  handler.on_deleted = [&](int32_t partition, Offset begin) {
    next[partition] = begin;
    return absl::OkStatus();
  };
  const auto is_done = [&] {
    if (found.rows == kMostScanned) return true;
    for (size_t i = 0; i < ranges.size(); ++i) {
      if (next[i] < ranges[i].end) return false;
    }
    return true;
  };
  for (int32_t i = 0; i < partitions; ++i) {
    MILLRACE_RETURN_IF_ERROR(scan.reader.Start(i, handler));
  }
  while (!is_done()) {
    if (scan.stop) return absl::CancelledError("stopped while looking for the classes");
    MILLRACE_ASSIGN_OR_RETURN(const size_t events, scan.reader.Poll(kScannedAtOnce, handler));
    if (events == 0) scan.reader.Wait(kPoll);
  }
  return Finish(topic, tally, std::move(found), unusable);
}

}  // namespace millrace
