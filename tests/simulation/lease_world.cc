#include "tests/simulation/lease_world.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "processors/input_cutter.h"
#include "processors/master_processor.h"
#include "tests/simulation/calling_masters.h"
#include "tests/simulation/lease_input.h"
#include "tests/simulation/lease_worker.h"
#include "tests/simulation/random.h"
#include "tests/simulation/simulated_plan.h"
#include "topics/control_codec.h"
#include "topics/lease_codec.h"

namespace millrace::simulation {
namespace {

constexpr uint64_t kTroubledLeaseTurns = 1'500;
constexpr uint64_t kMostQuietLeaseTurns = 60'000;
constexpr size_t kMostInstances = 2;  // of a worker

using LeaseMasters = CallingMasters<InputCutter>;

class LeaseWorld {
 public:
  LeaseWorld(uint64_t seed, LeaseError error) : random_(seed), error_(error) {
    const auto partitions = static_cast<uint32_t>(random_.Between(1, 3));
    for (uint32_t i = 0; i < partitions; ++i) inputs_.emplace_back(i, random_.Below(60));
    first_workers_ = static_cast<uint32_t>(random_.Between(1, 4));
    size_ = first_workers_;
    workers_.resize(first_workers_ + random_.Below(4));
    for (uint32_t i = first_workers_; i < workers_.size(); ++i) workers_[i].left = true;
    for (uint32_t i = 0; i < workers_.size(); ++i) workers_[i].instances.push_back(NewInstance(i));
    lease_rows_ = random_.Between(1, 12);
    ControlRecord begin = NewControl();
    begin.mutable_lease()->mutable_begin()->set_workers(first_workers_);
    begin.mutable_lease()->mutable_begin()->set_most_workers(
        static_cast<uint32_t>(workers_.size()));
    begin.mutable_lease()->mutable_begin()->set_partitions(partitions);
    begin.mutable_lease()->mutable_begin()->set_open_leases(3);
    Append(EncodeControl(begin));
  }

  SeedOutcome Run() {
    for (uint64_t turn = 0; turn < kTroubledLeaseTurns && IsRight(); ++turn) TroubledTurn();
    is_quiet_ = true;
    for (uint64_t turn = 0; turn < kMostQuietLeaseTurns && IsRight() && !IsOver(); ++turn) {
      QuietTurn();
    }
    if (IsRight()) CheckRest();
    return std::move(outcome_);
  }

 private:
  using Master = LeaseMasters::Master;
  using Step = LeaseMasters::Step;

  // What shard 0 has of a worker, and who says that they are it.
  struct Worker {
    uint64_t clock = 0;
    uint64_t rows = 0;
    uint64_t joined = 0;
    bool left = false;
    std::vector<std::unique_ptr<LeaseInstance>> instances;
    std::vector<PlannedWork> plan;  // its records, as committed
    std::map<uint64_t, Lease> leases;
  };

  bool IsRight() const { return outcome_.violation.empty(); }
  void Violate(const std::string& what) {
    if (IsRight()) outcome_.violation = what;
  }
  void Cover(const std::string& what) { ++outcome_.coverage[what]; }
  bool IsOver() const {
    return std::ranges::all_of(workers_, [](const Worker& worker) { return worker.left; });
  }

  // What happens.

  void TroubledTurn() {
    const uint64_t kind = random_.Below(100);
    if (masters_.empty() || (kind < 1 && masters_.has_room())) return masters_.Begin();
    if (kind < 2) return masters_.KillOne();
    if (kind < 4) return RepeatRecord();
    if (kind < 6) return TroubleAWorker(workers_[random_.Below(workers_.size())]);
    if (kind < 8) return DeliverAgain();
    if (kind < 9) return OrderSize();
    Turn();
  }

  void QuietTurn() {
    if (!masters_.HasNewest()) masters_.Begin();
    Turn();
  }

  void Turn() {
    const uint64_t kind = random_.Below(100);
    if (kind < 6) return inputs_[random_.Below(inputs_.size())].Produce(random_);
    if (kind < 12) return SayCounted();
    if (kind < 50) return MoveMaster(masters_.Draw());
    Worker& worker = workers_[random_.Below(workers_.size())];
    MoveInstance(worker, *worker.instances[random_.Below(worker.instances.size())]);
  }

  void RepeatRecord() {
    const std::optional<std::string>& old = control_[random_.Below(control_.size())];
    if (!old) return;
    Cover("record repeated");
    Append(std::string(*old));
  }

  static std::unique_ptr<LeaseInstance> NewInstance(uint32_t worker) {
    auto instance = std::make_unique<LeaseInstance>();
    instance->worker = worker;
    return instance;
  }

