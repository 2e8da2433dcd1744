#include "tests/simulation/task_world.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "processors/master_processor.h"
#include "processors/task_calls.h"
#include "tests/simulation/calling_masters.h"
#include "tests/simulation/random.h"
#include "tests/simulation/simulated_plan.h"
#include "topics/control_codec.h"
#include "topics/process_name.h"

namespace millrace::simulation {
namespace {

constexpr uint64_t kTroubledTaskTurns = 700;
constexpr uint64_t kMostQuietTaskTurns = 40'000;
constexpr char kSetName[] = "rows";

using TaskMasters = CallingMasters<TaskCalls>;
using TrainerThread = CallingThread<TaskCommand>;

// One that begins, asks for tasks and reports them, in a thread each for asking and for reporting:
// otherwise one that has a task and asks for another might wait for itself.
struct Trainer {
  struct Held {
    uint32_t lease = 0;
    TaskManager::Key task;
    bool is_void = false;  // it is reported, or somebody else has it
  };

  ProcessName process;
  std::string name;
  bool is_alive = true;
  bool has_begun = false;
  bool is_told_of_the_end = false;
  std::vector<Held> held;
  TrainerThread asks;
  TrainerThread reports;
};

class TaskWorld {
 public:
  TaskWorld(uint64_t seed, TaskError error) : random_(seed), error_(error) {
    spec_.set_name(kSetName);
    spec_.set_records(static_cast<int64_t>(random_.Between(1, 40)));
    spec_.set_records_per_task(static_cast<int64_t>(random_.Between(1, 4)));
    spec_.set_epochs(static_cast<uint32_t>(random_.Between(1, 3)));
    spec_.set_most_failures(static_cast<uint32_t>(random_.Between(0, 3)));
    if (random_.Chance(0.5)) spec_.set_shuffle(random_.Next());
    if (random_.Chance(0.3)) spec_.set_timeout_ticks(random_.Between(2, 8));
    if (random_.Chance(0.4)) {
      TaskSetSpec::Evaluation& evaluation = *spec_.mutable_evaluation();
      evaluation.set_records(static_cast<int64_t>(random_.Between(1, 6)));
      evaluation.set_records_per_task(static_cast<int64_t>(random_.Between(1, 4)));
      evaluation.set_every(static_cast<int64_t>(random_.Between(1, 12)));
    }
    spec_.set_end_task(random_.Chance(0.4));
    specs_[kSetName] = spec_;
    for (const TaskSetSpec& follower : FollowersOf(spec_)) specs_[follower.name()] = follower;
    fails_ = random_.Chance(0.3);
    dies_ = random_.Chance(0.5);
    prefetches_ = random_.Chance(0.3);
    ControlRecord plan = NewControl();
    ProcessGroup& group = *plan.mutable_plan()->add_groups();
    group.set_name("worker");
    group.set_count(static_cast<uint32_t>(random_.Between(1, 4)));
    group.add_command("/bin/trainer");
    for (uint32_t rank = 0; rank < group.count(); ++rank) {
      Trainer& trainer = trainers_.emplace_back();
      trainer.process.set_group("worker");
      trainer.process.set_rank(rank);
      trainer.name = ToText(trainer.process);
    }
    Append(EncodeControl(plan));
  }

  SeedOutcome Run() {
    for (uint64_t turn = 0; turn < kTroubledTaskTurns && IsRight(); ++turn) TroubledTurn();
    if (IsRight()) ComeToRest();
    if (IsRight()) CheckRest();
    return std::move(outcome_);
  }

 private:
  using Master = TaskMasters::Master;
  using Step = TaskMasters::Step;

  bool IsRight() const { return outcome_.violation.empty(); }
  void Violate(const std::string& what) {
    if (IsRight()) outcome_.violation = what;
  }
  void Cover(const std::string& what) { ++outcome_.coverage[what]; }

  // What happens.

