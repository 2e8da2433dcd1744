// Joins the chunks of the messages on a partition of `weights`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "topics/frame.h"

namespace millrace {

// Its senders are the shards, whose number is the key of a record. Not thread-safe.
class WeightsJoiner {
 public:
  explicit WeightsJoiner(uint32_t shards) : shards_(shards) {}

  // The message that the record completes; empty when chunks are missing. A view into `value`, or
  // into this object until the next call. InvalidArgument or ResourceExhausted with the reason why
  // the record is unusable.
  StatusOr<std::optional<std::string_view>> Take(std::string_view key, std::string_view value);

 private:
  uint32_t shards_;
  ChunkJoiner chunks_;
  std::string joined_;
};

}  // namespace millrace
