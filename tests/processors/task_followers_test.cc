// Evaluations of a data set, and the task at its end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/processors/task_fixture.h"
#include "topics/task_codec.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kEvaluation[] = "rows/evaluation";
constexpr char kEnd[] = "rows/end";

// Two epochs of 4 tasks; 2 tasks of an evaluation, after every 3 and at the end.
TaskSetSpec Followed(int64_t every = 3) {
  TaskSetSpec spec = TaskSet("rows", 2);
  spec.mutable_evaluation()->set_records(5);
  spec.mutable_evaluation()->set_records_per_task(4);
  spec.mutable_evaluation()->set_every(every);
  spec.set_end_task(true);
  return spec;
}

class TaskFollowers : public testing::Test {
 protected:
  void Begin(const TaskSetSpec& spec = Followed()) { tasks_.Do(TaskBegin(spec)); }
  // Of the set or what follows it.
  uint32_t GetAny(const std::string& worker) {
    TaskCommand get = TaskGet(worker);
    get.mutable_get()->set_any(true);
    tasks_.Do(get);
    const TaskState* task = tasks_.manager.FoundFor(tasks_.front, tasks_.number);
    if (task == nullptr) return 0;
    const uint32_t lease = task->lease();
    TaskCommand told;
    told.mutable_delivered()->add_lease(lease);
    tasks_.Do(told);
    return lease;
  }
  std::string SetOf(uint32_t lease) const {
    for (const auto& [key, task] : tasks_.manager.tasks()) {
      if (task.lease() == lease) return task.set();
    }
    return "";
  }
  // What one trainer is given who does one task after the other, one letter each.
  std::string AllByOne() {
    std::string all;
    while (const uint32_t lease = all.size() < 100 ? GetAny("worker-0") : 0) {
      const std::string set = SetOf(lease);
      all += set == kEvaluation ? 'e' : set == kEnd ? 'E' : 't';
      tasks_.Done(lease);
    }
    return all;
  }
  // As a master restores it.
  Status Reload() const {
    MasterState state;
    state.set_ticks(tasks_.tick);
    tasks_.manager.Save(state);
    TaskManager other;
    return other.Load(state, tasks_.manager.sets(), tasks_.manager.tasks());
  }

  TestedTasks tasks_;
};

TEST_F(TaskFollowers, AnEvaluationComesAfterSoManyTasksAndTheEndTaskAtTheEnd) {
  Begin();
  EXPECT_EQ(AllByOne(),
            "tttee"
            "tttee"
            "ttee"
            "E");
  for (const auto& [name, set] : tasks_.manager.sets()) {
    EXPECT_TRUE(tasks_.manager.IsDone(name)) << name;
  }
  EXPECT_EQ(Reload(), absl::OkStatus());
}

TEST_F(TaskFollowers, NothingFollowsASetThatDoesNotWantIt) {
  Begin(TaskSet("rows", 2));
  EXPECT_EQ(AllByOne(), "tttttttt");
  EXPECT_EQ(tasks_.manager.sets().size(), 1u);
}

TEST_F(TaskFollowers, AnEvaluationAtEveryEpochEndsWithTheLastOne) {
  Begin(Followed(4));
  EXPECT_EQ(AllByOne(),
            "ttttee"
            "ttttee"
            "E");
}

TEST_F(TaskFollowers, WhoAsksForTheSetAloneGetsNothingElse) {
  Begin();
  std::vector<uint32_t> leases;
  while (const uint32_t lease = tasks_.Get("worker-0")) {
    EXPECT_EQ(SetOf(lease), "rows");
    tasks_.Done(lease);
    leases.push_back(lease);
  }
  EXPECT_EQ(leases.size(), 8u);
  EXPECT_TRUE(tasks_.manager.IsDone("rows")) << "whoever follows";
  EXPECT_FALSE(tasks_.manager.IsDone(kEvaluation));
  EXPECT_EQ(SetOf(tasks_.Get("worker-1", true, kEvaluation)), kEvaluation);
}

// An evaluation that is counted as training would open the next one, and the end.
TEST_F(TaskFollowers, DoNotCountAsTasksOfTheSet) {
  Begin();
  for (int i = 0; i < 3; ++i) tasks_.Done(GetAny("worker-0"));
  EXPECT_EQ(tasks_.manager.FreeIn(kEvaluation), 2u);
  for (int i = 0; i < 2; ++i) tasks_.Done(GetAny("worker-0"));
  EXPECT_EQ(tasks_.manager.FreeIn(kEvaluation), 0u);
  EXPECT_EQ(tasks_.manager.sets().at("rows").dealt(), 3);
  EXPECT_EQ(tasks_.manager.FreeIn("rows"), 5u);
}