  void TroubledTurn() {
    const uint64_t kind = random_.Below(100);
    if (masters_.empty() || (kind < 2 && masters_.has_room())) return masters_.Begin();
    if (kind < 4) return masters_.KillOne();
    if (kind < 6) return RepeatRecord();
    if (kind < 8 && dies_) return Die(trainers_[random_.Below(trainers_.size())]);
    if (kind < 50) return MoveTrainer(trainers_[random_.Below(trainers_.size())]);
    MoveMaster(masters_.Draw());
  }

  void RepeatRecord() {
    const std::optional<std::string>& old = control_[random_.Below(control_.size())];
    if (!old) return;
    Cover("record repeated");
    Append(std::string(*old));
  }

  // A trainer whose process is the master's is known to be dead by the record of its end; nobody
  // hears of the end of another, so its tasks have to time out.
  void Die(Trainer& trainer) {
    if (!trainer.is_alive) return;
    const bool is_silent = spec_.timeout_ticks() > 0 && random_.Chance(0.5);
    const ProcessState* process = ProcessOf(trainer);
    if (!is_silent && (process == nullptr || !HoldsSlot(process->phase()))) return;
    for (TrainerThread* thread : {&trainer.asks, &trainer.reports}) {
      Master* master = masters_.Of(*thread);
      const bool is_noticed = random_.Chance(0.5);  // otherwise when it is to be answered
      if (master != nullptr && is_noticed) {
        Cover("call of a trainer that died");
        master->calls->Remove(thread->call);
      }
      *thread = {};
    }
    if (!trainer.held.empty()) Cover("death with a task");
    trainer.held.clear();
    trainer.has_begun = false;
    trainer.is_told_of_the_end = false;
    if (is_silent) return;
    trainer.is_alive = false;  // until its process is to be started again
    ControlRecord record = NewControl();
    *record.mutable_report()->mutable_process() = trainer.process;
    record.mutable_report()->set_incarnation(process->incarnation());
    record.mutable_report()->mutable_end()->set_cause(ProcessEnd::SIGNALED);
    record.mutable_report()->mutable_end()->set_code(9);
    Append(EncodeControl(record));
  }

  const ProcessState* ProcessOf(const Trainer& trainer) {
    processes_ = newest_.processes();
    for (const ProcessState& process : processes_) {
      if (ToText(process.process()) == trainer.name) return &process;
    }
    return nullptr;
  }

  // A trainer.

  void MoveTrainer(Trainer& trainer) {
    if (!trainer.is_alive) {
      const ProcessState* process = ProcessOf(trainer);
      trainer.is_alive = process != nullptr && HoldsSlot(process->phase());
      return;
    }
    const bool asks = random_.Chance(0.5);
    TrainerThread& thread = asks ? trainer.asks : trainer.reports;
    if (thread.call > 0 && masters_.Of(thread) != nullptr) return;  // it waits
    if (thread.call > 0) Cover("call broken");
    thread.call = 0;
    if (!thread.wish) thread.wish = asks ? DrawQuestion(trainer) : DrawReport(trainer);
    if (!thread.wish) return;
    Master* newest = masters_.Newest();
    if (newest == nullptr) return;
    thread.call = ++calls_;
    thread.fence = newest->fence;
    newest->calls->Add(thread.call, {*thread.wish, ""});
  }

  std::optional<TaskCommand> DrawQuestion(const Trainer& trainer) {
    TaskCommand command;
    if (!trainer.has_begun) {
      *command.mutable_begin() = spec_;
      return command;
    }
    const bool may_ask = trainer.held.empty() || (prefetches_ && trainer.held.size() < 3);
    if (!may_ask || trainer.is_told_of_the_end) return std::nullopt;
    command.mutable_get()->set_set(kSetName);
    command.mutable_get()->set_worker(trainer.name);
    command.mutable_get()->set_any(true);
    return command;
  }

