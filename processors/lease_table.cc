#include "processors/lease_table.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "base/check.h"
#include "processors/policy.h"
#include "topics/lease_codec.h"
#include "topics/message_codec.h"
#include "topics/topics.h"

namespace millrace {
namespace {

Status BadLeases(const std::string& reason) { return absl::InvalidArgumentError(reason); }

std::string NameOfInput(uint32_t partition) {
  return "partition " + std::to_string(partition) + " of input-data";
}

std::string NameOfWorker(uint32_t worker) { return "worker " + std::to_string(worker); }

// Whether the keys are 0 .. size - 1, each beside what says the same.
template <typename States, typename NumberOf>
bool IsDense(const States& states, const NumberOf& number_of) {
  uint32_t next = 0;
  return std::ranges::all_of(states, [&](const auto& entry) {
    return entry.first == next++ && number_of(entry.second) == entry.first;
  });
}

}  // namespace

uint32_t OpenLeases(uint32_t shards, size_t pipeline) {
  static_assert(kMostPipeline + 2 <= kMostOpenLeases);
  return static_cast<uint32_t>(std::max<size_t>(UpdatesAhead(shards, pipeline) + 2, 3));
}

// ---- commands ----

Status LeaseTable::Apply(const LeaseCommand& command) {
  switch (command.what_case()) {
    case LeaseCommand::kBegin:
      return Begin(command.begin());
    case LeaseCommand::kCut:
      return Cut(command.cut());
    case LeaseCommand::kEnd:
      return End(command.end());
    case LeaseCommand::kCounted:
      return Count(command.counted());
    case LeaseCommand::kResize:
      return Resize(command.resize());
    case LeaseCommand::WHAT_NOT_SET:
      break;
  }
  MILLRACE_CHECK(false);  // CheckLeaseCommand refuses it
}

Status LeaseTable::Begin(const LeaseCommand::Begin& begin) {
  const uint32_t most_workers = std::max(begin.most_workers(), begin.workers());
  if (has_begun()) {
    if (most_workers_ == most_workers && inputs_.size() == begin.partitions() &&
        open_leases_ == begin.open_leases()) {
      return absl::OkStatus();
    }
    return BadLeases("the job has begun to lease rows of " + std::to_string(inputs_.size()) +
                     " partitions to at most " + std::to_string(most_workers_) + " workers, " +
                     std::to_string(open_leases_) + " each; a second beginning names " +
                     std::to_string(begin.partitions()) + ", " + std::to_string(most_workers) +
                     " and " + std::to_string(begin.open_leases()));
  }
  size_ = begin.workers();
  most_workers_ = most_workers;
  for (uint32_t worker = 0; worker < begin.workers(); ++worker) {
    workers_[worker].set_worker(worker);
    changed_workers_.insert(worker);
  }
  for (uint32_t partition = 0; partition < begin.partitions(); ++partition) {
    inputs_[partition].set_partition(partition);
    changed_inputs_.insert(partition);
  }
  open_leases_ = begin.open_leases();
  free_changed_ = true;
  return absl::OkStatus();
}

StatusOr<InputState*> LeaseTable::InputOf(uint32_t partition) {
  const auto input = inputs_.find(partition);
  if (input != inputs_.end()) return &input->second;
  return BadLeases(has_begun() ? "the job does not lease rows of " + NameOfInput(partition)
                               : std::string("the job does not lease rows"));
}

Status LeaseTable::Cut(const LeaseCommand::Cut& cut) {
  MILLRACE_ASSIGN_OR_RETURN(InputState * input, InputOf(cut.partition()));
  // Said again, maybe by a master that began earlier, and cut elsewhere.
  if (cut.begin() < input->cut_row()) return absl::OkStatus();
  const std::string name = NameOfInput(cut.partition());
  if (cut.begin() > input->cut_row()) {
    return BadLeases("a cut of " + name + " begins at row " + std::to_string(cut.begin()) +
                     ", but the last cut ended at row " + std::to_string(input->cut_row()) +
                     ": the rows between are missing");
  }
  if (input->ended()) return BadLeases(name + " is cut after its end was reported");
  if (cut.next_offset() <= input->cut_offset()) {
    return BadLeases("a cut of " + name + " ends at offset " + std::to_string(cut.next_offset()) +
                     ", but the last one ended at offset " + std::to_string(input->cut_offset()));
  }
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("rows that are leased, of all partitions:",
                                       cut_rows() + (cut.end() - cut.begin()), kMostLeaseNumber));
  if (free_.size() >= kMostFreeRanges) {
    return BadLeases(std::to_string(kMostFreeRanges) +
                     " ranges of rows are free already, the most that there may be: cut again when "
                     "workers have taken some");
  }
  InputRange& range = free_.emplace_back();
  range.set_partition(cut.partition());
  range.set_begin(cut.begin());
  range.set_end(cut.end());
  range.set_offset(input->cut_offset());
  free_changed_ = true;
  input->set_cut_row(cut.end());
  input->set_cut_offset(cut.next_offset());
  changed_inputs_.insert(cut.partition());
  Deal();
  return absl::OkStatus();
}

