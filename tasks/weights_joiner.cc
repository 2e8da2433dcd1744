#include "tasks/weights_joiner.h"

#include <utility>

#include "base/big_endian.h"

namespace millrace {

StatusOr<std::optional<std::string_view>> WeightsJoiner::Take(std::string_view key,
                                                              std::string_view value) {
  MILLRACE_ASSIGN_OR_RETURN(const Frame frame, ParseFrame(value));
  if (!frame.is_chunk) return std::optional(frame.body);
  const std::optional<uint32_t> shard = DecodeBigEndian32(key.substr(0, 4));
  if (!shard || *shard >= shards_) {
    return absl::InvalidArgumentError("its key is not a shard of this job");
  }
  MILLRACE_ASSIGN_OR_RETURN(std::optional<std::string> joined, chunks_.Add(*shard, frame));
  if (!joined) return std::optional<std::string_view>();
  joined_ = *std::move(joined);
  return std::optional<std::string_view>(joined_);
}

}  // namespace millrace
