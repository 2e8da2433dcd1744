// Whole checkpoints out of the records of a shard's partition of `parameters`.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "tasks/checkpoint.h"
#include "topics/frame.h"

namespace millrace {

// A checkpoint's records stand together in the partition, the state's last chunk at their end, so
// whoever takes what is whole is at that moment a prefix of the shard's checkpoints. (On a
// compacted topic, who has read from the beginning is consistent only at the end: what compaction
// has left of older checkpoints comes with the next whole one.) A large one comes in parts: a copy
// that has taken some of them is of use again when it has the last, which tells where it stands;
// taken twice they do no harm. Pure; not thread-safe.
class CheckpointAssembler {
 public:
  // Whether a record with this key is of a checkpoint. What else stands in the partition was
  // written by somebody else, and is to be left out.
  static bool Knows(std::string_view key);

  struct Part {
    std::vector<Checkpoint::Entry> entries;  // in order; a later one of a key replaces an earlier
    std::optional<Offset> end;               // of a checkpoint's last part: behind its last record
  };

  // Of a part, not counting its last record.
  explicit CheckpointAssembler(size_t most_bytes = kMostBatchBytes) : most_bytes_(most_bytes) {}

  // The next committed record. Returns the part that it completes. DataLoss when it is no record
  // of a checkpoint, or is damaged.
  StatusOr<std::optional<Part>> Add(Offset offset, std::string_view key, std::string_view value);
  // Records have come since the last whole checkpoint.
  bool unfinished() const { return unfinished_; }

 private:
  size_t most_bytes_;
  std::vector<Checkpoint::Entry> entries_;
  size_t bytes_ = 0;
  bool unfinished_ = false;
  ChunkJoiner state_{{.sender_bytes = SIZE_MAX, .bytes = SIZE_MAX}};  // as large as it is
};

}  // namespace millrace