Status LeaseTable::End(const LeaseCommand::End& end) {
  MILLRACE_ASSIGN_OR_RETURN(InputState * input, InputOf(end.partition()));
  if (end.rows() != input->cut_row()) {
    return BadLeases(NameOfInput(end.partition()) + " is said to have " +
                     std::to_string(end.rows()) + " rows, but " + std::to_string(input->cut_row()) +
                     " have been cut");
  }
  if (input->ended()) return absl::OkStatus();
  input->set_ended(true);
  changed_inputs_.insert(end.partition());
  Deal();
  return absl::OkStatus();
}

Status LeaseTable::Count(const LeaseCommand::Counted& counted) {
  if (!has_begun()) return BadLeases("the job does not lease rows");
  for (const LeaseCommand::Counted::Worker& said : counted.worker()) {
    MILLRACE_RETURN_IF_ERROR(CheckCount(said));
  }
  if (counted.resize() > resize_) {
    return BadLeases("shard 0 has carried out a change of the workers, number " +
                     std::to_string(counted.resize()) + ", that was never ordered");
  }
  for (const LeaseCommand::Counted::Worker& said : counted.worker()) Take(said);
  free_changed_ |= counted.resize() > resized_;
  resized_ = std::max(resized_, counted.resize());
  Deal();
  return absl::OkStatus();
}

Status LeaseTable::CheckCount(const LeaseCommand::Counted::Worker& said) const {
  const auto worker = workers_.find(said.worker());
  const bool joins = worker == workers_.end() && said.joined() > 0 && said.worker() < size_;
  if (worker == workers_.end() && !joins) {
    return BadLeases("rows are counted of " + NameOfWorker(said.worker()) +
                     ", but the job has only workers 0 to " +
                     std::to_string(workers_.rbegin()->first));
  }
  const uint64_t leased = joins ? 0 : worker->second.next_row();
  const uint64_t rows = std::max(said.rows(), said.taken());
  if (rows <= leased) return absl::OkStatus();
  return BadLeases("the shards have counted " + std::to_string(rows) + " rows of " +
                   NameOfWorker(said.worker()) + ", but only " + std::to_string(leased) +
                   " were leased to it");
}

