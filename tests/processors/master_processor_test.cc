// The fold over `control`, and the records of `plan` that it leaves.
#include "processors/master_processor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <random>

#include "tests/processors/lease_fixture.h"
#include "tests/processors/master_fixture.h"
#include "tests/processors/node_fixture.h"
#include "tests/processors/task_fixture.h"
#include "topics/control_codec.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Plan = std::map<std::string, std::string>;

constexpr uint64_t kEpoch = 3;

std::string Record(const ProcessPlan& plan, uint64_t epoch = kEpoch) {
  ControlRecord record;
  record.set_epoch(epoch);
  *record.mutable_plan() = plan;
  return EncodeControl(record);
}
std::string Record(const ProcessReport& report) {
  ControlRecord record;
  record.set_epoch(kEpoch);
  *record.mutable_report() = report;
  return EncodeControl(record);
}
std::string Record(const TaskCommand& command) {
  ControlRecord record;
  record.set_epoch(kEpoch);
  *record.mutable_task() = command;
  return EncodeControl(record);
}
std::string Record(const NodeCommand& command) {
  ControlRecord record;
  record.set_epoch(kEpoch);
  *record.mutable_node() = command;
  return EncodeControl(record);
}
std::string Record(const LeaseCommand& command) {
  ControlRecord record;
  record.set_epoch(kEpoch);
  *record.mutable_lease() = command;
  return EncodeControl(record);
}
std::string TickRecord() {
  ControlRecord record;
  record.set_epoch(kEpoch);
  record.mutable_tick();
  return EncodeControl(record);
}
std::string StopRecord() {
  ControlRecord record;
  record.set_epoch(kEpoch);
  record.mutable_stop();
  return EncodeControl(record);
}

// As the topic is, when it has been compacted.
void Write(MasterProcessor& master, Plan& plan) {
  for (auto& [key, value] : master.TakeChanges()) {
    if (value) {
      plan[key] = std::move(*value);
    } else {
      plan.erase(key);
    }
  }
}

std::string StateOf(const MasterProcessor& master) {
  std::string text = master.state().DebugString();
  for (const ProcessState& process : master.processes()) text += process.DebugString();
  for (const auto& [name, set] : master.tasks().sets()) text += set.DebugString();
  for (const auto& [key, task] : master.tasks().tasks()) text += task.DebugString();
  return text + TextOfNodes(master.nodes()) + TextOfLeases(master.leases());
}

void ExpectRestoredAs(const MasterProcessor& master, const Plan& plan) {
  const StatusOr<MasterProcessor> restored = MasterProcessor::Restore(kEpoch, plan);
  ASSERT_EQ(restored.status(), absl::OkStatus());
  ASSERT_EQ(StateOf(*restored), StateOf(master));
  ASSERT_EQ(restored->next_offset(), master.next_offset());
}

uint32_t Below(std::mt19937& random, uint32_t end) { return static_cast<uint32_t>(random() % end); }

ProcessPlan RandomPlan(std::mt19937& random) {
  ProcessPlan plan;
  for (const char* name : {"producer", "server", "worker"}) {
    if (random() % 4 == 0) continue;
    ProcessGroup group = Group(name, 1 + Below(random, 4), Below(random, 3));
    group.set_least(Below(random, group.count() + 1));
    if (random() % 2 == 0) group.set_most_failures(1 + Below(random, 4));
    if (random() % 3 == 0) group.add_command("--other");
    if (group.name() == "worker") group.set_logical_workers(Below(random, 8));
    if (group.name() == "server") group.set_shards(Below(random, 6));
    *plan.add_groups() = group;
  }
  plan.set_slots(Below(random, 8));
  return plan;
}

