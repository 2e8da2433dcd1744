// Whole checkpoints out of the records of a shard's partition of `parameters`.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "runtime/checkpoint.h"
#include "topics/frame.h"

namespace millrace {

// A checkpoint's records stand together in the partition, the state's last chunk at their end, so
// whoever takes only what is whole is at every moment a prefix of the shard's checkpoints. (On a
// compacted topic, who has read from the beginning is consistent only at the end: what compaction
// has left of older checkpoints comes with the next whole one.) Pure; not thread-safe.
class CheckpointAssembler {
 public:
  struct Whole {
    std::vector<Checkpoint::Entry> entries;  // in order; a later one of a key replaces an earlier
    Offset end = 0;                          // behind the last record
  };

  // The next committed record. Returns the checkpoint that it completes. DataLoss when it is no
  // record of a checkpoint.
  StatusOr<std::optional<Whole>> Add(Offset offset, std::string_view key, std::string_view value);

 private:
  std::vector<Checkpoint::Entry> entries_;
  ChunkJoiner state_;
};

}  // namespace millrace