void LeaseTable::Take(const LeaseCommand::Counted::Worker& said) {
  const auto [place, is_new] = workers_.try_emplace(said.worker());
  WorkerLeases& worker = place->second;
  worker.set_worker(said.worker());
  // A server that was replaced may say it late.
  const auto order = [](const auto& of, uint64_t rows, uint64_t taken) {
    return std::tuple(of.joined(), rows, of.clock(), taken, of.left());
  };
  const uint64_t taken = std::max(said.rows(), said.taken());
  if (!is_new && order(said, said.rows(), taken) <=
                     order(worker, worker.counted_rows(), worker.taken_rows())) {
    return;
  }
  changed_workers_.insert(said.worker());
  if (said.joined() > worker.joined()) {
    worker.set_joined(said.joined());
    worker.set_last(false);
    worker.set_left(false);
    BeginEqualShares();
  }
  worker.set_counted_rows(std::max(said.rows(), worker.counted_rows()));
  worker.set_taken_rows(std::max(taken, worker.taken_rows()));
  worker.set_clock(said.clock());
  worker.set_left(said.left() && worker.last());
  int done = 0;
  while (done < worker.open_size() && EndRowOf(worker.open(done)) <= said.rows()) ++done;
  worker.mutable_open()->DeleteSubrange(0, done);
}

void LeaseTable::BeginEqualShares() {
  for (auto& [number, worker] : workers_) {
    worker.set_shares_from(worker.next_row());
    changed_workers_.insert(number);
  }
}

// ---- how many workers there are ----

bool LeaseTable::IsResizing() const {
  if (resized_ < resize_) return true;
  if (IsOver()) return false;  // who leaves now has come to the end
  for (uint32_t number = 0; number < size_; ++number) {
    const auto worker = workers_.find(number);
    if (worker == workers_.end() || worker->second.left()) return true;
  }
  return std::ranges::any_of(
      workers_, [this](const auto& entry) { return entry.first >= size_ && !entry.second.left(); });
}

std::set<uint32_t> LeaseTable::IdleWorkers() const {
  std::set<uint32_t> idle;
  for (const auto& [number, worker] : workers_) {
    if (worker.left() && (number >= size_ || !IsOver())) idle.insert(number);
  }
  return idle;
}

std::optional<ResizeOrder> LeaseTable::order() const {
  if (resized_ == resize_) return std::nullopt;
  return ResizeOrder{.number = resize_, .workers = size_};
}

Status LeaseTable::Resize(const LeaseCommand::Resize& resize) {
  if (!has_begun()) {
    return BadLeases(
        "the job leases no rows, so its number of workers cannot be changed: that needs --sharding "
        "dynamic, from the job's beginning on");
  }
  const std::string what =
      "a change to " + std::to_string(resize.workers()) + " workers is refused";
  if (resize.workers() > most_workers_) {
    return BadLeases(what + ": the job may have at most " + std::to_string(most_workers_) +
                     " (--max-workers, when it was begun)");
  }
  if (IsOver()) {
    return BadLeases(what + ": all rows are leased, and the job ends with the workers that it has");
  }
  if (resize.workers() == size_) return absl::OkStatus();
  if (IsResizing()) {
    return BadLeases(what + ": the job is still changing to " + std::to_string(size_) +
                     "; order it again when that is done");
  }
  ++resize_;
  size_ = resize.workers();
  free_changed_ = true;
  for (auto& [number, worker] : workers_) {
    if (number < size_ || worker.last()) continue;
    worker.set_last(true);
    changed_workers_.insert(number);
  }
  return absl::OkStatus();
}

// ---- who gets what ----

WorkerLeases* LeaseTable::NextToGet() {
  const auto order = [](const WorkerLeases& worker) {
    return std::tuple(worker.next_row() - worker.taken_rows(),
                      worker.next_row() - worker.shares_from());
  };
  WorkerLeases* next = nullptr;
  for (auto& [number, worker] : workers_) {
    if (worker.last() || static_cast<uint32_t>(worker.open_size()) >= open_leases_) continue;
    if (next == nullptr || order(worker) < order(*next)) next = &worker;
  }
  return next;
}

