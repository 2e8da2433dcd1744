#include "tests/simulation/master_world.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "processors/master_processor.h"
#include "tests/simulation/back_offs.h"
#include "tests/simulation/end_group.h"
#include "tests/simulation/master_misreading.h"
#include "tests/simulation/random.h"
#include "tests/simulation/shard_moves.h"
#include "tests/simulation/simulated_plan.h"
#include "tests/simulation/worker_apps.h"
#include "topics/control_codec.h"

namespace millrace::simulation {
namespace {

constexpr uint64_t kTroubledTurns = 400;
// Longer than the longest back-off: then nothing is to come any more.
constexpr uint64_t kQuietTicks = ProcessTable::kMostBackOff + 3;
constexpr uint64_t kMostQuietTurns = 30'000;

// One step of a master at a time: it may be killed, or be overtaken, before each.
struct SimulatedMaster {
  enum class Step { kFence, kRestore, kFold, kLook, kCommit, kOrder, kCarryOut };

  Step step = Step::kFence;
  uint64_t fence = 0;
  std::optional<ProcessPlan> first_plan;  // given when it was started
  std::optional<MasterProcessor> processor;
  size_t next = 0;             // to be read
  size_t own_end = 0;          // of what it has written itself
  PlanChanges changes;         // not in `plan` yet
  std::set<std::string> said;  // kRemembersReports
  std::vector<ProcessReport> seen;
  std::deque<ProcessOrder> orders;
  std::deque<ProcessReport> over;
};

class MasterWorld {
 public:
  MasterWorld(uint64_t seed, MasterError error)
      : random_(seed),
        error_(error),
        machine_(error),
        worker_apps_(error),
        slots_are_fixed_(random_.Chance(0.6)),
        ends_(Random::Hash(seed, 0, 0, 60011)),
        comes_to_its_end_(ends_.Chance(0.3)) {
    slots_ = random_.Chance(0.4) ? 0 : static_cast<uint32_t>(random_.Between(3, 6));
    may_end_ = random_.Chance(0.5);
  }

  SeedOutcome Run() {
    for (uint64_t turn = 0; turn < kTroubledTurns && IsRight(); ++turn) TroubledTurn();
    if (IsRight()) ComeToRest();
    if (IsRight()) CheckRest();
    return std::move(outcome_);
  }

 private:
  using Step = SimulatedMaster::Step;

  bool IsRight() {
    if (outcome_.violation.empty()) outcome_.violation = machine_.violation();
    return outcome_.violation.empty();
  }
  void Violate(const std::string& what) {
    if (outcome_.violation.empty()) outcome_.violation = what;
  }
  void Cover(const std::string& what) {
    if (!what.empty()) ++outcome_.coverage[what];
  }

  // What happens.

  void TroubledTurn() {
    const uint64_t kind = random_.Below(100);
    if (masters_.empty() || kind < 2) return BeginMaster();
    if (kind < 4) return KillMaster();
    if (kind < 8) return UserActs();
    if (kind < 18) return ProcessEnds();
    MoveMaster(DrawMaster());
  }

  // Older ones are slow: what they do comes late.
  size_t DrawMaster() {
    return random_.Chance(0.75) ? masters_.size() - 1 : random_.Below(masters_.size());
  }

  void BeginMaster() {
    if (masters_.size() == 3) return;
    Cover(masters_.empty() ? "master begins" : "master begins beside an older one");
    auto master = std::make_unique<SimulatedMaster>();
    if (random_.Chance(0.3)) master->first_plan = DrawPlan();
    masters_.push_back(std::move(master));
  }

  void KillMaster() {
    const size_t which = random_.Below(masters_.size());
    Cover("master killed before step " + std::to_string(static_cast<int>(masters_[which]->step)));
    masters_.erase(masters_.begin() + static_cast<int64_t>(which));
  }

