// How far the source of a job's rows has come, by what the job's topics hold. Pure.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "kafka/consumer.h"
#include "messages/source.pb.h"
#include "producer/resume_plan.h"
#include "topics/partitioning.h"

namespace millrace {

// The newest state: of those in the tails of input-data (one per worker of the job) and that of the
// job topic (empty: it has none). Empty: no source has begun. FailedPrecondition, with the remedy:
// the rows are not those that a source of `topic` has dealt. `input_data` is that topic's name in
// messages.
StatusOr<std::optional<SourceState>> NewestState(std::span<const PartitionTail> tails,
                                                 const std::optional<SourceState>& of_job,
                                                 std::string_view topic, const Dealing& dealing,
                                                 std::string_view input_data);

// The state of a source that begins at these offsets.
SourceState FirstState(std::string_view topic, std::span<const Offset> begin);

// What must be known of a partition before it is read from `next`.
struct SourceGap {
  enum class Kind {
    kNone,
    kDeleted,  // the log begins later: `offsets` of them are gone
    kBeyond,   // the log ends before `next`: it is another log, or has lost its end
  };
  Kind kind = Kind::kNone;
  uint64_t offsets = 0;
};
SourceGap GapBefore(Offset next, const OffsetRange& log);

// The partition's next offset; 0 of one that was added.
Offset NextOffset(const SourceState& state, int32_t partition);
// REQUIRES that it is not before the present one.
void SetNextOffset(SourceState& state, int32_t partition, Offset next);

// Keeps of the partition's record before its next offset when it was written.
void NoteLastRecord(SourceState& state, int32_t partition, int64_t timestamp_ms);
struct LastRecord {
  Offset offset = 0;
  int64_t timestamp_ms = 0;
};
// The last record of the partition that was read; none: it is not known.
std::optional<LastRecord> LastRecordOf(const SourceState& state, int32_t partition);

}  // namespace millrace
