#include "tasks/shared_weights_reader.h"

#include <optional>
#include <string>
#include <utility>

#include "base/big_endian.h"

namespace millrace {

StatusOr<std::shared_ptr<const SharedWeights>> SharedWeightsReader::Take(std::string_view key,
                                                                         std::string_view value) {
  MILLRACE_ASSIGN_OR_RETURN(const Frame frame, ParseFrame(value));
  std::string_view body = frame.body;
  std::optional<std::string> joined;
  if (frame.is_chunk) {
    const std::optional<uint32_t> shard = DecodeBigEndian32(key.substr(0, 4));
    if (!shard || *shard >= shape_.shards) {
      return absl::InvalidArgumentError("its key is not a shard of this job");
    }
    MILLRACE_ASSIGN_OR_RETURN(joined, chunks_.Add(*shard, frame));
    if (!joined) return std::shared_ptr<const SharedWeights>();
    body = *joined;
  }
  MILLRACE_ASSIGN_OR_RETURN(SharedWeights message, DecodeSharedWeights(body, shape_));
  return std::make_shared<const SharedWeights>(std::move(message));
}

}  // namespace millrace