  ProcessPlan DrawPlan() {
    ProcessPlan plan;
    const auto add = [&](const char* name, uint64_t count, uint32_t priority, uint32_t least) {
      ProcessGroup& group = *plan.add_groups();
      group.set_name(name);
      group.set_count(static_cast<uint32_t>(count));
      group.set_priority(priority);
      group.set_least(least);
      group.add_command(random_.Chance(0.03) ? "/no/such/program" : "/bin/" + group.name());
      group.add_command("--rank={rank}");
      if (random_.Chance(0.3)) group.add_command("--other");
      if (random_.Chance(0.3))
        group.set_most_failures(static_cast<uint32_t>(random_.Between(1, 4)));
    };
    if (!slots_are_fixed_)
      slots_ = random_.Chance(0.4) ? 0 : static_cast<uint32_t>(random_.Between(3, 6));
    // A worker must fit beside all servers and a producer.
    add("server", random_.Between(1, slots_ == 3 ? 1 : 2), 3, 1);
    plan.mutable_groups(0)->set_shards(kSimulatedShards);
    if (random_.Chance(0.5)) add("producer", 1, 2, 1);
    if (random_.Chance(0.9)) {
      add("worker", random_.Between(1, 3), 1, 1);
      ProcessGroup& workers = *plan.mutable_groups(plan.groups_size() - 1);
      workers.set_logical_workers(static_cast<uint32_t>(random_.Between(0, 7)));
    }
    if (comes_to_its_end_ && ends_.Chance(0.7)) {
      add(kSimulatedEnd, 1, 0, 1);
      plan.mutable_groups()->rbegin()->set_at_end(true);
    }
    plan.set_slots(slots_);
    if (!CheckPlan(plan).ok()) Violate("a plan that was drawn is refused");
    return plan;
  }

  void UserActs() {
    const uint64_t kind = random_.Below(12);
    ControlRecord record = NewControl();
    if (kind >= 10) record = DrawMove(random_);
    if (kind >= 10 && error_ == MasterError::kKeepsMoveToItself) {
      return void(moves_.Note(record, referee_));
    }
    if (kind < 4) {
      *record.mutable_plan() = DrawPlan();
    } else if (kind == 4) {
      Cover("stop by a user");
      record.mutable_stop();
      if (error_ == MasterError::kKeepsStopToItself) {
        wish_ = record;
        for (MasterMachine::Life* life : machine_.Running()) life->told_to_stop = true;
        return;
      }
    } else if (kind < 8) {
      if (control_.empty()) return;
      const std::optional<std::string>& old = control_[random_.Below(control_.size())];
      if (!old) return;
      Cover("record repeated");
      return Append(*old);
    } else if (kind < 10) {
      return Append(DrawUnusable());
    }
    Append(EncodeControl(record));
  }

  std::string DrawUnusable() {
    Cover("unusable record");
    ControlRecord record = NewControl();
    switch (random_.Below(4)) {
      case 0:
        record.set_epoch(kMasterEpoch + 1);
        record.mutable_stop();
        return EncodeControl(record);
      case 1:
        record.mutable_report()->mutable_process()->set_group("worker");
        record.mutable_report()->set_incarnation(1'000'000);
        record.mutable_report()->mutable_end();
        return EncodeControl(record);
      case 2:
        record.mutable_plan();
        return EncodeControl(record);
      default:
        return "damage";
    }
  }

  void ProcessEnds() {
    const std::vector<MasterMachine::Life*> running = machine_.Running();
    if (running.empty()) return;
    MasterMachine::Life& life = *running[random_.Below(running.size())];
    if (life.told_to_stop) return EndAsTold(life);
    using E = ProcessEnd;
    if (comes_to_its_end_ && ends_.Chance(0.7)) {
      done_.insert(ToText(life.report.process()));
      return MasterMachine::End(life, E::EXITED, 0);
    }
    switch (random_.Below(12)) {
      case 0:
      case 1:
        if (!may_end_) return;
        Cover("process ends by itself");
        done_.insert(ToText(life.report.process()));
        return MasterMachine::End(life, E::EXITED, 0);
      case 2:
        Cover("process fails for good");
        return MasterMachine::End(life, E::EXITED, 2);
      case 3:
      case 4:
        return MasterMachine::End(life, E::EXITED, 1);
      case 5:
        return MasterMachine::End(life, E::SIGNALED, 11);
      case 6:
        Cover("process killed by the kernel");
        return MasterMachine::End(life, E::OUT_OF_MEMORY, 9);
      case 7:
        Cover("exit status lost");
        return MasterMachine::End(life, E::UNKNOWN, 0);
      default:
        Cover("process killed");
        return MasterMachine::End(life, E::SIGNALED, 9);
    }
  }