  std::optional<TaskCommand> DrawReport(Trainer& trainer) {
    TaskCommand command;
    if (trainer.held.empty() || random_.Chance(0.5)) return std::nullopt;  // it works
    Trainer::Held& held = trainer.held[random_.Below(trainer.held.size())];
    TaskCommand::Result& result = *command.mutable_result();
    result.set_set(kSetName);
    result.set_lease(held.lease);
    result.set_failed(fails_ && !is_quiet_ && random_.Chance(0.2));
    held.is_void = true;
    Cover(result.failed() ? "task failed" : "task done");
    if (!result.failed()) done_.insert(held.task);
    return command;
  }

  void TakeAnswer(Trainer& trainer, TrainerThread& thread, const TaskAnswer& answer) {
    const TaskCommand wish = *std::exchange(thread.wish, std::nullopt);
    thread.call = 0;
    if (wish.has_begin()) trainer.has_begun = true;
    if (wish.has_result()) {
      if (random_.Chance(0.1)) {
        Cover("result said again");
        thread.wish = wish;
      }
      const uint32_t lease = wish.result().lease();
      std::erase_if(trainer.held, [&](const auto& held) { return held.lease == lease; });
      // It counts, since nobody else had got the task before it was folded.
      const auto newest = newest_lease_.find(leased_.at(lease));
      const bool counts = newest != newest_lease_.end() && newest->second == lease;
      if (counts && !wish.result().failed()) counted_.insert(newest->first);
    }
    if (answer.kind == TaskAnswer::Kind::kSetIsDone) trainer.is_told_of_the_end = true;
    if (answer.kind != TaskAnswer::Kind::kTask) return;
    TakeTask(trainer, answer);
  }

  void TakeTask(Trainer& trainer, const TaskAnswer& answer) {
    const auto found = leased_.find(answer.lease);
    if (found == leased_.end()) return Violate("a lease is given, but `plan` never said so");
    const TaskManager::Key task = found->second;
    if (!leases_.insert(answer.lease).second) Violate("a lease is given twice");
    if (counted_.contains(task)) Violate("a task is given again that is done");
    const TaskRange range = RangeOfTask(specs_.at(task.second), task.first);
    CheckTime(task);
    if (range.begin != answer.range.begin || range.end != answer.range.end) {
      Violate("a task has other records than its number says");
    }
    CheckGivenOnce(answer.lease, task);
    for (Trainer& other : trainers_) {
      for (Trainer::Held& held : other.held) {
        if (held.task != task) continue;
        CheckSecondHolder(trainer, other, held);
        held.is_void = true;
      }
    }
    trainer.held.push_back({answer.lease, task});
  }

  // By what trainers have said that they have done, and what was given up, whatever the fold makes
  // of it.
  void CheckTime(const TaskManager::Key& task) {
    if (task.second == kSetName) return;
    const auto over = [this](const std::string& set) {
      const auto done = std::ranges::count_if(
          done_, [&](const TaskManager::Key& key) { return key.second == set; });
      const auto given_up = newest_.tasks().sets().at(set).given_up();
      return static_cast<int64_t>(done) + static_cast<int64_t>(given_up);
    };
    const int64_t all = TasksOf(spec_);
    if (task.second == EvaluationSetOf(kSetName)) {
      Cover("evaluation");
      const int64_t round = task.first / TasksPerEpoch(specs_.at(task.second)) + 1;
      const int64_t due = std::min(all, round * spec_.evaluation().every());
      if (over(kSetName) < due) Violate("an evaluation comes too early");
      return;
    }
    Cover("task at the end");
    bool is_due = over(kSetName) >= all;
    if (spec_.has_evaluation()) {
      const std::string evaluation = EvaluationSetOf(kSetName);
      is_due = is_due && over(evaluation) >= TasksOf(specs_.at(evaluation));
    }
    if (!is_due) Violate("the end comes too early");
  }