// Of trainers whose master is another one now and then.
std::string RandomTaskRecord(std::mt19937& random, const MasterProcessor& master) {
  const std::string set = random() % 2 == 0 ? "rows" : "others";
  const auto leases = static_cast<uint32_t>(master.tasks().leases());
  const uint32_t lease = 1 + Below(random, leases + 1);
  TaskCommand command;
  switch (random() % 10) {
    case 0: {
      TaskSetSpec spec = TaskSet(set, 5);
      spec.set_timeout_ticks(random() % 4);
      command = TaskBegin(spec);
      break;
    }
    case 1:
      *command.mutable_position() = TaskSetPosition();
      if (master.tasks().sets().contains(set))
        *command.mutable_position() = master.tasks().PositionOf(set);
      break;
    case 2:
      command.set_reset(random() % 4 == 0 ? set : "unknown");
      break;
    case 3:
      command.mutable_delivered()->add_lease(lease);
      break;
    case 4:
      command.mutable_undelivered()->add_lease(lease);
      break;
    case 5:
    case 6:
      command = TaskResult(lease, random() % 2 == 0, set);
      break;
    default:
      command = TaskGet("worker-" + std::to_string(random() % 3), set);
  }
  const bool is_another = random() % 8 == 0;
  command.set_front(master.tasks().front() + (is_another ? 1 : 0));
  command.set_number(is_another ? 1 : master.tasks().number() + random() % 3);
  return Record(command);
}

std::string RandomNodeRecord(std::mt19937& random, const MasterProcessor& master) {
  NodeCommand command = RandomNodeCommand(random, master.nodes().members().incarnations());
  const bool is_another = random() % 8 == 0;
  command.set_front(master.nodes().front() + (is_another ? 1 : 0));
  command.set_number(is_another ? 1 : master.nodes().number() + random() % 3);
  return Record(command);
}

// As launchers, trainers, nodes, users, zombies and damage would write it.
std::string RandomRecord(std::mt19937& random, const MasterProcessor& master) {
  if (random() % 3 == 0) return RandomTaskRecord(random, master);
  if (random() % 2 == 0) return RandomNodeRecord(random, master);
  if (random() % 2 == 0) return Record(RandomLeaseCommand(random, master.leases()));
  const uint64_t kind = random() % 40;
  if (kind == 0) return StopRecord();
  if (kind < 3) return Record(RandomPlan(random), kind == 1 ? kEpoch : kEpoch - random() % 2);
  if (kind < 10) return TickRecord();
  if (kind < 12) {
    ControlRecord record;
    record.set_epoch(kEpoch);
    ShardLayout& layout = kind == 10 ? *record.mutable_reshard() : *record.mutable_layout();
    layout.set_number(master.state().layout().number() + 1 + Below(random, 2));
    layout.set_shards(1 + Below(random, 6));
    return EncodeControl(record);
  }
  const std::vector<ProcessState> processes = master.processes();
  if (processes.empty()) return Record(RandomPlan(random));
  const ProcessState& process = processes[random() % processes.size()];
  uint64_t incarnation = process.incarnation();
  if (kind < 14) incarnation += random() % 5 - 2;
  ProcessReport report = Runs(ToText(process.process()), incarnation);
  if (kind % 2 == 0) {
    constexpr int kCodes[] = {0, 0, 1, 2, 9, 11, 130};
    *report.mutable_end() =
        EndBy(static_cast<ProcessEnd::Cause>(random() % 5), kCodes[random() % std::size(kCodes)]);
  }
  std::string record = Record(report);
  if (kind == 39) record[random() % record.size()] ^= static_cast<char>(1 + random() % 255);
  return record;
}

TEST(MasterProcessor, IsAfterEachRecordWhatIsRestoredFromThePlan) {
  std::map<int, int> phases;
  const auto has_been_in_all = [&phases] {
    for (int phase = MasterState::ACTIVE; phase <= MasterState::FAILED; ++phase) {
      if (!phases.contains(phase)) return false;
    }
    return true;
  };
  // (Some phases are rare: then more is drawn.)
  for (uint32_t seed = 0; seed < 15 || (seed < 200 && !has_been_in_all()); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    MasterProcessor master(kEpoch);
    // Restored again and again: what is restored goes on as what was not. (Each time from all of
    // the plan, so a record that was not written is seen a little later, too.)
    MasterProcessor restored(kEpoch);
    Plan plan;
    for (int64_t i = 0; i < 300; ++i) {
      const Offset offset(2 * i);
      const std::string record = RandomRecord(random, master);
      EXPECT_EQ(master.Fold(offset, record), restored.Fold(offset, record));
      Write(master, plan);
      if (random() % 4 == 0) restored = MasterProcessor::Restore(kEpoch, plan).value();
      ASSERT_EQ(StateOf(restored), StateOf(master));
      ASSERT_EQ(restored.next_offset(), master.next_offset());
      ++phases[master.phase()];
    }
  }
  EXPECT_TRUE(has_been_in_all());
}