  // By itself in time, with any exit code, or by the launcher after the grace time.
  void EndAsTold(MasterMachine::Life& life) {
    constexpr int kCodes[] = {0, 1, 130};
    if (random_.Chance(0.3)) return MasterMachine::End(life, ProcessEnd::SIGNALED, 9);
    MasterMachine::End(life, ProcessEnd::EXITED, kCodes[random_.Below(std::size(kCodes))]);
  }

  // A master.

  void MoveMaster(size_t which) {
    SimulatedMaster& master = *masters_[which];
    const bool is_newest = master.fence == newest_fence_;
    switch (master.step) {
      case Step::kFence:
        master.fence = ++newest_fence_;
        master.step = Step::kRestore;
        return;
      case Step::kRestore:
        return Restore(master);
      case Step::kFold:
        FoldSome(master);
        master.step = Step::kLook;
        return;
      case Step::kLook:
        master.seen = machine_.Look();
        master.step = error_ == MasterError::kStartsBeforeTheCommit ? Step::kOrder : Step::kCommit;
        return;
      case Step::kCommit:
        if (!is_newest && Writes(master) && error_ != MasterError::kIsNotFenced) {
          Cover("master fenced");
          masters_.erase(masters_.begin() + static_cast<int64_t>(which));
          return;
        }
        return Commit(master);
      case Step::kOrder:
        MakeOrders(master);
        master.step = Step::kCarryOut;
        return;
      case Step::kCarryOut:
        return CarryOut(master, is_newest);
    }
  }

  void Restore(SimulatedMaster& master) {
    StatusOr<MasterProcessor> restored = MasterProcessor::Restore(kMasterEpoch, plan_);
    if (!restored.ok()) return Violate("not restored: " + std::string(restored.status().message()));
    master.processor.emplace(*std::move(restored));
    master.next = static_cast<size_t>(int64_t{master.processor->next_offset()});
    master.step = Step::kFold;
  }

  void FoldSome(SimulatedMaster& master) {
    const size_t left = control_.size() - std::min(control_.size(), master.next);
    for (size_t count = random_.Chance(0.7) ? left : random_.Below(left + 1); count > 0; --count) {
      FoldInto(*master.processor, master.next++);
    }
  }

  void FoldInto(MasterProcessor& processor, size_t offset) {
    if (const std::optional<std::string>& value = control_[offset]; value) {
      processor.Fold(Offset(offset), AsMisread(error_, processor, *value));
    }
  }

  // Its records for `control`: none while some of its own are still to be folded.
  std::vector<ControlRecord> RecordsOf(SimulatedMaster& master) {
    std::vector<ControlRecord> records;
    if (master.next < master.own_end) return records;
    if (master.first_plan) *records.emplace_back(NewControl()).mutable_plan() = *master.first_plan;
    for (ControlRecord& record : master.processor->Reports(master.seen)) {
      if (error_ == MasterError::kRemembersReports &&
          !master.said.insert(record.SerializeAsString()).second) {
        continue;
      }
      records.push_back(std::move(record));
    }
    if (error_ == MasterError::kTakesUnseenForEnded) TakeUnseenForEnded(master, records);
    if (is_quiet_ || random_.Chance(0.3)) records.emplace_back(NewControl()).mutable_tick();
    return records;
  }

