#include "tests/simulation/resize_desk.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "tasks/counted_rows.h"

namespace millrace::simulation {
namespace {

constexpr int kMostOpen = 4;

}  // namespace

ResizeDesk::ResizeDesk(World& world) : world_(world), workers_(world.scenario.workers) {
  if (!world.scenario.resizes()) return;
  sizes_.push_back(world.scenario.first_workers);
  for (WorkerId worker = 0; worker < world.scenario.workers; ++worker) {
    workers_[worker].leases.set_worker(worker);
    workers_[worker].is_known = worker < world.scenario.first_workers;
    workers_[worker].has_changed = workers_[worker].is_known;
  }
  Publish();
}

void ResizeDesk::Look(const ServerProcessor& shard) {
  CountedRows counted(world_.scenario.workers);
  const std::optional<LeaseCommand> said = counted.Take(shard, world_.now);
  if (said) said_.push_back(said->counted());
}

void ResizeDesk::Take(const LeaseCommand::Counted& counted) {
  for (const LeaseCommand::Counted::Worker& said : counted.worker()) {
    Worker& worker = workers_.at(said.worker());
    WorkerLeases& leases = worker.leases;
    const auto is =
        std::tuple(leases.joined(), leases.counted_rows(), leases.clock(), leases.left());
    if (worker.is_known &&
        std::tuple(said.joined(), said.rows(), said.clock(), said.left()) <= is) {
      continue;
    }
    worker.has_changed = true;
    worker.is_known = true;
    if (said.joined() > leases.joined()) {
      world_.Count(leases.left() ? "a worker that had left joins" : "worker joins");
      leases.set_joined(said.joined());
      leases.set_last(is_over_);
    }
    leases.set_left(said.left());
    leases.set_counted_rows(std::max<uint64_t>(leases.counted_rows(), said.rows()));
    leases.set_clock(said.clock());
    while (leases.open_size() > 0 && leases.open(0).range().end() <= said.rows()) {
      leases.mutable_open()->DeleteSubrange(0, 1);
    }
  }
  resized_ = std::max<uint64_t>(resized_, counted.resize());
}

bool ResizeDesk::IsResizing() const {
  if (resized_ + 1 < sizes_.size()) return true;
  for (uint32_t worker = 0; worker < workers_.size(); ++worker) {
    const Worker& is = workers_[worker];
    if (worker < sizes_.back() ? !is.is_known || is.leases.left()
                               : is.is_known && !is.leases.left()) {
      return true;
    }
  }
  return false;
}

bool ResizeDesk::Resize() {
  const auto all = static_cast<uint32_t>(workers_.size());
  if (IsResizing() || is_over_) return false;
  uint32_t size = all;
  if (world_.faults) {
    if (!world_.random.Chance(0.05)) return false;
    size = static_cast<uint32_t>(world_.random.Between(1, all));
  }
  if (size == sizes_.back()) return false;
  world_.Count(size > sizes_.back() ? "more workers ordered" : "fewer workers ordered");
  sizes_.push_back(size);
  for (uint32_t worker = size; worker < all; ++worker) {
    if (!workers_[worker].is_known || workers_[worker].leases.last()) continue;
    workers_[worker].leases.set_last(true);
    workers_[worker].has_changed = true;
  }
  return true;
}

bool ResizeDesk::GiveLeases(const std::vector<RowNumber>& produced) {
  bool did = false;
  for (WorkerId number = 0; number < workers_.size(); ++number) {
    Worker& worker = workers_[number];
    WorkerLeases& leases = worker.leases;
    const RowNumber all = world_.scenario.rows[number];
    if (!worker.is_known || leases.last() || leases.open_size() == kMostOpen) continue;
    if (leases.next_row() == all || (world_.faults && !world_.random.Chance(0.3))) continue;
    RowNumber end(leases.next_row() + 1);
    while (!world_.scenario.IsLeaseEnd(number, end)) ++end;
    if (produced[number] < end) continue;
    Lease& lease = *leases.add_open();
    lease.mutable_range()->set_partition(number);
    lease.mutable_range()->set_begin(leases.next_row());
    lease.mutable_range()->set_end(end);
    lease.set_number(leases.next_number());
    lease.set_first_row(leases.next_row());
    leases.set_next_number(leases.next_number() + 1);
    leases.set_next_row(end);
    worker.has_changed = true;
    did = true;
  }
  return did;
}

// All rows are leased, to workers that are all there.
bool ResizeDesk::End() {
  if (is_over_ || world_.faults || IsResizing()) return false;
  for (WorkerId number = 0; number < workers_.size(); ++number) {
    const WorkerLeases& leases = workers_[number].leases;
    if (leases.last() || leases.next_row() != world_.scenario.rows[number]) return false;
  }
  return EndNow();
}

bool ResizeDesk::EndNow() {
  if (std::exchange(is_over_, true)) return false;
  std::vector<JoinedWorker> joined;
  for (WorkerId number = 0; number < workers_.size(); ++number) {
    if (IsResizing()) world_.Count("the rows end while workers change");
    const WorkerLeases& leases = workers_[number].leases;
    if (leases.joined() == 0) continue;
    joined.emplace_back().set_worker(number);
    joined.back().set_clock(leases.joined());
  }
  for (Worker& worker : workers_) {
    if (!worker.is_known) continue;
    worker.leases.set_last(true);
    worker.leases.mutable_joined_workers()->Assign(joined.begin(), joined.end());
    worker.has_changed = true;
  }
  return true;
}

bool ResizeDesk::Publish() {
  bool did = false;
  for (WorkerId number = 0; number < workers_.size(); ++number) {
    if (!std::exchange(workers_[number].has_changed, false)) continue;
    world_.plan[number].push_back(workers_[number].leases);
    did = true;
  }
  return did;
}

Gradient ResizeDesk::OrderOf(uint64_t number) const {
  Gradient order;
  order.mutable_resize()->set_number(number);
  order.mutable_resize()->set_workers(sizes_.at(number));
  return order;
}

bool ResizeDesk::Turn(const std::vector<RowNumber>& produced, std::optional<Gradient>& order) {
  // What was said first may come last.
  while (!said_.empty() && (!world_.faults || world_.random.Chance(0.5))) {
    const auto next = said_.begin() + static_cast<ptrdiff_t>(world_.random.Below(said_.size()));
    Take(*next);
    said_.erase(next);
  }
  bool did = Resize();
  did |= GiveLeases(produced);
  did |= End();
  did |= Publish();
  const uint64_t newest = sizes_.size() - 1;
  const bool is_due = world_.faults ? world_.random.Chance(0.1) : ordered_at_rest_ < newest;
  if (resized_ < newest && !is_over_ && (did || is_due)) {
    order = OrderOf(newest);
    if (!world_.faults) ordered_at_rest_ = newest;
    return true;
  }
  if (newest > 1 && world_.Fault("older order said again", 0.05)) {
    order = OrderOf(world_.random.Between(1, newest - 1));
  }
  return did;
}

}  // namespace millrace::simulation