TEST(MasterProcessor, GivesTheTasksOfAProcessThatEndedToOthers) {
  MasterProcessor master(kEpoch);
  int64_t offset = 0;
  const auto fold = [&](const std::string& record) {
    EXPECT_EQ(master.Fold(Offset(offset++), record), "");
  };
  uint64_t number = 0;
  const auto tell = [&](TaskCommand command) {
    command.set_number(++number);
    fold(Record(command));
  };
  fold(Record(PlanOf({Group("worker", 2, 1)})));
  tell(TaskBegin(TaskSet()));
  tell(TaskGet("worker-0"));
  tell(TaskGet("worker-1"));
  fold(Record(Ends("worker-1", 1, Exit(1))));  // another's incarnation
  EXPECT_EQ(master.tasks().FreeIn("rows"), 2u);
  fold(Record(Ends("worker-0", 1, Signal(9))));
  EXPECT_EQ(master.tasks().FreeIn("rows"), 3u);
  EXPECT_FALSE(master.tasks().tasks().begin()->second.is_leased());
  tell(TaskGet("worker-0"));
  fold(Record(Ends("worker-0", 1, Signal(9))));  // said again
  EXPECT_EQ(master.tasks().FreeIn("rows"), 2u);
}

TEST(MasterProcessor, WritesOfATaskOnlyWhatHasChanged) {
  MasterProcessor master(kEpoch);
  uint64_t number = 0;
  const auto changes_of = [&](TaskCommand command) {
    command.set_number(++number);
    EXPECT_EQ(master.Fold(master.next_offset(), Record(command)), "");
    std::vector<std::string> keys;
    for (const auto& [key, value] : master.TakeChanges()) keys.push_back(key + (value ? "" : "!"));
    return keys;
  };
  EXPECT_THAT(changes_of(TaskBegin(TaskSet())), ElementsAre("task-set:rows", "state"));
  EXPECT_THAT(changes_of(TaskGet("worker-0")),
              ElementsAre("task-set:rows", "task:0:rows", "state"));
  EXPECT_THAT(changes_of(TaskGet("worker-0")),
              ElementsAre("task-set:rows", "task:1:rows", "state"));
  EXPECT_THAT(changes_of(TaskResult(1)), ElementsAre("task:0:rows!", "state"));
}

TEST(MasterProcessor, WritesOfNodesOnlyWhatHasChanged) {
  MasterProcessor master(kEpoch);
  uint64_t number = 0;
  const auto changes = [&master] {
    std::vector<std::string> keys;
    for (const auto& [key, value] : master.TakeChanges()) keys.push_back(key + (value ? "" : "!"));
    return keys;
  };
  const auto changes_of = [&](NodeCommand command) {
    command.set_number(++number);
    EXPECT_EQ(master.Fold(master.next_offset(), Record(command)), "");
    return changes();
  };
  EXPECT_THAT(changes_of(NodeJoin("a")), ElementsAre("member:worker:0", "state"));
  EXPECT_THAT(changes_of(NodeJoin("a")), ElementsAre("state"));
  EXPECT_THAT(changes_of(NodeSign("a")), ElementsAre("state"));
  EXPECT_THAT(changes_of(NodeArrive("a", 1)), ElementsAre("barrier:start", "state"));
  master.Fold(master.next_offset(), TickRecord());
  EXPECT_THAT(changes(), ElementsAre("state"));
  EXPECT_THAT(changes_of(NodeSign("a")), ElementsAre("member:worker:0", "state"));
  EXPECT_THAT(changes_of(NodeSign("b")), ElementsAre("state"));
  EXPECT_THAT(changes_of(NodeLeave("a")),
              ElementsAre("member:worker:0", "barrier:start!", "state"));
}

