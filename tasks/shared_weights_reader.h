// Reads the shared partition of `weights` for all workers of a process.
#pragma once

#include <memory>
#include <string_view>

#include "base/status.h"
#include "messages/records.pb.h"
#include "tasks/weights_joiner.h"
#include "topics/weights_codec.h"

namespace millrace {

// Joins and decodes each record once, however many workers the process hosts. Not thread-safe.
class SharedWeightsReader {
 public:
  explicit SharedWeightsReader(const WeightsShape& shape) : shape_(shape), joiner_(shape.shards) {}

  // The message that the record completes; null when chunks are missing. InvalidArgument or
  // ResourceExhausted with the reason why the record is unusable.
  StatusOr<std::shared_ptr<const SharedWeights>> Take(std::string_view key, std::string_view value);

 private:
  WeightsShape shape_;
  WeightsJoiner joiner_;
};

}  // namespace millrace
