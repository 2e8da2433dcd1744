// A worker's message where updates are summed by all-reduce: its values apart from the rest.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "messages/records.pb.h"

namespace millrace {

struct SplitMessage {
  Gradient rest;              // of an update with values: its slice has none
  std::vector<float> values;  // one for each key of the range; empty: the rest is all
};

// Takes the values out of an update, so that they can be added to those of others as a shard adds
// them. Of an update that a shard would refuse (IsSane) they stay: each member's shard then refuses
// it, as a server's would, and nothing of it is in the sum.
SplitMessage SplitUpdate(Gradient message, KeyRange range);

// The bytes of the message, with these values in the place of its own. REQUIRES: an update with
// rows; a value for each key of the range. ResourceExhausted when it would be too large.
StatusOr<std::string> JoinUpdate(Gradient rest, std::span<const float> values, KeyRange range);

}  // namespace millrace