TEST(MasterProcessor, WritesOfLeasesOnlyWhatHasChanged) {
  MasterProcessor master(kEpoch);
  const auto changes_of = [&](const LeaseCommand& command) {
    EXPECT_EQ(master.Fold(master.next_offset(), Record(command)), "");
    std::vector<std::string> keys;
    for (const auto& [key, value] : master.TakeChanges()) keys.push_back(key + (value ? "" : "!"));
    return keys;
  };
  EXPECT_THAT(changes_of(LeaseBegin(2, 1)),
              ElementsAre("lease:0", "lease:1", "input:0", "free-leases", "state"));
  EXPECT_THAT(changes_of(LeaseCut(0, 0, 5, 1)),
              ElementsAre("lease:0", "input:0", "free-leases", "state"));
  EXPECT_THAT(changes_of(LeaseCut(0, 0, 5, 1)), ElementsAre("state"));
  EXPECT_THAT(changes_of(LeaseCounted(0, 1)), ElementsAre("lease:0", "state"));
  EXPECT_THAT(changes_of(LeaseEnd(0, 5)), ElementsAre("lease:0", "lease:1", "input:0", "state"));
}

TEST(MasterProcessor, WritesOnlyWhatHasChanged) {
  MasterProcessor master(kEpoch);
  EXPECT_THAT(master.TakeChanges(), IsEmpty());
  const auto keys = [&master] {
    std::vector<std::string> names;
    for (const auto& [key, value] : master.TakeChanges())
      names.push_back(value ? key : "no " + key);
    return names;
  };
  master.Fold(0, Record(PlanOf({Group("server", 1, 3), Group("worker", 2, 1)})));
  EXPECT_THAT(keys(),
              ElementsAre("process:server-0", "process:worker-0", "process:worker-1", "state"));
  master.Fold(1, TickRecord());
  EXPECT_THAT(keys(), ElementsAre("state"));
  master.Fold(2, Record(Ends("worker-1", 3, Exit(0))));
  EXPECT_THAT(keys(), ElementsAre("process:worker-1", "state"));
  master.Fold(3, Record(PlanOf({Group("server", 1, 3), Group("worker", 1, 1)})));
  EXPECT_THAT(keys(), ElementsAre("no process:worker-1", "state"));
  EXPECT_THAT(keys(), IsEmpty());
}

TEST(MasterProcessor, LeavesOutRecordsThatAreInItsState) {
  MasterProcessor master(kEpoch);
  master.Fold(5, TickRecord());
  EXPECT_EQ(master.next_offset(), 6);
  EXPECT_EQ(master.Fold(5, TickRecord()), "");
  EXPECT_EQ(master.Fold(2, "damage"), "");
  EXPECT_EQ(master.state().ticks(), 1u);
  EXPECT_EQ(master.state().unusable(), 0u);
}

TEST(MasterProcessor, SaysWhyARecordIsNotUsedAndCountsIt) {
  MasterProcessor master(kEpoch);
  master.Fold(0, Record(PlanOf({Group("worker", 1, 1)})));
  Plan before;
  Write(master, before);
  ControlRecord empty;
  empty.set_epoch(kEpoch);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "record ignored: "},
      {"abc", "format version"},
      {Record(PlanOf({Group("worker", 2, 1)}), kEpoch + 1), "a command of job epoch 4, not 3"},
      {Record(ProcessPlan()), "a plan without a process"},
      {Record(Runs("worker-0", 2)), "incarnation 2 of worker-0, which was never to be started"},
      {EncodeControl(empty), "a command of an unknown kind"},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_THAT(master.Fold(Offset(i + 1), cases[i].first), HasSubstr(cases[i].second)) << i;
    EXPECT_EQ(master.state().unusable(), i + 1);
  }
  const auto changes = master.TakeChanges();
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].first, "state");
  EXPECT_EQ(master.next_offset(), 7);
}

TEST(MasterProcessor, SaysThatAPlanStartsNothingOfAJobThatHasEnded) {
  MasterProcessor master(kEpoch);
  master.Fold(0, Record(PlanOf({Group("worker", 1, 1)})));
  master.Fold(1, Record(Ends("worker-0", 1, Exit(0))));
  ASSERT_EQ(master.phase(), MasterState::ENDED);
  EXPECT_THAT(master.Fold(2, Record(PlanOf({Group("worker", 1, 1)}))),
              HasSubstr("the job has ended, so nothing is started"));
  EXPECT_THAT(master.Orders({}), IsEmpty());
}