  void TroubleAWorker(Worker& worker) {
    const uint32_t number = worker.instances.front()->worker;
    if (worker.instances.size() < kMostInstances && random_.Chance(0.5)) {
      Cover("zombie of a worker");
      worker.instances.push_back(NewInstance(number));
      return;
    }
    Cover("worker killed");
    worker.instances.erase(worker.instances.begin() +
                           static_cast<int64_t>(random_.Below(worker.instances.size())));
    if (worker.instances.empty()) worker.instances.push_back(NewInstance(number));
  }

  void DeliverAgain() {
    if (updates_.empty()) return;
    Cover("update said again");
    Accept(LeaseUpdate(updates_[random_.Below(updates_.size())]));
  }

  // A person wants another number of workers; maybe more than there may be, or while others come.
  void OrderSize() {
    ControlRecord record = NewControl();
    record.mutable_lease()->mutable_resize()->set_workers(
        static_cast<uint32_t>(random_.Between(1, workers_.size() + 1)));
    Append(EncodeControl(record));
  }

  // Shard 0: what a master tells it, maybe one that was fenced long ago.
  void TakeOrder(const ResizeOrder& order) {
    const bool is_news = order.number > resize_ || error_ == LeaseError::kFollowsOldOrders;
    if (!is_news || order.number == resize_ || IsOver()) return Cover("order said again");
    Cover(order.workers > size_ ? "more workers" : "fewer workers");
    resize_ = order.number;
    for (uint32_t i = size_; i < order.workers; ++i) {
      Worker& worker = workers_.at(i);
      if (!worker.left) continue;
      if (worker.joined > 0 || i < first_workers_) Cover("worker joins again");
      worker.left = false;
      worker.clock = worker.clock + 1 + random_.Below(3);
      worker.joined = worker.clock;
    }
    size_ = order.workers;
  }

  // A server says what shard 0 has, or one that was replaced what it had.
  void SayCounted() {
    LeaseCommand command;
    for (uint32_t i = 0; i < workers_.size(); ++i) {
      const bool has_been_there = i < first_workers_ || workers_[i].joined > 0;
      if (!has_been_there || random_.Chance(0.3)) continue;
      LeaseCommand::Counted::Worker& said = *command.mutable_counted()->add_worker();
      said.set_worker(i);
      said.set_rows(workers_[i].rows + (error_ == LeaseError::kCountsAhead ? 1 : 0));
      said.set_clock(workers_[i].clock);
      said.set_joined(workers_[i].joined);
      said.set_left(workers_[i].left);
      if (error_ == LeaseError::kCountsAhead && workers_[i].rows == 0) said.set_rows(0);
      if (error_ == LeaseError::kCountsForAnother) {
        said.set_rows(workers_[(i + 1) % workers_.size()].rows);
      }
    }
    if (!command.has_counted()) return;
    command.mutable_counted()->set_resize(resize_);
    counts_.push_back(command);
    if (!is_quiet_ && random_.Chance(0.2)) {
      Cover("count of an older server");
      command = counts_[random_.Below(counts_.size())];
    }
    ControlRecord record = NewControl();
    *record.mutable_lease() = std::move(command);
    Append(EncodeControl(record));
  }

  // A worker.

  void MoveInstance(Worker& worker, LeaseInstance& instance) {
    switch (random_.Below(4)) {
      case 0:
        if (worker.clock < instance.joined) return;  // it has not joined, says the shard
        instance.progress = {.clock = Clock(worker.clock), .rows_end = RowNumber(worker.rows)};
        if (instance.reading) instance.reading->batches.Forget(instance.progress);
        return;
      case 1:
        return FollowPlan(worker, instance);
      case 2:
        return ReadRows(worker, instance);
      default:
        return Train(instance);
    }
  }

  void FollowPlan(const Worker& worker, LeaseInstance& instance) {
    if (worker.plan.empty()) return;
    const size_t least = std::max<size_t>(instance.plan_seen, 1);
    instance.plan_seen = random_.Between(least, worker.plan.size());
    auto [leases, tails] = worker.plan[instance.plan_seen - 1];
    if (error_ == LeaseError::kLeavesEndsUnread) tails.clear();
    if (instance.reading && instance.joined == leases.joined()) {
      const StatusOr<bool> followed = instance.reading->rows.Follow(leases, tails);
      if (!followed.ok()) return Violate(std::string(followed.status().message()));
      if (*followed || error_ == LeaseError::kStaysWithOldLeases) return;
      Cover("leases missed");
    }
    if (instance.joined != leases.joined()) {
      instance.joined = leases.joined();
      instance.progress = {.clock = Clock(worker.clock), .rows_end = RowNumber(worker.rows)};
    }
    const bool ends_at_leases = error_ != LeaseError::kLearnsAcrossLeases;
    instance.reading = std::make_unique<LeaseInstance::Reading>(leases, tails, ends_at_leases);
  }