  void TakeUnseenForEnded(const SimulatedMaster& master, std::vector<ControlRecord>& records) {
    for (const ProcessState& process : master.processor->processes()) {
      const bool is_seen = std::ranges::any_of(master.seen, [&](const ProcessReport& report) {
        return report.incarnation() == process.incarnation();
      });
      if (is_seen || process.phase() != ProcessState::STOPPING) continue;
      ProcessReport& report = *records.emplace_back(NewControl()).mutable_report();
      *report.mutable_process() = process.process();
      report.set_incarnation(process.incarnation());
      report.mutable_end();
    }
  }

  bool Writes(SimulatedMaster& master) {
    for (auto& change : master.processor->TakeChanges()) master.changes.push_back(change);
    return !master.changes.empty() || !master.processor->Reports(master.seen).empty();
  }

  void Commit(SimulatedMaster& master) {
    Writes(master);
    const std::vector<ControlRecord> records = RecordsOf(master);
    if (master.changes.empty() && records.empty()) {
      master.step = Step::kOrder;
      return;
    }
    if (master.fence != newest_fence_ && error_ != MasterError::kIsNotFenced) return;  // next time
    if (!is_quiet_ && random_.Chance(0.05)) {
      Cover("transaction aborted");
      control_.insert(control_.end(), records.size() + 1, std::nullopt);
      if (error_ == MasterError::kForgetsChanges) master.changes.clear();
      master.step = Step::kLook;
      return;
    }
    WriteTo(plan_, master.changes);
    NoteChanges(master.changes);
    worker_apps_.Read(master.changes, machine_.Running());
    master.changes.clear();
    master.first_plan.reset();
    for (const ControlRecord& record : records) Append(EncodeControl(record));
    control_.push_back(std::nullopt);  // the marker
    master.own_end = control_.size() - 1;
    master.step = error_ == MasterError::kStartsBeforeTheCommit ? Step::kFold : Step::kOrder;
    CheckCommit(*master.processor);
  }

  void MakeOrders(SimulatedMaster& master) {
    const auto orders = master.processor->Orders(master.seen);
    const auto over = master.processor->Over(master.seen);
    master.orders.assign(orders.begin(), orders.end());
    master.over.assign(over.begin(), over.end());
  }

  void CarryOut(SimulatedMaster& master, bool is_newest) {
    if (!master.orders.empty()) {
      const ProcessOrder order = std::move(master.orders.front());
      master.orders.pop_front();
      const std::string what =
          order.kind() == ProcessOrder::START ? Start(order) : machine_.Stop(order);
      Cover(what + (is_newest ? "" : ", by an older master"));
    } else if (!master.over.empty()) {
      const ProcessReport report = std::move(master.over.front());
      master.over.pop_front();
      Cover(machine_.Forget(report.process(), report.incarnation() + 1));
    } else {
      master.step = error_ == MasterError::kStartsBeforeTheCommit ? Step::kCommit : Step::kFold;
    }
  }

  std::string Start(const ProcessOrder& order) {
    const std::string name = ToText(order.process());
    std::string what = machine_.Start(order);
    if (what != "process started") return what;
    if (!ordered_.contains({name, order.incarnation()})) {
      Violate(name + " is started, but `plan` never said so");
    }
    if (slots_are_fixed_ && slots_ > 0 && machine_.Running().size() > slots_) {
      Violate("more processes run than there are slots");
    }
    return what;
  }

  // The log.

  void Append(const std::string& value) {
    if (const StatusOr<ControlRecord> record = DecodeControl(value, kMasterEpoch); record.ok()) {
      if (record->has_plan() || record->has_stop()) wish_ = *record;
    }
    control_.emplace_back(value);
  }

