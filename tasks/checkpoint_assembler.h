// Assembles checkpoints from the records of a shard's partition of `parameters`.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "tasks/checkpoint.h"
#include "topics/frame.h"

namespace millrace {

// A checkpoint's records are contiguous in the partition, the state's last chunk at their end, so a
// copy that applies complete checkpoints only is always a prefix of the shard's checkpoints. (On a
// compacted topic a reader from the beginning is consistent only at the end: the remaining records
// of older checkpoints are applied with the next complete one.) A large checkpoint is returned in
// parts: a copy with some of them is inconsistent until it has the last part, which has the offset;
// applying parts twice is harmless. Pure; not thread-safe.
class CheckpointAssembler {
 public:
  // Whether a record with this key belongs to a checkpoint. Other records were written by another
  // program, and must be skipped.
  static bool Knows(std::string_view key);

  struct Part {
    std::vector<Checkpoint::Entry>
        entries;                // in order; a later entry of a key replaces an earlier one
    std::optional<Offset> end;  // in a checkpoint's last part: the offset after its last record
    std::string state{};        // there, too: the state, joined (DecodeState)
  };

  // The most bytes of a part, not counting its last record.
  explicit CheckpointAssembler(size_t most_bytes = kMostBatchBytes) : most_bytes_(most_bytes) {}

  // Adds the next committed record. Returns the part that it completes. DataLoss when it does not
  // belong to a checkpoint, or is damaged.
  StatusOr<std::optional<Part>> Add(Offset offset, std::string_view key, std::string_view value);
  // Whether records were added since the last complete checkpoint.
  bool unfinished() const { return unfinished_; }

 private:
  // All of the state, when this chunk is its last.
  StatusOr<std::optional<std::string>> JoinState(std::string_view chunk);

  size_t most_bytes_;
  std::vector<Checkpoint::Entry> entries_;
  size_t bytes_ = 0;
  bool unfinished_ = false;
  ChunkJoiner state_{{.sender_bytes = SIZE_MAX, .bytes = SIZE_MAX}};  // as large as it is
};

}  // namespace millrace