  // Without fault tolerance again only when nobody knew that the first trainer had been told.
  void CheckGivenOnce(uint32_t lease, const TaskManager::Key& task) {
    const auto [given, is_first] = given_.try_emplace(task, lease);
    if (is_first) return;
    Cover("task dealt out again");
    const uint32_t earlier = std::exchange(given->second, lease);
    if (spec_.most_failures() > 0 || !told_.contains(earlier)) return;
    Violate("a task is dealt out twice without fault tolerance");
  }

  // May two have the same task? Where tasks time out; and the same trainer twice, where nobody knew
  // that it had been told when its master died.
  void CheckSecondHolder(const Trainer& trainer, const Trainer& other, const Trainer::Held& held) {
    if (spec_.timeout_ticks() > 0 || held.is_void) return;
    if (&trainer == &other && !told_.contains(held.lease)) return;
    Violate("a task is given to " + trainer.name + ", and " + other.name + " has it");
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
        master.step = error_ == TaskError::kAnswersBeforeTheCommit ? Step::kAnswer : Step::kCommit;
        return;
      case Step::kCommit:
        if (masters_.IsFenced(master)) return masters_.End(master);
        return Commit(master);
      case Step::kAnswer:
        Answer(master);
        master.step = error_ == TaskError::kAnswersBeforeTheCommit ? Step::kCommit : Step::kFold;
        return;
    }
  }

  void Restore(Master& master) {
    StatusOr<MasterProcessor> restored = MasterProcessor::Restore(kMasterEpoch, plan_);
    if (!restored.ok()) return Violate("not restored: " + std::string(restored.status().message()));
    master.processor.emplace(*std::move(restored));
    master.next = static_cast<size_t>(int64_t{master.processor->next_offset()});
    while (master.next < control_.size()) FoldInto(*master.processor, master.next++);
    master.calls.emplace(static_cast<uint64_t>(int64_t{master.processor->next_offset()}));
    if (error_ == TaskError::kForgetsTheUntold) {
      for (const auto& [key, task] : master.processor->tasks().tasks()) {
        if (task.command() > 0) master.calls->NoteTold(task.lease(), true);
      }
    }
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
      processor.Fold(Offset(offset), AsMisread(processor.tasks(), *value));
    }
  }

  // What a fold with the planted error makes of a record.
  std::string AsMisread(const TaskManager& tasks, const std::string& value) const {
    if (error_ == TaskError::kNone) return value;
    StatusOr<ControlRecord> record = DecodeControl(value, kMasterEpoch);
    if (!record.ok()) return value;
    if (error_ == TaskError::kMissesTicks && record->has_tick()) return "damage";
    if (error_ == TaskError::kMissesADeath && record->has_report()) {
      record->mutable_report()->clear_end();
    }
    if (record->has_task()) Misread(tasks, *record->mutable_task());
    return EncodeControl(*record);
  }

  void Misread(const TaskManager& tasks, TaskCommand& command) const {
    const bool is_new =
        std::pair(command.front(), command.number()) > std::pair(tasks.front(), tasks.number());
    if (error_ == TaskError::kCountsRepeats && !is_new) {
      command.set_front(tasks.front());
      command.set_number(tasks.number() + 1);
    }
    if (error_ == TaskError::kEvaluatesTooEarly && command.has_begin() &&
        command.begin().has_evaluation()) {
      command.mutable_begin()->mutable_evaluation()->set_every(1);
    }
    if (command.has_result()) MisreadResult(tasks, *command.mutable_result());
    if (error_ == TaskError::kDealsOutWhatIsLost && command.has_begin()) {
      command.mutable_begin()->set_most_failures(std::max(spec_.most_failures(), uint32_t{1}));
    }
    for (const auto& [key, task] : tasks.tasks()) {
      if (error_ == TaskError::kCountsAnother && command.has_result() && task.is_leased()) {
        const uint32_t lease = command.result().lease();
        const bool is_known = std::ranges::any_of(
            tasks.tasks(), [&](const auto& entry) { return entry.second.lease() == lease; });
        if (!is_known) command.mutable_result()->set_lease(task.lease());
      }
      if (error_ == TaskError::kLeasesTwice && command.has_delivered() && task.is_leased()) {
        command.mutable_undelivered()->add_lease(task.lease());
      }
      if (error_ == TaskError::kGivesToAnybody && command.has_get() && task.command() > 0 &&
          task.front() != command.front()) {
        command.mutable_get()->set_worker(task.worker());
      }
    }
  }