  void ReadRows(const Worker& worker, LeaseInstance& instance) {
    if (!instance.reading || !instance.reading->batches.WantsRows()) return;
    const std::optional<LeasedRows::Place> place = instance.reading->rows.next();
    if (!place) return;
    const LeaseInput& input = inputs_.at(place->partition);
    const auto offset = static_cast<size_t>(int64_t{place->offset});
    if (offset < input.begin()) {
      const WorkerLeases& newest = worker.plan.back().leases;
      const bool is_tail = place->lease >= newest.next_number();
      const bool is_open = is_tail || std::ranges::any_of(newest.open(), [&](const Lease& lease) {
                             return lease.number() == place->lease;
                           });
      if (is_open) return Violate("rows that are leased were deleted");
      Cover("rows of a lease that is done are gone");
      instance.reading.reset();
      return;
    }
    if (offset >= input.end()) return Violate("rows are leased that nobody has written");
    const Status read = instance.reading->rows.Process(input.At(offset));
    if (!read.ok()) Violate(std::string(read.message()));
    const bool is_end = input.has_ended() && offset + 1 == input.end();
    if (is_end) ends_read_.insert(place->partition);
  }

  void Train(LeaseInstance& instance) {
    if (!instance.reading) return;
    Batch batch;
    const StatusOr<BatchState> state = instance.reading->batches.Next(instance.progress, batch);
    if (!state.ok()) {  // an answer of long ago, or leases of long ago
      Cover("rows before the first lease");
      instance.reading.reset();
      return;
    }
    if (*state == BatchState::kWait) return;
    LeaseUpdate update{.worker = instance.worker,
                       .clock = instance.progress.clock,
                       .begin = instance.progress.rows_end,
                       .end = instance.progress.rows_end,
                       .joined = instance.joined,
                       .leaves = *state == BatchState::kLeave};
    if (*state == BatchState::kReady) {
      update.end = batch.rows_end;
      for (const Row* row : batch.rows) update.values.push_back(row->numeric[0]);
    }
    updates_.push_back(update);
    if (!is_quiet_ && random_.Chance(0.1)) return Cover("update late");  // maybe it never comes
    Accept(update);
  }

  // Shard 0: law 3. What it counts is judged by the leases and the log alone.
  void Accept(const LeaseUpdate& update) {
    Worker& worker = workers_[update.worker];
    const bool is_of_this_life =
        update.joined == worker.joined || error_ == LeaseError::kAcceptsAnyLife;
    const bool is_due =
        (update.clock == worker.clock && is_of_this_life) || error_ == LeaseError::kAcceptsAnyClock;
    if (update.clock == worker.clock && !is_of_this_life) Cover("update of a life that is over");
    if (!is_due || worker.left) return Cover("update of another clock");
    if (update.begin != worker.rows) return Violate("an update of the due clock has other rows");
    worker.left = update.leaves;
    if (update.leaves) return CheckLeave(worker);
    ++worker.clock;
    worker.rows = update.end;
    Cover("update counted");
    const auto behind = std::ranges::find_if(
        worker.leases, [&](const auto& lease) { return update.begin < EndRowOf(lease.second); });
    if (behind == worker.leases.end()) return Violate("an update of rows that were not leased");
    const Lease& lease = behind->second;
    const InputRange& range = lease.range();
    const uint64_t row = range.begin() + (update.begin - lease.first_row());
    const uint64_t end = inputs_.at(range.partition()).EndOfBatchAt(range, row);
    if (update.end - update.begin != end - row || update.values.size() != end - row) {
      return Violate("a batch ends elsewhere than its lease and the log say");
    }
    for (uint64_t i = row; i < end; ++i) {
      if (update.values[i - row] != ValueOfLeasedRow(range.partition(), i)) {
        return Violate("a batch has other rows than its lease says");
      }
      if (!learnt_.emplace(range.partition(), i).second) return Violate("a row is learnt twice");
    }
  }

  void CheckLeave(const Worker& worker) {
    Cover("worker left");
    for (const InputState& tail : worker.plan.back().tails) {
      if (!ends_read_.contains(tail.partition())) Violate("nobody has read to a partition's end");
    }
    const WorkerLeases& newest = worker.plan.back().leases;
    if (!newest.last() || worker.rows != newest.next_row()) {
      Violate("a worker has left before the end of its leases");
    }
  }

