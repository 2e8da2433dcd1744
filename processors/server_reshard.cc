// What a change of the number of shards does to a shard.
#include "processors/server_processor.h"

namespace millrace {

void ServerProcessor::HandleReshard(const Gradient::Reshard& order, ServerOutput& output) {
  if (options_.shard != 0 || lost_ || order.layout() != options_.layout) return;
  // (No master orders it where there are several groups of servers.)
  if (order.shards() == options_.shards || seal_.has_begun() || options_.groups > 1) return;
  // Whoever has ordered it says it again, until it has come to pass.
  const bool is_free =
      SnapshotAllowsResize() && ResizeAllowsSnapshot() && ordered_.number <= size_.number;
  if (!is_free || !seal_.Begin(order.shards(), clocks_)) return;
  for (const auto& [worker, member] : members_) {
    if (!clocks_.left(worker)) output.answers.push_back(worker);
  }
}

// Updates that are held are after the cut: the workers say them again to the next layout's shards.
void ServerProcessor::CheckSeal() {
  if (!seal_.Reach(clocks_)) return;
  for (auto& [worker, member] : members_) {
    while (!member.held.empty()) TakeHeld(member);
  }
}

// Workers that stand before the cut in another shard ask what they need to come to it. Whoever says
// what comes after it is not answered, as at the cut of a snapshot.
void ServerProcessor::HandleWhileSealed(const Gradient& message, ServerOutput& output) {
  if (message.has_ask()) return HandleAsk(message, output);
  const bool is_of_worker = message.has_update() || message.has_leave() || message.has_restore();
  if (is_of_worker && (message.has_restore() || !IsNext(message))) Reply(message, output);
}

}  // namespace millrace