  void MisreadResult(const TaskManager& tasks, TaskCommand::Result& result) const {
    const auto of = [&](auto is) -> const TaskState* {
      for (const auto& [key, task] : tasks.tasks()) {
        if (is(task)) return &task;
      }
      return nullptr;
    };
    const TaskState* task = of([&](const TaskState& t) { return t.lease() == result.lease(); });
    if (task == nullptr || result.failed()) return;
    if (error_ == TaskError::kEndsTwice && task->set() == EndSetOf(kSetName)) {
      result.set_failed(true);
    }
    if (error_ != TaskError::kCountsEvaluations || task->set() != EvaluationSetOf(kSetName)) return;
    const TaskState* trained = of([](const TaskState& t) { return t.set() == kSetName; });
    if (trained != nullptr && trained->lease() > 0) result.set_lease(trained->lease());
  }

  void Commit(Master& master) {
    for (auto& change : master.processor->TakeChanges()) master.changes.push_back(change);
    std::vector<std::string> records;
    if (master.next >= master.own_end) {
      for (TaskCommand& command : master.calls->TakeCommands(master.processor->tasks())) {
        if (error_ == TaskError::kKeepsWhatNobodyGets && command.has_undelivered()) continue;
        ControlRecord record = NewControl();
        *record.mutable_task() = std::move(command);
        records.push_back(EncodeControl(record));
      }
      if (random_.Chance(0.3)) {
        ControlRecord tick = NewControl();
        tick.mutable_tick();
        records.push_back(EncodeControl(tick));
      }
    }
    if (!is_quiet_ && random_.Chance(0.05)) {
      Cover("transaction aborted");
      control_.insert(control_.end(), records.size() + 1, std::nullopt);
      master.step = Step::kFold;
      return;
    }
    WriteTo(plan_, master.changes);
    master.changes.clear();
    for (const std::string& record : records) Append(record);
    control_.push_back(std::nullopt);  // the marker
    if (!records.empty()) master.own_end = control_.size() - 1;
    master.step = error_ == TaskError::kAnswersBeforeTheCommit ? Step::kFold : Step::kAnswer;
    CheckCommit(*master.processor);
  }

  void Answer(Master& master) {
    for (const auto& [call, told] : master.calls->TakeAnswers(master.processor->tasks())) {
      const TaskAnswer answer = told.value();  // it has a few sets
      Trainer* caller = nullptr;
      TrainerThread* thread = nullptr;
      for (Trainer& trainer : trainers_) {
        for (TrainerThread* each : {&trainer.asks, &trainer.reports}) {
          if (each->call != call) continue;
          caller = &trainer;
          thread = each;
        }
      }
      if (answer.kind == TaskAnswer::Kind::kTask) {
        if (caller == nullptr) Cover("answer to nobody");
        if (masters_.IsFenced(master)) Cover("task from an older master");
        master.calls->NoteTold(answer.lease, caller != nullptr);
      }
      if (caller != nullptr) TakeAnswer(*caller, *thread, answer);
    }
  }

  // The log.

  void Append(const std::string& value) {
    control_.emplace_back(value);
    FoldInto(newest_, control_.size() - 1);
  }

