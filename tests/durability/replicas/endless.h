// For tests of what comes, not of when.
#pragma once

#include <chrono>

#include "durability/replicas/replica_client.h"

namespace millrace {

inline ReplicaTimeouts Endless() {
  constexpr std::chrono::minutes kLong(5);
  return {.describe = kLong, .first_piece = kLong, .next_piece = kLong, .before_judging = kLong};
}

}  // namespace millrace