TEST_F(TaskFollowers, TheEndWaitsForTasksThatOthersHave) {
  Begin();
  const uint32_t slow = GetAny("worker-1");
  std::string all = AllByOne();
  EXPECT_EQ(all,
            "tttee"
            "tttee"
            "t")
      << "the last evaluation is of what all have trained";
  tasks_.Done(slow);
  const uint32_t evaluation = GetAny("worker-1");
  EXPECT_EQ(SetOf(evaluation), kEvaluation);
  EXPECT_EQ(AllByOne(), "e");
  EXPECT_EQ(tasks_.manager.FreeIn(kEnd), 0u);
  tasks_.Done(evaluation);
  EXPECT_EQ(AllByOne(), "E");
}

TEST_F(TaskFollowers, GoToOthersWhenTheirWorkerDiesAndCountOnce) {
  Begin();
  for (int i = 0; i < 3; ++i) tasks_.Done(GetAny("worker-0"));
  const uint32_t lost = GetAny("worker-1");
  ASSERT_EQ(SetOf(lost), kEvaluation);
  tasks_.manager.EndOf("worker-1");
  const uint32_t again = GetAny("worker-0");
  EXPECT_EQ(SetOf(again), kEvaluation);
  tasks_.Done(lost);  // too late
  EXPECT_EQ(SetOf(again), kEvaluation);
  tasks_.Done(again);
  EXPECT_EQ(AllByOne(),
            "e"
            "tttee"
            "ttee"
            "E");
}

TEST_F(TaskFollowers, OneEndTaskIsGivenAtATimeAndAgainUntilItIsDone) {
  Begin();
  uint32_t end = 0;
  while (SetOf(end = GetAny("worker-0")) != kEnd) tasks_.Done(end);
  EXPECT_EQ(GetAny("worker-1"), 0u);
  tasks_.Fail(end);
  end = GetAny("worker-1");
  EXPECT_EQ(SetOf(end), kEnd);
  tasks_.manager.EndOf("worker-1");
  end = GetAny("worker-0");
  EXPECT_EQ(SetOf(end), kEnd);
  tasks_.Done(end);
  EXPECT_EQ(GetAny("worker-1"), 0u) << "it is done";
}

TEST_F(TaskFollowers, TasksThatAreGivenUpLetTheNextOnesCome) {
  TaskSetSpec spec = Followed();
  spec.set_most_failures(1);
  Begin(spec);
  for (int i = 0; i < 3; ++i) tasks_.Fail(GetAny("worker-0"));
  for (int i = 0; i < 2; ++i) tasks_.Fail(GetAny("worker-0"));
  EXPECT_EQ(tasks_.manager.sets().at("rows").given_up(), 3u);
  EXPECT_EQ(tasks_.manager.sets().at(kEvaluation).given_up(), 2u);
  EXPECT_EQ(AllByOne(),
            "tttee"
            "ttee"
            "E");
}

TEST_F(TaskFollowers, AResultMayNameTheSetOrWhatFollowsIt) {
  Begin(Followed(1));
  tasks_.Done(GetAny("worker-0"));
  const uint32_t first = GetAny("worker-0");
  const uint32_t second = GetAny("worker-0");
  tasks_.Do(TaskResult(first, false, "rows"));
  tasks_.Do(TaskResult(second, false, kEvaluation));
  EXPECT_EQ(tasks_.manager.OpenIn(kEvaluation), 0u);
  const uint32_t third = GetAny("worker-0");
  EXPECT_FALSE(tasks_.Apply(TaskResult(third, false, kEvaluation)).ok()) << "it is of the set";
}

TEST_F(TaskFollowers, BeginAgainWithTheSet) {
  Begin();
  for (int i = 0; i < 4; ++i) tasks_.Done(GetAny("worker-0"));
  const uint32_t old = GetAny("worker-0");
  ASSERT_EQ(SetOf(old), kEvaluation);
  TaskCommand reset;
  reset.set_reset("rows");
  tasks_.Do(reset);
  tasks_.Done(old);
  EXPECT_EQ(Reload(), absl::OkStatus());
  EXPECT_EQ(AllByOne(),
            "tttee"
            "tttee"
            "ttee"
            "E");
  reset.set_reset(kEvaluation);
  EXPECT_THAT(std::string(tasks_.Apply(reset).message()), HasSubstr("follows rows"));
}