void LeaseTable::Deal() {
  while (!free_.empty()) {
    WorkerLeases* const worker = NextToGet();
    if (worker == nullptr) return;
    Lease& lease = *worker->add_open();
    *lease.mutable_range() = free_.front();
    lease.set_number(worker->next_number());
    lease.set_first_row(worker->next_row());
    worker->set_next_number(worker->next_number() + 1);
    worker->set_next_row(EndRowOf(lease));
    changed_workers_.insert(worker->worker());
    free_.pop_front();
    free_changed_ = true;
  }
  if (IsOver()) End();
}

// Those that are told so first share what is behind the last rows; or the first has all of it,
// while one of them is not known yet. (Who joins later comes to work that is done; who has left, or
// is about to, has none of it.)
void LeaseTable::End() {
  std::vector<WorkerLeases*> told;
  std::vector<JoinedWorker> joined;
  uint32_t readers = 0;
  for (auto& [number, worker] : workers_) {
    readers += worker.tail_readers() > 0 ? 1 : 0;
    if (!worker.last()) told.push_back(&worker);
    if (worker.joined() == 0) continue;
    joined.emplace_back().set_worker(number);
    joined.back().set_clock(worker.joined());
  }
  bool are_first = true;
  for (size_t i = 0; i < told.size(); ++i) are_first &= told[i]->worker() == i;
  for (WorkerLeases* const worker : told) {
    worker->set_last(true);
    if (readers == 0 && are_first) {
      worker->set_tail_readers(static_cast<uint32_t>(told.size()));
    } else if (readers == 0 && worker->worker() == 0) {
      worker->set_tail_readers(1);
    }
    worker->mutable_joined_workers()->Assign(joined.begin(), joined.end());
    changed_workers_.insert(worker->worker());
  }
}

bool LeaseTable::IsOver() const {
  return free_.empty() &&
         std::ranges::all_of(inputs_, [](const auto& input) { return input.second.ended(); });
}

// ---- questions ----

bool LeaseTable::WantsCuts() const {
  const auto there = static_cast<size_t>(
      std::ranges::count_if(workers_, [](const auto& entry) { return !entry.second.last(); }));
  return free_.size() < std::min(kFreePerWorker * there, kMostFreeRanges / 2);
}

uint64_t LeaseTable::cut_rows() const {
  uint64_t rows = 0;
  for (const auto& [partition, input] : inputs_) rows += input.cut_row();
  return rows;
}

Offset LeaseTable::NeededFrom(uint32_t partition) const {
  int64_t least = inputs_.at(partition).cut_offset();
  const auto note = [&](const InputRange& range) {
    if (range.partition() == partition) least = std::min(least, range.offset());
  };
  for (const InputRange& range : free_) note(range);
  for (const auto& [number, worker] : workers_) {
    for (const Lease& lease : worker.open()) note(lease.range());
  }
  return Offset(least);
}

// ---- the records of `plan` ----

FreeLeases LeaseTable::SaveFree() const {
  FreeLeases saved;
  saved.set_open_leases(open_leases_);
  saved.set_workers(size_);
  saved.set_most_workers(most_workers_);
  saved.set_resize(resize_);
  saved.set_resized(resized_);
  for (const InputRange& range : free_) *saved.add_range() = range;
  return saved;
}

Status LeaseTable::Load(Workers workers, Inputs inputs, const FreeLeases* free) {
  workers_ = std::move(workers);
  inputs_ = std::move(inputs);
  if (has_begun() != (free != nullptr)) {
    return BadLeases("the record free-leases is missing, or it is there without leases");
  }
  if (free != nullptr) {
    free_.assign(free->range().begin(), free->range().end());
    open_leases_ = free->open_leases();
    size_ = free->workers();
    most_workers_ = free->most_workers();
    resize_ = free->resize();
    resized_ = free->resized();
  }
  return Check();
}

