#include "producer/topic_search.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "features/quoted_value.h"
#include "kafka/timeouts.h"
#include "models/row.h"
#include "producer/moving_level.h"
#include "producer/row_decoder.h"
#include "producer/source_reader.h"
#include "producer/unusable_reasons.h"

namespace millrace {
namespace {

constexpr uint64_t kMostScanned = 100'000;
constexpr size_t kScannedAtOnce = 1000;
constexpr char kGiveClasses[] = "; give the classes by --classes A,B,...";

// Returns an error that says nothing of the record (IsOfNoRecord), which ends the search.
using TakeRecord = std::function<Status(const ConsumedRecord& record)>;

// Hands over the first `most` records that the topic has now, without those that have no value.
Status ReadFirst(const SearchedTopic& topic, uint64_t most, const TakeRecord& take) {
  const auto partitions = static_cast<int32_t>(topic.begin.size());
  MILLRACE_ASSIGN_OR_RETURN(const auto reader,
                            SourceReader::Create(topic.kafka, topic.name, topic.stop));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<OffsetRange> ranges, reader->Ranges(partitions));
  std::vector<Offset> next = topic.begin;
  uint64_t taken = 0;
  SourceReader::Handler handler;
  handler.on_record = [&](const ConsumedRecord& record) {
    next[record.partition] = record.offset + 1;
    if (record.value.data() == nullptr || taken == most) return absl::OkStatus();
    ++taken;
    return take(record);
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
    if (taken == most) return true;
    for (size_t i = 0; i < ranges.size(); ++i) {
      if (next[i] < ranges[i].end) return false;
    }
    return true;
  };
  for (int32_t i = 0; i < partitions; ++i) {
    MILLRACE_RETURN_IF_ERROR(reader->Start(i, handler));
  }
  while (!is_done()) {
    if (topic.stop) return absl::CancelledError("stopped while looking at the topic");
    MILLRACE_ASSIGN_OR_RETURN(const size_t events, reader->Poll(kScannedAtOnce, handler));
    if (events == 0) reader->Wait(kPoll);
  }
  return absl::OkStatus();
}

Status NothingMeanwhile() { return absl::OkStatus(); }

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

StatusOr<ClassScan> SearchTopicForClasses(const SearchedTopic& topic, const std::string& label,
                                          const FeatureEncoder& checker) {
  MILLRACE_ASSIGN_OR_RETURN(const CellDecoder decode, topic.format.MakeDecoder(checker));
  ClassTally tally(absl::StrCat(topic.name, ": column ", QuotedValue(label)));
  ClassScan found;
  UnusableReasons unusable;
  const TakeCells add = [&](std::span<const std::string_view> cells) {
    return tally.Add(checker, cells);
  };
  MILLRACE_RETURN_IF_ERROR(ReadFirst(topic, kMostScanned, [&](const ConsumedRecord& record) {
    ++found.rows;
    Status usable =
        topic.schema_wait.Run([&] { return decode(record.value, add); }, NothingMeanwhile);
    if (IsOfNoRecord(usable)) return usable;
    if (!usable.ok()) {
      ++found.malformed;
      unusable.Add(TextOf(usable));
    }
    const Status count = tally.CheckCount();
    return count.ok() ? count : absl::FailedPreconditionError(count.message());
  }));
  return Finish(topic.name, tally, std::move(found), unusable);
}

StatusOr<std::optional<double>> SearchTopicForMovingLevel(const SearchedTopic& topic,
                                                          const FeatureSpec& spec) {
  MILLRACE_ASSIGN_OR_RETURN(FeatureEncoder encoder, FeatureEncoder::Create(spec));
  MILLRACE_ASSIGN_OR_RETURN(CellDecoder cells, topic.format.MakeDecoder(encoder));
  RowDecoder decoder(std::move(cells), std::move(encoder));
  // Records come in pieces of one partition: what stands beside it there tells nothing.
  std::vector<std::vector<float>> labels(topic.begin.size());
  Row row;
  MILLRACE_RETURN_IF_ERROR(ReadFirst(topic, kRowsForLevel, [&](const ConsumedRecord& record) {
    Status decoded =
        topic.schema_wait.Run([&] { return decoder.Decode(record.value, &row); }, NothingMeanwhile);
    if (IsOfNoRecord(decoded)) return decoded;
    if (decoded.ok()) labels[record.partition].push_back(LabelOf(row, spec.regression()));
    return absl::OkStatus();
  }));
  return MovingLevel(labels, !spec.regression());
}

}  // namespace millrace
