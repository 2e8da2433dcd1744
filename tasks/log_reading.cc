#include "tasks/log_reading.h"

#include <utility>

#include "messages/records.pb.h"

namespace millrace {

void LogReading::Take(const SharedWeights& shared, Way way) {
  if (IsNew(shared)) TakeOwn(way);
}

void LogReading::TakeOwn(Way way) { straight_ = way == Way::kStream ? straight_ + 1 : 0; }

bool LogReading::TakeEnd() {
  if (!reads_ || straight_ < kEnough) return false;
  reads_ = false;
  return true;
}

bool LogReading::Begin() {
  straight_ = 0;
  versions_.clear();  // a server that has lost its state may begin before the last one
  return !std::exchange(reads_, true);
}

bool LogReading::IsNew(const SharedWeights& shared) {
  if (shared.answers().empty()) return false;
  const auto [last, is_first] = versions_.try_emplace(ShardId(shared.shard()), shared.version());
  if (is_first) return true;
  if (shared.version() <= last->second) return false;
  last->second = shared.version();
  return true;
}

}  // namespace millrace