Status LeaseTable::Check() const {
  if (workers_.empty() != inputs_.empty()) {
    return BadLeases("there are records lease: without records input:, or the reverse");
  }
  // (Of those that have joined, some may not be known yet.)
  const bool are_named = std::ranges::all_of(
      workers_, [](const auto& entry) { return entry.second.worker() == entry.first; });
  if (!are_named || (has_begun() && !workers_.contains(0)) ||
      !IsDense(inputs_, [](const InputState& input) { return input.partition(); })) {
    return BadLeases("a record lease: or input: is missing, or has another number than its key");
  }
  if (has_begun()) MILLRACE_RETURN_IF_ERROR(CheckSize());
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("free ranges of rows:", free_.size(), kMostFreeRanges));
  for (const InputRange& range : free_) MILLRACE_RETURN_IF_ERROR(CheckInputRange(range));
  for (const auto& [partition, input] : inputs_) MILLRACE_RETURN_IF_ERROR(CheckInputState(input));
  const bool is_over = IsOver();
  for (const auto& [number, worker] : workers_) {
    MILLRACE_RETURN_IF_ERROR(CheckWorkerLeases(worker));
    const bool ends = is_over || number >= size_ || worker.left();
    if (worker.last() != ends || (worker.left() && worker.open_size() > 0)) {
      return BadLeases(
          NameOfWorker(number) + (ends ? " is not told" : " is told") +
          " that its leases are the last, or has left before it was through with them");
    }
    const auto open = static_cast<uint32_t>(worker.open_size());
    MILLRACE_RETURN_IF_ERROR(
        CheckAtMost("open leases of " + NameOfWorker(number) + ":", open, open_leases_));
    const bool has_room = open < open_leases_ && !worker.last();
    if (has_room && !free_.empty()) {
      return BadLeases(NameOfWorker(number) + " has too few leases although ranges are free");
    }
  }
  MILLRACE_RETURN_IF_ERROR(CheckSums());
  return CheckRanges();
}

Status LeaseTable::CheckSize() const {
  MILLRACE_RETURN_IF_ERROR(CheckOpenLeases(open_leases_));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("workers:", most_workers_, kMostWorkers));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("workers:", size_, most_workers_));
  if (size_ > 0 && workers_.rbegin()->first < most_workers_ && resized_ <= resize_) {
    return absl::OkStatus();
  }
  return BadLeases("the record free-leases has other workers than those that rows are leased to");
}

// Each row that was cut has been given, or is free.
Status LeaseTable::CheckSums() const {
  uint64_t rows = 0;
  for (const InputRange& range : free_) rows += RowsOf(range);
  for (const auto& [number, worker] : workers_) rows += worker.next_row();
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("rows that are leased:", rows, kMostLeaseNumber));
  if (rows == cut_rows()) return absl::OkStatus();
  return BadLeases(std::to_string(rows) + " rows are leased, or free, but " +
                   std::to_string(cut_rows()) + " have been cut");
}

// No two have a row in common, and they begin in the log in the order of their rows.
Status LeaseTable::CheckRanges() const {
  std::vector<const InputRange*> ranges;
  for (const InputRange& range : free_) ranges.push_back(&range);
  for (const auto& [number, worker] : workers_) {
    for (const Lease& lease : worker.open()) ranges.push_back(&lease.range());
  }
  std::ranges::sort(ranges, [](const InputRange* a, const InputRange* b) {
    return std::pair(a->partition(), a->begin()) < std::pair(b->partition(), b->begin());
  });
  const InputRange* before = nullptr;
  for (const InputRange* range : ranges) {
    const std::string name = NameOfInput(range->partition());
    const auto input = inputs_.find(range->partition());
    if (input == inputs_.end()) return BadLeases("the job does not lease rows of " + name);
    if (range->end() > input->second.cut_row() || range->offset() >= input->second.cut_offset()) {
      return BadLeases("rows of " + name + " are leased, or free, and have not been cut");
    }
    const bool follows = before == nullptr || before->partition() != range->partition() ||
                         (before->end() <= range->begin() && before->offset() < range->offset());
    if (!follows) return BadLeases("two ranges of " + name + " overlap");
    before = range;
  }
  return absl::OkStatus();
}

}  // namespace millrace
