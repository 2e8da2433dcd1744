#include "producer/source_positions.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/printable.h"

namespace millrace {
namespace {

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

StatusOr<std::optional<SourceState>> NewestState(std::span<const PartitionTail> tails,
                                                 const std::optional<SourceState>& of_job,
                                                 std::string_view topic, const Dealing& dealing,
                                                 std::string_view input_data) {
  MILLRACE_CHECK(tails.size() >= dealing.workers);
  std::optional<SourceState> newest = of_job;
  bool has_records = false;
  for (const PartitionTail& tail : tails) {
    has_records = has_records || tail.rows > 0 || tail.ended;
    if (!tail.source) continue;
    if (!newest || newest->number() < tail.source->number()) newest = tail.source;
  }
  constexpr char kRemedy[] = ": start a new job (another --job)";
  if (!newest) {
    if (!has_records) return std::nullopt;
    return absl::FailedPreconditionError(
        absl::StrCat(View(input_data), " holds rows that no TopicSource has written", kRemedy));
  }
  if (newest->topic() != topic) {
    return absl::FailedPreconditionError(
        absl::StrCat("this job reads the topic ", Printable(newest->topic()), ", here is --topic ",
                     View(topic), ": give the same topic, or start a new job (another --job)"));
  }
  for (WorkerId worker = 0; worker < tails.size(); ++worker) {
    const RowNumber expected = RowsOfWorker(newest->rows(), worker, dealing);
    if (tails[worker].rows == expected) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        View(input_data), " [", uint32_t{worker}, "] holds ", uint64_t{tails[worker].rows},
        " rows, but of the ", newest->rows(), " that TopicSource has written it has ",
        uint64_t{expected}, ": another program has written to the topic, or records were deleted",
        kRemedy));
  }
  return newest;
}

SourceState FirstState(std::string_view topic, std::span<const Offset> begin) {
  SourceState state;
  state.set_topic(std::string(topic));
  for (const Offset offset : begin) state.add_next_offset(offset);
  return state;
}

SourceGap GapBefore(Offset next, const OffsetRange& log) {
  if (next < log.begin) {
    return {SourceGap::Kind::kDeleted, static_cast<uint64_t>(log.begin - next)};
  }
  if (next > log.end) return {SourceGap::Kind::kBeyond, static_cast<uint64_t>(next - log.end)};
  return {};
}

Offset NextOffset(const SourceState& state, int32_t partition) {
  return partition < state.next_offset_size() ? Offset(state.next_offset(partition)) : Offset(0);
}

void SetNextOffset(SourceState& state, int32_t partition, Offset next) {
  MILLRACE_CHECK(partition >= 0 && next >= NextOffset(state, partition));
  while (state.next_offset_size() <= partition) state.add_next_offset(0);
  state.set_next_offset(partition, next);
}

void NoteLastRecord(SourceState& state, int32_t partition, int64_t timestamp_ms) {
  while (state.last_end_size() <= partition) {
    state.add_last_end(0);
    state.add_last_timestamp_ms(0);
  }
  state.set_last_end(partition, NextOffset(state, partition));
  state.set_last_timestamp_ms(partition, timestamp_ms);
}

std::optional<LastRecord> LastRecordOf(const SourceState& state, int32_t partition) {
  if (partition >= std::min(state.last_end_size(), state.last_timestamp_ms_size())) {
    return std::nullopt;
  }
  const int64_t end = state.last_end(partition);
  if (end <= 0 || end > NextOffset(state, partition)) return std::nullopt;
  return LastRecord{Offset(end - 1), state.last_timestamp_ms(partition)};
}

}  // namespace millrace