  // A master.

  void MoveMaster(Master& master) {
    switch (master.step) {
      case Step::kFence:
        return masters_.Fence(master);
      case Step::kRestore:
        return Restore(master);
      case Step::kFold:
        FoldSome(master);
        master.step = Step::kCommit;
        return;
      case Step::kCommit:
        if (masters_.IsFenced(master)) return masters_.End(master);
        return Commit(master);
      case Step::kAnswer:
        if (const auto order = master.processor->leases().order()) orders_.push_back(*order);
        if (!orders_.empty() && random_.Chance(0.5)) {
          const bool is_old = !is_quiet_ && random_.Chance(0.3);
          TakeOrder(is_old ? orders_[random_.Below(orders_.size())] : orders_.back());
        }
        Trim(master);
        master.step = Step::kFold;
        return;
    }
  }

  void Restore(Master& master) {
    StatusOr<MasterProcessor> restored = MasterProcessor::Restore(kMasterEpoch, plan_);
    if (!restored.ok()) return Violate("not restored: " + std::string(restored.status().message()));
    master.processor.emplace(*std::move(restored));
    master.changes.clear();
    master.next = static_cast<size_t>(int64_t{master.processor->next_offset()});
    while (master.next < control_.size()) FoldInto(*master.processor, master.next++);
    master.calls.emplace(lease_rows_, kLeaseShape, master.processor->leases());
    master.step = Step::kFold;
  }

  void FoldSome(Master& master) {
    const size_t left = control_.size() - master.next;
    for (size_t count = random_.Chance(0.7) ? left : random_.Below(left + 1); count > 0; --count) {
      FoldInto(*master.processor, master.next++);
    }
  }

  void FoldInto(MasterProcessor& processor, size_t offset) {
    if (const std::optional<std::string>& value = control_[offset]; value) {
      processor.Fold(Offset(offset), AsMisread(processor.leases(), *value));
    }
  }

  // What a fold with the planted error makes of a record.
  std::string AsMisread(const LeaseTable& leases, const std::string& value) const {
    if (error_ != LeaseError::kCountsRepeats && error_ != LeaseError::kSkipsARecord) return value;
    StatusOr<ControlRecord> record = DecodeControl(value, kMasterEpoch);
    if (!record.ok() || !record->lease().has_cut() || !leases.has_begun()) return value;
    LeaseCommand::Cut& cut = *record->mutable_lease()->mutable_cut();
    const InputState& input = leases.inputs().at(cut.partition());
    if (error_ == LeaseError::kSkipsARecord) cut.set_next_offset(cut.next_offset() + 1);
    if (error_ == LeaseError::kCountsRepeats && cut.begin() < input.cut_row()) {
      cut.set_end(input.cut_row() + (cut.end() - cut.begin()));
      cut.set_begin(input.cut_row());
      cut.set_next_offset(input.cut_offset() + 1);
    }
    return EncodeControl(*record);
  }

  // Looks at some records, where more are wanted.
  std::vector<std::string> CutSome(Master& master) {
    InputCutter& cutter = *master.calls;
    for (uint64_t count = random_.Below(8); count > 0; --count) {
      const auto partition = static_cast<uint32_t>(random_.Below(inputs_.size()));
      const auto offset = static_cast<size_t>(int64_t{cutter.next_offset(partition)});
      const LeaseInput& input = inputs_[partition];
      if (!master.processor->leases().WantsCuts() || offset >= input.end()) continue;
      if (offset < input.begin()) {
        Violate("rows that are not cut were deleted");
        break;
      }
      const InputDataRecord record = input.At(offset);
      const Status taken = cutter.Take(partition, record.offset, record.key, record.value);
      if (!taken.ok()) Violate(std::string(taken.message()));
    }
    if (random_.Chance(0.3)) cutter.Tick();
    std::vector<std::string> records;
    for (LeaseCommand& command : cutter.TakeCommands()) {
      if (error_ == LeaseError::kMissesTheEnd && command.has_end()) continue;
      ControlRecord record = NewControl();
      *record.mutable_lease() = std::move(command);
      records.push_back(EncodeControl(record));
    }
    return records;
  }

  void Commit(Master& master) {
    for (auto& change : master.processor->TakeChanges()) master.changes.push_back(change);
    std::vector<std::string> records;
    if (master.next >= master.own_end) records = CutSome(master);
    if (!is_quiet_ && random_.Chance(0.05)) {
      Cover("transaction aborted");
      control_.insert(control_.end(), records.size() + 1, std::nullopt);
      master.step = Step::kRestore;  // by another client
      return;
    }
    WriteTo(plan_, master.changes);
    master.changes.clear();
    for (const std::string& record : records) Append(record);
    control_.push_back(std::nullopt);  // the marker
    if (!records.empty()) master.own_end = control_.size() - 1;
    master.step = Step::kAnswer;
    CheckCommit(*master.processor);
  }