TEST_F(TaskFollowers, GoOnFromAPositionOfTheSet) {
  Begin();
  TaskCommand command;
  TaskSetPosition& position = *command.mutable_position();
  *position.mutable_spec() = TaskSet("rows", 2);  // a checkpoint says nothing of what follows
  position.set_dealt(6);
  position.add_undone(2);
  tasks_.Do(command);
  EXPECT_EQ(Reload(), absl::OkStatus());
  EXPECT_EQ(AllByOne(),
            "tee"
            "ttee"
            "E")
      << "one evaluation was due before";
}

TEST_F(TaskFollowers, AWorkerThatWasNotToldGetsTheTaskAgainFromTheNextMaster) {
  Begin(Followed(1));
  tasks_.Done(GetAny("worker-0"));
  TaskCommand get = TaskGet("worker-0");
  get.mutable_get()->set_any(true);
  tasks_.Do(get);
  const int64_t number = tasks_.manager.FoundFor(tasks_.front, tasks_.number)->number();
  ++tasks_.front;
  tasks_.number = 0;
  EXPECT_TRUE(tasks_.manager.HasUntold(kEvaluation, "worker-0", tasks_.front));
  const uint32_t again = GetAny("worker-0");
  EXPECT_EQ(SetOf(again), kEvaluation);
  EXPECT_EQ(tasks_.NumberOf(again), number);
}

TEST_F(TaskFollowers, NeedRoomAndNamesOfTheirOwn) {
  Begin(TaskSet(kEnd));
  EXPECT_THAT(std::string(tasks_.manager.CheckRoomFor(Followed()).message()),
              HasSubstr("rows/end is there already"));
  EXPECT_FALSE(tasks_.Apply(TaskBegin(Followed())).ok());
  EXPECT_EQ(tasks_.manager.sets().size(), 1u);
  for (size_t i = 1; i < kMostTaskSets - 2; ++i) Begin(TaskSet("set " + std::to_string(i)));
  TaskSetSpec other = Followed();
  other.set_name("other");
  EXPECT_TRUE(absl::IsResourceExhausted(tasks_.manager.CheckRoomFor(other)));
  EXPECT_TRUE(tasks_.manager.CheckRoomFor(TaskSet("other")).ok());
}

TEST_F(TaskFollowers, AreInNoCommand) {
  for (const TaskSetSpec& follower : FollowersOf(Followed())) {
    TaskCommand begin = TaskBegin(follower);
    begin.set_number(1);
    EXPECT_THAT(std::string(CheckTaskCommand(begin).message()), HasSubstr("follows another"));
  }
}

TEST_F(TaskFollowers, ThatCannotBeAreRefusedWithTheirSet) {
  const auto why_not = [](void (*change)(TaskSetSpec&)) {
    TaskSetSpec spec = Followed();
    change(spec);
    return std::string(CheckTaskSet(spec).message());
  };
  EXPECT_THAT(why_not([](auto& s) { s.mutable_evaluation()->set_records(0); }),
              HasSubstr("records"));
  EXPECT_THAT(why_not([](auto& s) { s.mutable_evaluation()->set_records_per_task(-1); }),
              HasSubstr("records of a task"));
  EXPECT_THAT(why_not([](auto& s) { s.mutable_evaluation()->set_every(0); }),
              HasSubstr("tasks between two"));
  EXPECT_THAT(why_not([](auto& s) { s.set_name(std::string(kMostTaskSetNameBytes, 'x')); }),
              HasSubstr("bytes of a data set's name"));
}

TEST_F(TaskFollowers, AStateThatWasNeverSavedIsRefused) {
  Begin();
  for (int i = 0; i < 3; ++i) tasks_.Done(GetAny("worker-0"));
  MasterState state;
  tasks_.manager.Save(state);
  const auto why_not = [&](const std::string& set, void (*change)(TaskSetState&)) {
    TaskManager::Sets sets = tasks_.manager.sets();
    change(sets.at(set));
    TaskManager other;
    return std::string(other.Load(state, sets, tasks_.manager.tasks()).message());
  };
  EXPECT_THAT(why_not("rows", [](auto&) {}), IsEmpty());
  EXPECT_THAT(why_not("rows", [](auto& s) { s.mutable_spec()->clear_end_task(); }),
              HasSubstr("is not what follows rows"));
  EXPECT_THAT(why_not(kEnd, [](auto& s) { s.mutable_spec()->clear_follows(); }),
              HasSubstr("is not followed by rows/end"));
  EXPECT_THAT(why_not("rows", [](auto& s) { s.set_open_epochs(1); }),
              HasSubstr("has open epochs and follows no other"));
  EXPECT_THAT(why_not(kEnd, [](auto& s) { s.set_dealt(1); }), HasSubstr("before its time"));
}

}  // namespace
}  // namespace millrace