  // What is in `plan` must be the fold of `control` from its beginning.
  void CheckCommit(const MasterProcessor& committed) {
    const auto next = static_cast<size_t>(int64_t{committed.next_offset()});
    for (; referee_next_ < next; ++referee_next_) FoldInto(referee_, referee_next_);
    WriteTo(referee_plan_, referee_.TakeChanges());
    if (referee_plan_ != plan_) Violate("`plan` is not the fold of `control`");
    for (const auto& [key, task] : committed.tasks().tasks()) {
      if (task.lease() == 0) continue;
      leased_[task.lease()] = key;
      newest_lease_[key] = std::max(newest_lease_[key], task.lease());
      if (task.command() == 0) told_.insert(task.lease());
    }
    for (const auto& [name, set] : committed.tasks().sets()) {
      uint64_t given_up = 0;
      for (int64_t number = 0; number < set.dealt(); ++number) {
        const TaskManager::Key key(number, name);
        if (!committed.tasks().tasks().contains(key) && !done_.contains(key)) ++given_up;
      }
      // (Of one that was given up a trainer may have said before that it is done, too late.)
      if (given_up > set.given_up()) Violate("a task counts, but nobody has done it");
    }
  }

  // When all faults have ended.

  void ComeToRest() {
    is_quiet_ = true;
    for (uint64_t turn = 0; turn < kMostQuietTaskTurns && IsRight(); ++turn) {
      if (!masters_.HasNewest()) masters_.Begin();
      if (random_.Chance(0.5)) {
        MoveMaster(masters_.Draw());
      } else {
        MoveTrainer(trainers_[random_.Below(trainers_.size())]);
      }
      const bool is_over = std::ranges::all_of(
          trainers_, [](const Trainer& trainer) { return trainer.is_told_of_the_end; });
      if (is_over) return;
    }
    if (IsRight()) Violate("it does not come to an end");
  }

  void CheckRest() {
    const TaskManager& tasks = newest_.tasks();
    for (const auto& [name, spec] : specs_) {
      const TaskSetState& set = tasks.sets().at(name);
      if (!tasks.IsDone(name)) return Violate("the trainers leave, and the set is not done");
      const auto done = std::ranges::count_if(
          done_, [&](const TaskManager::Key& key) { return key.second == name; });
      if (static_cast<int64_t>(done) + static_cast<int64_t>(set.given_up()) < TasksOf(spec)) {
        Violate("a task is missing");
      }
      if (set.given_up() > 0) Cover("task given up");
      const bool may_be_lost = spec_.most_failures() == 0 && (dies_ || spec_.timeout_ticks() > 0);
      if (set.given_up() > 0 && !fails_ && may_be_lost) Cover("lost task given up");
      if (set.given_up() > 0 && !fails_ && !may_be_lost) {
        Violate("a task is given up that has not failed");
      }
    }
  }

  Random random_;
  const TaskError error_;
  SeedOutcome outcome_;
  TaskSetSpec spec_;
  std::map<std::string, TaskSetSpec> specs_;  // with those of what follows it, by name
  bool fails_ = false;
  bool dies_ = false;
  bool prefetches_ = false;
  bool is_quiet_ = false;

  std::vector<std::optional<std::string>> control_;  // by offset; empty: nothing to be read
  PlanRecords plan_;
  TaskMasters masters_{random_, outcome_};

  std::vector<Trainer> trainers_;
  uint64_t calls_ = 0;
  std::map<TaskManager::Key, uint32_t> given_;         // to a trainer: the newest lease
  std::set<TaskManager::Key> done_;                    // a trainer has said so
  std::set<TaskManager::Key> counted_;                 // and that has counted
  std::set<uint32_t> leases_;                          // that a trainer was given
  std::map<uint32_t, TaskManager::Key> leased_;        // by lease the task, as `plan` says
  std::map<TaskManager::Key, uint32_t> newest_lease_;  // so
  std::set<uint32_t> told_;                            // so
  std::vector<ProcessState> processes_;

  MasterProcessor newest_{kMasterEpoch};   // folds all that is in `control`
  MasterProcessor referee_{kMasterEpoch};  // all that is folded into `plan`
  size_t referee_next_ = 0;
  PlanRecords referee_plan_;
};

}  // namespace

SeedOutcome RunTaskSeed(uint64_t seed, TaskError error) { return TaskWorld(seed, error).Run(); }

}  // namespace millrace::simulation
