// Where the named parameters of a job with the model EXTERNAL stand in its key space.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "messages/records.pb.h"

namespace millrace {

// More floats than the memory of any machine that this was written for holds.
inline constexpr uint64_t kMostParameters = uint64_t{1} << 36;

// The keys of each parameter, one behind the other; of a table none. Empty: the job has none of
// either. InvalidArgument with the name and what is wrong: no name or one that is taken, a shape
// without a number in it or too large, a handler that no server has, a multiplier that is none.
// (Servers may have handlers of their own, which other programs do not know: CheckHandlers.)
StatusOr<std::vector<KeyRange>> LayOutParameters(const JobFeatures& features);

// Those keys of a parameter that a shard has; empty: none.
KeyRange PartOf(KeyRange parameter, KeyRange shard);

inline std::span<const float> Values(const ParameterPart& part) {
  return {part.value().data(), static_cast<size_t>(part.value_size())};
}

// Checks parts of a received message: ascending, of parameters that the shard has something of, and
// with a value for each of its keys. `parts_of_shard`: what it has of each. InvalidArgument.
Status CheckParameterParts(const google::protobuf::RepeatedPtrField<ParameterPart>& parts,
                           const std::vector<KeyRange>& parts_of_shard);

}  // namespace millrace
