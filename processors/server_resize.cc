// What changes of a job's number of workers do to a shard.
#include <algorithm>

#include "processors/server_processor.h"

namespace millrace {

void ServerProcessor::HandleResize(const Gradient::Resize& order, ServerOutput& output) {
  if (options_.shard != 0 || order.number() <= ordered_.number || !options_.resizes()) return;
  ordered_ = {.number = order.number(), .workers = order.workers()};
  if (!options_.consistency.sequential()) TryResize(output);
}

// (A worker that joins has no part in a cut that has begun.)
bool ServerProcessor::SnapshotAllowsResize() const {
  return !cut_.open() && !cut_.reached() && !seal_.has_begun() && cut_.AllArePastTheLast(clocks_);
}

// Every shard has to know the workers before it hears of a snapshot: no shard is more updates of a
// worker behind than may be in flight.
bool ServerProcessor::ResizeAllowsSnapshot() const {
  return moments_.resize == size_.number && std::ranges::all_of(members_, [&](const auto& entry) {
           const auto& [worker, member] = entry;
           return member.joined == 0 || clocks_.left(worker) ||
                  clocks_.clock(worker) >= member.joined + options_.pipeline;
         });
}

void ServerProcessor::TryResize(ServerOutput& output) {
  const bool is_due = ordered_.number > size_.number && !lost_ && !clocks_.AllLeft();
  if (!is_due || !SnapshotAllowsResize()) return;
  moments_.resize = ordered_.number;
  moments_.workers = ordered_.workers;
  Resize(ordered_, output);
}

// Not sooner: answers of one clock say the same, whenever they are made.
void ServerProcessor::Announce() {
  const bool is_due = ordered_.number > size_.number && moments_.resize == size_.number;
  if (!is_due || !SnapshotAllowsResize()) return;
  moments_.resize = ordered_.number;
  moments_.workers = ordered_.workers;
}

ServerProcessor::Size ServerProcessor::ToldBy(Updates updates) const {
  Size told = size_;
  for (const Gradient::Update* update : updates) {
    if (update->resize() > told.number) told = {update->resize(), update->workers()};
  }
  return told;
}

// In a sequential job a worker joins where all others are. In others it is the slowest, but no
// message of its life before is to be taken for one of this.
void ServerProcessor::Resize(const Size& size, ServerOutput& output) {
  if (size.number == size_.number || clocks_.AllLeft()) return;
  const Clock all_at = *clocks_.Min();
  for (WorkerId worker(size_.workers); worker < size.workers; ++worker) {
    if (!clocks_.left(worker)) continue;
    const Clock first = clocks_.clock(worker) + 1;
    if (options_.consistency.sequential() && first > all_at) continue;
    Join(worker, std::max(first, all_at), output);
  }
  size_ = size;
}

void ServerProcessor::Join(WorkerId worker, Clock clock, ServerOutput& output) {
  Member& member = members_.at(worker);
  while (!member.held.empty()) TakeHeld(member);
  member.wanted.clear();
  member.joined = clock;
  clocks_.Set(worker, {.clock = clock, .left = false});
  cut_.Join(worker);
  output.answers.push_back(worker);
}

// In a sequential job a round tells it, so that all shards let the worker in with the same one.
// What a worker has sent before it left, each shard has: it leaves when none of it is in flight.
void ServerProcessor::JoinIfTold(WorkerId worker, uint64_t clock, ServerOutput& output) {
  if (options_.shard == 0 || options_.consistency.sequential() || !options_.resizes()) return;
  if (lost_ || clock <= members_.at(worker).joined || clock <= clocks_.clock(worker)) return;
  Join(worker, Clock(clock), output);
}

}  // namespace millrace