  void Trim(const Master& master) {
    if (random_.Chance(0.5)) return;
    const LeaseTable& leases = master.processor->leases();
    for (const auto& [partition, state] : leases.inputs()) {
      const auto needed = static_cast<size_t>(int64_t{error_ == LeaseError::kTrimsWhatIsLeased
                                                          ? Offset(state.cut_offset())
                                                          : leases.NeededFrom(partition)});
      if (needed > 0) inputs_.at(partition).DeleteBefore(needed - 1);
    }
  }

  // The log.

  void Append(const std::string& value) { control_.emplace_back(value); }

  // What is in `plan` must be the fold of `control` from its beginning.
  void CheckCommit(const MasterProcessor& committed) {
    const auto next = static_cast<size_t>(int64_t{committed.next_offset()});
    for (; referee_next_ < next; ++referee_next_) FoldInto(referee_, referee_next_);
    WriteTo(referee_plan_, referee_.TakeChanges());
    if (referee_plan_ != plan_) Violate("`plan` is not the fold of `control`");
    const Status right = committed.leases().Check();
    if (!right.ok()) Violate(std::string(right.message()));
    NoteLeases(committed);
  }

  // What workers are told.
  void NoteLeases(const MasterProcessor& master) {
    for (const auto& [number, leases] : master.leases().workers()) {
      Worker& worker = workers_.at(number);
      const bool is_news = worker.plan.empty() || worker.plan.back().leases.SerializeAsString() !=
                                                      leases.SerializeAsString();
      if (is_news) worker.plan.push_back({leases, TailsOf(number, master.leases())});
      for (const Lease& lease : leases.open()) NoteLease(worker, lease);
    }
  }

  // As PlannedLeases shares the ends of partitions.
  static std::vector<InputState> TailsOf(uint32_t number, const LeaseTable& table) {
    std::vector<InputState> tails;
    const uint32_t readers = table.workers().at(number).tail_readers();
    for (const auto& [partition, input] : table.inputs()) {
      if (readers > 0 && partition % readers == number && input.ended()) tails.push_back(input);
    }
    return tails;
  }

  void NoteLease(Worker& worker, const Lease& lease) {
    const auto [known, is_new] = worker.leases.emplace(lease.number(), lease);
    if (known->second.SerializeAsString() != lease.SerializeAsString()) {
      return Violate("a lease has become another");
    }
    if (!is_new) return;
    Cover("lease");
    for (uint64_t row = lease.range().begin(); row < lease.range().end(); ++row) {
      if (!leased_.emplace(lease.range().partition(), row).second) {
        return Violate("a row is leased twice");
      }
    }
  }

  // When all faults have ended.
  void CheckRest() {
    if (!IsOver()) return Violate("it does not come to an end");
    uint64_t rows = 0;
    for (const LeaseInput& input : inputs_) rows += input.rows();
    if (learnt_.size() != rows) Violate("a row is missing");
    if (ends_read_.size() != inputs_.size()) Violate("nobody has read to a partition's end");
  }

  Random random_;
  const LeaseError error_;
  SeedOutcome outcome_;
  bool is_quiet_ = false;
  uint64_t lease_rows_ = 0;
  uint32_t first_workers_ = 0;
  // As shard 0 has it: the last change of the workers, and how many there are by it.
  uint64_t resize_ = 0;
  uint32_t size_ = 0;
  std::vector<ResizeOrder> orders_;  // that were ever said

  std::vector<std::optional<std::string>> control_;  // by offset; empty: nothing to be read
  PlanRecords plan_;
  LeaseMasters masters_{random_, outcome_};
  std::vector<LeaseInput> inputs_;  // by partition
  std::vector<Worker> workers_;
  std::vector<LeaseUpdate> updates_;  // all that were ever made
  std::vector<LeaseCommand> counts_;  // that were ever said
  std::set<std::pair<uint32_t, uint64_t>> leased_;
  std::set<std::pair<uint32_t, uint64_t>> learnt_;
  std::set<uint32_t> ends_read_;  // partitions

  MasterProcessor referee_{kMasterEpoch};  // all that is folded into `plan`
  size_t referee_next_ = 0;
  PlanRecords referee_plan_;
};

}  // namespace

SeedOutcome RunLeaseSeed(uint64_t seed, LeaseError error) { return LeaseWorld(seed, error).Run(); }

}  // namespace millrace::simulation