TEST(MasterProcessor, MakesRecordsOfReportsThatItFoldsItself) {
  MasterProcessor master(kEpoch);
  master.Fold(0, Record(PlanOf({Group("worker", 1, 1)})));
  const std::vector<ProcessReport> seen = {Runs("worker-0", 1)};
  const std::vector<ControlRecord> records = master.Reports(seen);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(master.Fold(1, EncodeControl(records[0])), "");
  EXPECT_EQ(master.processes()[0].phase(), ProcessState::RUNNING);
  EXPECT_THAT(master.Reports(seen), IsEmpty());
}

Plan SomePlan() {
  MasterProcessor master(kEpoch);
  ProcessGroup workers = Group("worker", 3, 1, 1);
  workers.set_logical_workers(2);
  master.Fold(0, Record(PlanOf({Group("server", 1, 3), workers}, 3)));
  master.Fold(1, Record(Runs("worker-0", 2)));
  master.Fold(2, Record(Ends("worker-1", 3, Exit(1))));
  Plan plan;
  Write(master, plan);
  return plan;
}

std::string WhyNot(const Plan& plan, uint64_t epoch = kEpoch) {
  const StatusOr<MasterProcessor> restored = MasterProcessor::Restore(epoch, plan);
  EXPECT_TRUE(absl::IsInvalidArgument(restored.status()));
  return std::string(TextOf(restored.status()));
}

TEST(MasterProcessor, BeginsWithoutAPlan) {
  const StatusOr<MasterProcessor> master = MasterProcessor::Restore(kEpoch, {});
  ASSERT_TRUE(master.ok());
  EXPECT_EQ(master->phase(), MasterState::IDLE);
  EXPECT_EQ(master->next_offset(), 0);
}

TEST(MasterProcessor, RefusesThePlanOfAnotherEpoch) {
  EXPECT_THAT(WhyNot(SomePlan(), 4), HasSubstr("of job epoch 3, not 4. Give that --job-epoch"));
}

TEST(MasterProcessor, RefusesAPlanThatIsNotWhole) {
  for (const auto& [key, value] : SomePlan()) {
    Plan plan = SomePlan();
    plan.erase(key);
    EXPECT_THAT(WhyNot(plan), HasSubstr("start the master again")) << key;
    plan[key] = value.substr(0, value.size() / 2);
    EXPECT_THAT(WhyNot(plan), HasSubstr(key)) << key;
  }
  Plan plan = SomePlan();
  plan["member:3"] = plan["process:worker-0"];
  EXPECT_THAT(WhyNot(plan), HasSubstr("member:3"));
}

