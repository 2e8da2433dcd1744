// Ties a store to one incarnation of its job's topics.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "stores/ordered_byte_map.h"

namespace millrace {

// A store knows up to which offset it has read a topic. If the topic was deleted and recreated, and
// has grown beyond that offset since, the store would be taken for a prefix of it. So it remembers
// the `generation` of the job's topics (JobRegistry::Generation), too: an empty store takes it
// over. False: it is of another generation, or of none.
StatusOr<bool> ClaimForGeneration(OrderedByteMap& store, uint64_t generation);
// The same; a store of another generation, or of none, is DataLoss, with `folder` and the remedy.
Status ClaimForGeneration(OrderedByteMap& store, uint64_t generation, const std::string& folder);

}  // namespace millrace