  // What is in `plan` must be the fold of `control` from its beginning.
  void CheckCommit(const MasterProcessor& committed) {
    const auto next = static_cast<size_t>(int64_t{committed.next_offset()});
    for (; referee_next_ < next; ++referee_next_) {
      if (control_[referee_next_]) Cover(moves_.Note(*control_[referee_next_], referee_));
      FoldInto(referee_, referee_next_);
      Violate(back_off_.WhatIsWrong(control_[referee_next_], referee_));
      Violate(end_.WhatIsWrong(control_[referee_next_], referee_));
    }
    WriteTo(referee_plan_, referee_.TakeChanges());
    if (referee_plan_ != plan_) Violate("`plan` is not the fold of `control`");
    phases_.insert(committed.phase());
    std::set<std::pair<std::string, uint64_t>> may_run;
    for (const ProcessState& process : committed.processes()) {
      const std::pair<std::string, uint64_t> key(ToText(process.process()), process.incarnation());
      if (process.phase() == ProcessState::STARTING) ordered_.insert(key);
      if (HoldsSlot(process.phase())) may_run.insert(key);
    }
    for (const MasterMachine::Life* life : machine_.Running()) {
      const std::string name = ToText(life->report.process());
      if (may_run.contains({name, life->report.incarnation()})) continue;
      Violate(name + " runs, but `plan` says that it has ended");
    }
  }

  void NoteChanges(const PlanChanges& changes) {
    for (const auto& [key, value] : changes) {
      if (key != "state") quiet_since_tick_ = std::nullopt;
    }
  }

  // When all faults have ended.

  void ComeToRest() {
    is_quiet_ = true;
    for (uint64_t turn = 0; turn < kMostQuietTurns && IsRight(); ++turn) {
      const bool has_newest = std::ranges::any_of(masters_, [this](const auto& master) {
        return master->fence == newest_fence_ || master->step == Step::kFence;
      });
      if (!has_newest) masters_.push_back(std::make_unique<SimulatedMaster>());
      MoveMaster(DrawMaster());
      for (MasterMachine::Life* life : machine_.Running()) {
        if (life->told_to_stop && random_.Chance(0.3)) EndAsTold(*life);
      }
      const uint64_t ticks = referee_.state().ticks();
      if (!quiet_since_tick_) quiet_since_tick_ = ticks;
      if (ticks >= *quiet_since_tick_ + kQuietTicks) return;
    }
    if (IsRight()) Violate("it does not come to rest");
  }

  void CheckRest() {
    const MasterState state = referee_.state();
    Cover("rest in " + MasterState::Phase_Name(state.phase()));
    if (state.phase() == MasterState::STOPPING) return Violate("it does not stop");
    CheckWish(state);
    std::map<std::string, const MasterMachine::Life*> running;
    const auto lives = machine_.Running();
    for (const MasterMachine::Life* life : lives) running[ToText(life->report.process())] = life;
    if (state.phase() != MasterState::ACTIVE) {
      if (!running.empty()) Violate("what is not wanted runs: " + running.begin()->first);
      return CheckEnds();
    }
    CheckWantedRun(state, running);
    CheckHosts(lives);
    CheckEnds();
  }

  void CheckWish(const MasterState& state) {
    if (!wish_ || state.phase() == MasterState::ENDED || state.phase() == MasterState::FAILED)
      return;
    if (wish_->has_stop()) {
      const bool is_stopped =
          state.phase() == MasterState::STOPPED || state.phase() == MasterState::IDLE;
      if (!is_stopped) Violate("it was to be stopped, and goes on");
      return;
    }
    if (state.phase() != MasterState::ACTIVE) return Violate("it was to run, and does not");
    ProcessPlan wanted = wish_->plan();
    ProcessPlan present = state.plan();
    for (ProcessPlan* plan : {&wanted, &present}) {  // which planted errors misread
      plan->clear_slots();
      for (ProcessGroup& group : *plan->mutable_groups()) {
        group.clear_logical_workers();
        group.clear_at_end();
      }
    }
    if (wanted.SerializeAsString() != present.SerializeAsString()) Violate("it runs another plan");
  }