TEST(MasterProcessor, RefusesAPlanThatContradictsItself) {
  const auto with = [](const std::string& key, auto message, const auto& change) {
    Plan plan = SomePlan();
    EXPECT_TRUE(message.ParseFromString(plan.at(key).substr(2)));
    change(message);
    plan[key] = plan[key].substr(0, 2) + message.SerializeAsString();
    return WhyNot(plan);
  };
  const auto job = [&](const auto& change) { return with("state", MasterState(), change); };
  const auto worker = [&](const auto& change) {
    return with("process:worker-0", ProcessState(), change);
  };
  EXPECT_THAT(job([](MasterState& s) { s.set_next_offset(-1); }), HasSubstr("out of range"));
  EXPECT_THAT(job([](MasterState& s) { s.set_ticks(UINT64_MAX); }), HasSubstr("ticks"));
  EXPECT_THAT(job([](MasterState& s) { s.set_incarnations(1); }), HasSubstr("still to come"));
  EXPECT_THAT(job([](MasterState& s) { s.set_phase(MasterState::IDLE); }), HasSubstr("idle"));
  EXPECT_THAT(job([](MasterState& s) { s.set_phase(MasterState::ENDED); }), HasSubstr("phase"));
  EXPECT_THAT(job([](MasterState& s) { s.set_failure("x"); }), HasSubstr("goes on"));
  EXPECT_THAT(job([](MasterState& s) { s.mutable_plan()->set_slots(1); }), HasSubstr("slots"));
  EXPECT_THAT(job([](MasterState& s) { s.mutable_plan()->mutable_groups(1)->set_count(2); }),
              HasSubstr("not in the plan"));
  EXPECT_THAT(job([](MasterState& s) { s.mutable_plan()->mutable_groups(1)->set_count(4); }),
              HasSubstr("missing"));
  EXPECT_THAT(worker([](ProcessState& p) { p.set_incarnation(1); }),
              HasSubstr("the incarnation of another"));
  EXPECT_THAT(worker([](ProcessState& p) { p.clear_command(); }), HasSubstr("no command"));
  EXPECT_THAT(worker([](ProcessState& p) { p.set_phase(ProcessState::STOPPED); }),
              HasSubstr("does not allow"));
  EXPECT_THAT(worker([](ProcessState& p) { p.set_phase_since_tick(1); }), HasSubstr("tick"));
  EXPECT_THAT(worker([](ProcessState& p) { p.set_not_before_tick(33); }), HasSubstr("tick"));
  EXPECT_THAT(worker([](ProcessState& p) { p.set_failures(UINT32_MAX); }), HasSubstr("failures"));
  EXPECT_THAT(worker([](ProcessState& p) { p.mutable_process()->set_rank(2); }),
              HasSubstr("another name"));
  EXPECT_THAT(worker([](ProcessState& p) { p.add_workers(2); }), HasSubstr("does not have"));
  EXPECT_THAT(worker([](ProcessState& p) { p.add_workers(1); }), HasSubstr("of another"));
  EXPECT_THAT(worker([](ProcessState& p) { p.mutable_workers()->SwapElements(0, 1); }),
              HasSubstr("order"));
  EXPECT_THAT(worker([](ProcessState& p) { p.set_phase(ProcessState::STOPPING); }),
              HasSubstr("hosts workers"));
}

// Whatever stands in the topic: it is refused, or the master goes on without a broken invariant.
TEST(MasterProcessor, GoesOnWithAnyPlanThatItTakes) {
  int taken = 0;
  for (uint32_t seed = 0; seed < 2'000; ++seed) {
    std::mt19937 random(seed);
    Plan plan = SomePlan();
    for (uint64_t changes = 1 + random() % 3; changes > 0; --changes) {
      std::string& value =
          std::next(plan.begin(), static_cast<int>(random() % plan.size()))->second;
      value[random() % value.size()] = static_cast<char>(random() % 40);
    }
    StatusOr<MasterProcessor> master = MasterProcessor::Restore(kEpoch, plan);
    if (!master.ok()) continue;
    ++taken;
    for (int i = 0; i < 60; ++i) {
      master->Fold(master->next_offset(), RandomRecord(random, *master));
      master->Orders({});
    }
  }
  EXPECT_GT(taken, 100);
}

TEST(MasterProcessor, CountsEndsUpToWhatItTakesFromThePlan) {
  Plan plan;
  MasterProcessor first(kEpoch);
  first.Fold(0, Record(PlanOf({Group("server", 1, 1)})));
  Write(first, plan);
  std::string& value = plan.at("process:server-0");
  ProcessState process;
  ASSERT_TRUE(process.ParseFromString(value.substr(2)));
  process.set_restarts(ProcessTable::kMostEndsCounted);
  process.set_failures(ProcessTable::kMostEndsCounted);
  value = value.substr(0, 2) + process.SerializeAsString();
  StatusOr<MasterProcessor> master = MasterProcessor::Restore(kEpoch, plan);
  ASSERT_EQ(master.status(), absl::OkStatus());
  master->Fold(master->next_offset(), Record(Ends("server-0", process.incarnation(), Exit(1))));
  for (uint64_t tick = 0; tick <= ProcessTable::kMostBackOff; ++tick) {
    master->Fold(master->next_offset(), TickRecord());
  }
  EXPECT_GT(master->processes()[0].incarnation(), process.incarnation()) << "not started again";
  Write(*master, plan);
  ExpectRestoredAs(*master, plan);
}

}  // namespace
}  // namespace millrace
