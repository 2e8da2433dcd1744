#include "tests/simulation/checkpoint_history.h"

#include <functional>
#include <string_view>

#include "tasks/checkpoint.h"
#include "tests/simulation/random.h"

namespace millrace::simulation {
namespace {

uint64_t HashOfEntry(std::string_view key, std::string_view value) {
  const std::hash<std::string_view> hash;
  return Random::Hash(hash(key), hash(value), key.size(), value.size());
}

}  // namespace

void CheckpointHistory::Put(const std::string& key, const std::string& value) {
  uint64_t& newest = newest_[key];
  sum_ -= newest;
  newest = value.empty() ? 0 : HashOfEntry(key, value);
  sum_ += newest;
}

std::string CheckpointHistory::Check(const OrderedByteMap& copy) const {
  const StatusOr<Offset> offset = ReadParametersOffset(copy);
  if (!offset.ok()) return "its offset cannot be read";
  const auto checkpoint = after_.find(*offset);
  if (checkpoint == after_.end()) {
    return "no checkpoint ends at its offset " + std::to_string(*offset);
  }
  uint64_t sum = 0;
  const Status scanned = copy.Scan("", "", [&](std::string_view key, std::string_view value) {
    if (key != kParametersOffsetKey) sum += HashOfEntry(key, value);
    return true;
  });
  if (!scanned.ok()) return "it cannot be read";
  if (sum == checkpoint->second) return "";
  return "it is not what parameters said at its offset " + std::to_string(*offset);
}

}  // namespace millrace::simulation