  void CheckWantedRun(const MasterState& state,
                      std::map<std::string, const MasterMachine::Life*> running) {
    if (!wish_ || !wish_->has_plan()) return Violate("it runs, but nobody has given a plan");
    std::optional<uint32_t> lowest_that_runs;
    std::optional<uint32_t> highest_that_waits;
    const size_t running_count = running.size();
    for (const ProcessGroup& group : wish_->plan().groups()) {
      if (group.at_end() && !AreAllOver(referee_)) continue;
      for (uint32_t rank = 0; rank < group.count(); ++rank) {
        ProcessName process;
        process.set_group(group.name());
        process.set_rank(rank);
        const std::string name = ToText(process);
        if (const auto life = running.find(name); life != running.end()) {
          if (life->second->command != CommandOf(group, rank))
            Violate(name + " has another command");
          lowest_that_runs =
              std::min(lowest_that_runs.value_or(group.priority()), group.priority());
          running.erase(life);
          continue;
        }
        const ProcessState::Phase phase = PhaseOf(name);
        if (phase == ProcessState::ENDED || phase == ProcessState::FAILED) continue;
        highest_that_waits = std::max(highest_that_waits.value_or(0), group.priority());
      }
    }
    if (!running.empty()) return Violate("what is not wanted runs: " + running.begin()->first);
    if (!highest_that_waits) return;
    Cover("process without a slot");
    if (running_count != state.plan().slots()) return Violate("what is wanted does not run");
    if (*highest_that_waits > *lowest_that_runs) Violate("the lower priority has the slot");
  }

  void CheckHosts(const std::vector<MasterMachine::Life*>& running) {
    Violate(worker_apps_.WhatIsWrongWithShards(moves_.moved(), running));
    if (worker_apps_.has_seen_move()) Cover("worker moved between living processes");
    if (!wish_ || !wish_->has_plan()) return;
    for (const ProcessGroup& group : wish_->plan().groups()) {
      if (group.logical_workers() == 0) continue;
      const std::string wrong = worker_apps_.WhatIsWrong(group.logical_workers(), running);
      if (!wrong.empty()) Violate(wrong);
    }
  }

  ProcessState::Phase PhaseOf(const std::string& name) const {
    for (const ProcessState& process : referee_.processes()) {
      if (ToText(process.process()) == name) return process.phase();
    }
    return ProcessState::WAITING;
  }

  void CheckEnds() {
    if (done_.contains("end-0")) Cover("end of the job");
    for (const ProcessState& process : referee_.processes()) {
      const std::string name = ToText(process.process());
      if (process.phase() == ProcessState::ENDED && !done_.contains(name)) {
        Violate(name + " has not done its work, but counts as ended");
      }
    }
    for (const MasterState::Phase phase : phases_) {
      Cover("job in " + MasterState::Phase_Name(phase));
    }
  }

  Random random_;
  const MasterError error_;
  SeedOutcome outcome_;
  MasterMachine machine_;
  WorkerApps worker_apps_;
  const bool slots_are_fixed_;
  Random ends_;  // of its own, so that all else stays as it was drawn
  const bool comes_to_its_end_;
  uint32_t slots_ = 0;
  bool may_end_ = false;
  bool is_quiet_ = false;

  std::vector<std::optional<std::string>> control_;  // by offset; empty: nothing to be read
  PlanRecords plan_;
  uint64_t newest_fence_ = 0;
  std::vector<std::unique_ptr<SimulatedMaster>> masters_;

  std::optional<ControlRecord> wish_;  // the last plan or stop
  ShardMoves moves_;
  EndGroup end_;
  BackOffs back_off_;
  std::set<std::string> done_;  // who has ended with exit code 0, not told to
  std::set<std::pair<std::string, uint64_t>> ordered_;
  std::set<MasterState::Phase> phases_;
  std::optional<uint64_t> quiet_since_tick_;

  MasterProcessor referee_{kMasterEpoch};  // folds all of `control`
  size_t referee_next_ = 0;
  PlanRecords referee_plan_;
};

}  // namespace

SeedOutcome RunMasterSeed(uint64_t seed, MasterError error) {
  return MasterWorld(seed, error).Run();
}

}  // namespace millrace::simulation
