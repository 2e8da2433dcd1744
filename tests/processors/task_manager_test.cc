// Who gets which task, and which results count.
#include "processors/task_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/processors/task_fixture.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(TaskManager, DealsOutEachTaskOfEachEpochOnce) {
  TestedTasks tasks;
  tasks.Do(TaskBegin(TaskSet("rows", 2)));
  std::vector<int64_t> numbers;
  for (uint32_t lease = tasks.Get("worker-0"); lease != 0; lease = tasks.Get("worker-0")) {
    numbers.push_back(tasks.NumberOf(lease));
    EXPECT_FALSE(tasks.manager.IsDone("rows"));
    tasks.Done(lease);
  }
  EXPECT_THAT(numbers, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_TRUE(tasks.manager.IsDone("rows"));
  EXPECT_THAT(tasks.manager.tasks(), IsEmpty());
}

TEST(TaskManager, IsNotDoneBeforeTheLastTaskIs) {
  TestedTasks tasks;
  tasks.Do(TaskBegin(TaskSet()));
  std::vector<uint32_t> leases;
  for (int i = 0; i < 4; ++i) leases.push_back(tasks.Get("worker-0"));
  EXPECT_EQ(tasks.manager.FreeIn("rows"), 0u);
  EXPECT_EQ(tasks.Get("worker-1"), 0u);
  for (const uint32_t lease : leases) {
    EXPECT_FALSE(tasks.manager.IsDone("rows"));
    tasks.Done(lease);
  }
  EXPECT_TRUE(tasks.manager.IsDone("rows"));
}

TEST(TaskManager, SetsThatAreBegunAgainStayAsTheyAre) {
  TestedTasks tasks;
  tasks.Do(TaskBegin(TaskSet()));
  tasks.Get("worker-0");
  TaskSetSpec other = TaskSet();
  other.set_records(1'000);
  other.set_timeout_ticks(7);
  tasks.Do(TaskBegin(other));
  const TaskSetState& set = tasks.manager.sets().at("rows");
  EXPECT_EQ(set.dealt(), 1);
  EXPECT_EQ(set.spec().records(), 10);
  EXPECT_EQ(set.spec().timeout_ticks(), 7u) << "the newest master's patience holds";
}

TEST(TaskManager, AResultCountsOnce) {
  TestedTasks tasks;
  tasks.Do(TaskBegin(TaskSet()));
  const uint32_t first = tasks.Get("worker-0");
  const uint32_t second = tasks.Get("worker-0");
  tasks.Done(first);
  tasks.Done(first);
  tasks.Fail(first);
  EXPECT_EQ(tasks.NumberOf(first), -1);
  EXPECT_EQ(tasks.NumberOf(second), 1) << "another task is done with it";
  EXPECT_EQ(tasks.manager.FreeIn("rows"), 2u);
}

TEST(TaskManager, ALateResultOfATaskThatAnotherHasChangesNothing) {
  TestedTasks tasks;
  TaskSetSpec spec = TaskSet();
  spec.set_timeout_ticks(5);
  tasks.Do(TaskBegin(spec));
  const uint32_t slow = tasks.Get("worker-0");
  tasks.Ticks(4);
  EXPECT_EQ(tasks.manager.FreeIn("rows"), 3u);
  tasks.Ticks(1);
  EXPECT_EQ(tasks.manager.FreeIn("rows"), 4u);
  const uint32_t again = tasks.Get("worker-1");
  EXPECT_EQ(tasks.NumberOf(again), 0);
  tasks.Done(slow);
  tasks.Fail(slow);
  EXPECT_EQ(tasks.NumberOf(again), 0);
  EXPECT_EQ(tasks.manager.tasks().begin()->second.failures(), 0u);
  tasks.Done(again);
  EXPECT_EQ(tasks.NumberOf(again), -1);
}

TEST(TaskManager, ALateResultOfATaskThatNobodyElseHasCounts) {
  TestedTasks tasks;
  TaskSetSpec spec = TaskSet();
  spec.set_timeout_ticks(5);
  tasks.Do(TaskBegin(spec));
  const uint32_t slow = tasks.Get("worker-0");
  tasks.Ticks(5);
  tasks.Done(slow);
  EXPECT_THAT(tasks.manager.tasks(), IsEmpty());
  EXPECT_EQ(tasks.NumberOf(tasks.Get("worker-0")), 1);
}

TEST(TaskManager, EachTimeoutIsTwiceAsLongAsTheLast) {
  TestedTasks tasks;
  TaskSetSpec spec = TaskSet();
  spec.set_timeout_ticks(5);
  tasks.Do(TaskBegin(spec));
  for (const uint64_t patience : {5, 10, 20, 40}) {
    ASSERT_EQ(tasks.NumberOf(tasks.Get("worker-0")), 0);
    tasks.Ticks(patience - 1);
    EXPECT_EQ(tasks.manager.FreeIn("rows"), 3u);
    tasks.Ticks(1);
    EXPECT_EQ(tasks.manager.FreeIn("rows"), 4u);
  }
}

TEST(TaskManager, WithoutATimeoutATaskIsNeverTakenBack) {
  TestedTasks tasks;
  tasks.Do(TaskBegin(TaskSet()));
  tasks.Get("worker-0");
  tasks.Ticks(100'000);
  EXPECT_EQ(tasks.manager.FreeIn("rows"), 3u);
}

TEST(TaskManager, AFailedTaskIsDealtOutAgainUntilItIsGivenUp) {
  TestedTasks tasks;
  tasks.Do(TaskBegin(TaskSet()));
  for (int i = 0; i < 3; ++i) {
    const uint32_t lease = tasks.Get("worker-0");
    ASSERT_EQ(tasks.NumberOf(lease), 0);
    tasks.Fail(lease);
  }
  const TaskSetState& set = tasks.manager.sets().at("rows");
  EXPECT_EQ(set.given_up(), 1u);
  EXPECT_EQ(set.last_failure(), "no such file");
  EXPECT_EQ(tasks.NumberOf(tasks.Get("worker-0")), 1);
}

TEST(TaskManager, WhatADeadWorkerHadGoesToOthersFirst) {
  TestedTasks tasks;
  tasks.Do(TaskBegin(TaskSet()));
  const uint32_t lost = tasks.Get("worker-0");
  const uint32_t kept = tasks.Get("worker-1");
  tasks.manager.EndOf("worker-0");
  const uint32_t again = tasks.Get("worker-1");
  EXPECT_EQ(tasks.NumberOf(again), 0);
  EXPECT_EQ(tasks.NumberOf(lost), -1);
  EXPECT_EQ(tasks.NumberOf(kept), 1);
  EXPECT_EQ(tasks.manager.tasks().begin()->second.failures(), 0u) << "a death is no failure";
}

// ---- without fault tolerance ----

TaskSetSpec WithoutFaultTolerance() {
  TaskSetSpec spec = TaskSet();
  spec.set_most_failures(0);
  spec.set_timeout_ticks(5);
  return spec;
}

TEST(TaskManager, WithoutFaultToleranceWhatADeadOrSlowOrFailedWorkerHadIsGivenUp) {
  TestedTasks tasks;
  tasks.Do(TaskBegin(WithoutFaultTolerance()));
  tasks.Get("worker-0");
  const uint32_t failed = tasks.Get("worker-1");
  const TaskSetState& set = tasks.manager.sets().at("rows");
  tasks.manager.EndOf("worker-0");
  EXPECT_EQ(set.given_up(), 1u);
  EXPECT_EQ(set.last_failure(), "worker-0 has ended");
  tasks.Fail(failed);
  EXPECT_EQ(set.given_up(), 2u);
  EXPECT_EQ(set.last_failure(), "no such file");
  const uint32_t slow = tasks.Get("worker-2");
  EXPECT_EQ(tasks.NumberOf(slow), 2) << "one was dealt out again";
  tasks.Ticks(5);
  EXPECT_EQ(set.given_up(), 3u);
  EXPECT_EQ(set.last_failure(), "worker-2 did not report it in time");
  tasks.Done(slow);
  EXPECT_EQ(set.given_up(), 3u);
  const uint32_t last = tasks.Get("worker-1");
  EXPECT_EQ(tasks.NumberOf(last), 3);
  EXPECT_FALSE(tasks.manager.IsDone("rows"));
  tasks.Done(last);
  EXPECT_TRUE(tasks.manager.IsDone("rows")) << "who waits for a task would wait for ever";
}

TEST(TaskManager, WithoutFaultToleranceATaskThatNobodyWasToldOfIsDealtOutStill) {
  TestedTasks tasks;
  tasks.Do(TaskBegin(WithoutFaultTolerance()));
  TaskCommand undelivered;
  undelivered.mutable_undelivered()->add_lease(tasks.Get("worker-0", false));
  tasks.Do(undelivered);
  EXPECT_EQ(tasks.NumberOf(tasks.Get("worker-1")), 0);
}

TEST(TaskManager, AStateWithoutFaultToleranceCanBeLoaded) {
  TestedTasks tasks;
  tasks.Do(TaskBegin(WithoutFaultTolerance()));
  tasks.Get("worker-0");
  tasks.Get("worker-1");
  tasks.manager.EndOf("worker-0");
  MasterState state;
  tasks.manager.Save(state);
  TaskManager other;
  EXPECT_EQ(other.Load(state, tasks.manager.sets(), tasks.manager.tasks()), absl::OkStatus());
  EXPECT_EQ(other.OpenIn("rows"), 1u);
}

TEST(TaskManager, AWorkerThatWasNotToldGetsTheTaskAgainFromTheNextMaster) {
  TestedTasks tasks;
  tasks.Do(TaskBegin(TaskSet()));
  const uint32_t lost = tasks.Get("worker-0", false);
  EXPECT_TRUE(tasks.manager.HasUntold("rows", "worker-0", 2));
  tasks.front = 2;
  tasks.number = 0;
  EXPECT_EQ(tasks.NumberOf(tasks.Get("worker-1")), 1) << "another worker's";
  const uint32_t again = tasks.Get("worker-0");
  EXPECT_NE(again, lost);
  EXPECT_EQ(tasks.NumberOf(again), 0);
  EXPECT_FALSE(tasks.manager.HasUntold("rows", "worker-0", 3));
  EXPECT_EQ(tasks.NumberOf(tasks.Get("worker-0")), 2) << "it was told of the other one";
}

TEST(TaskManager, AWorkerMayHaveManyTasksAtATime) {
  TestedTasks tasks;
  tasks.Do(TaskBegin(TaskSet()));
  // The same master has the first answer in its hands still.
  EXPECT_EQ(tasks.NumberOf(tasks.Get("worker-0", false)), 0);
  EXPECT_EQ(tasks.NumberOf(tasks.Get("worker-0", false)), 1);
}

TEST(TaskManager, AnAnswerThatCouldNotBeGivenFreesTheTask) {
  TestedTasks tasks;
  tasks.Do(TaskBegin(TaskSet()));
  const uint32_t lease = tasks.Get("worker-0", false);
  TaskCommand undelivered;
  undelivered.mutable_undelivered()->add_lease(lease);
  tasks.Do(undelivered);
  const uint32_t again = tasks.Get("worker-1");
  EXPECT_EQ(tasks.NumberOf(again), 0);
  tasks.Do(undelivered);
  EXPECT_EQ(tasks.manager.FreeIn("rows"), 3u) << "it is taken from another";
}

TEST(TaskManager, RepeatedCommandsAndThoseOfEarlierMastersChangeNothing) {
  TestedTasks tasks;
  tasks.Do(TaskBegin(TaskSet()));
  TaskCommand get = TaskGet("worker-0");
  get.set_front(1);
  get.set_number(2);
  EXPECT_EQ(tasks.manager.Apply(get, 0), absl::OkStatus());
  EXPECT_EQ(tasks.manager.Apply(get, 0), absl::OkStatus());
  get.set_front(0);
  get.set_number(100);
  EXPECT_EQ(tasks.manager.Apply(get, 0), absl::OkStatus());
  EXPECT_EQ(tasks.manager.tasks().size(), 1u);
}

TEST(TaskManager, AResetBeginsAgainAndForgetsWhoHasWhat) {
  TestedTasks tasks;
  tasks.Do(TaskBegin(TaskSet()));
  const uint32_t before = tasks.Get("worker-0");
  tasks.Get("worker-1");
  TaskCommand reset;
  reset.set_reset("rows");
  tasks.Do(reset);
  EXPECT_THAT(tasks.manager.tasks(), IsEmpty());
  const uint32_t first = tasks.Get("worker-1");
  EXPECT_EQ(tasks.NumberOf(first), 0);
  tasks.Done(before);
  EXPECT_EQ(tasks.NumberOf(first), 0);
}

TEST(TaskManager, APositionIsWhereItGoesOn) {
  TestedTasks tasks;
  tasks.Do(TaskBegin(TaskSet("rows", 2)));
  for (int i = 0; i < 6; ++i) tasks.Get("worker-" + std::to_string(i));
  tasks.Done(1);
  tasks.Done(4);
  const TaskSetPosition position = tasks.manager.PositionOf("rows");
  TestedTasks other;
  TaskCommand command;
  *command.mutable_position() = position;
  other.Do(command);
  std::vector<int64_t> numbers;
  for (uint32_t lease = other.Get("worker-0"); lease != 0; lease = other.Get("worker-0")) {
    numbers.push_back(other.NumberOf(lease));
    other.Done(lease);
  }
  EXPECT_THAT(numbers, ElementsAre(1, 2, 4, 5, 6, 7));
}

TEST(TaskManager, WhatItCannotUseIsAnErrorThatNamesTheSet) {
  TestedTasks tasks;
  EXPECT_THAT(std::string(tasks.Apply(TaskGet("worker-0")).message()),
              HasSubstr("no data set rows"));
  EXPECT_FALSE(tasks.Apply(TaskResult(1)).ok());
  for (size_t i = 0; i < kMostTaskSets; ++i) tasks.Do(TaskBegin(TaskSet("s" + std::to_string(i))));
  EXPECT_THAT(std::string(tasks.Apply(TaskBegin(TaskSet())).message()), HasSubstr("100 data sets"));
  tasks.Get("worker-0", true, "s0");
  EXPECT_THAT(std::string(tasks.Apply(TaskResult(1, false, "s1")).message()),
              HasSubstr("of the data set s0 as one of s1"));
}

TEST(TaskManager, DealsOutNoMoreThanItMayKeep) {
  TestedTasks tasks;
  TaskSetSpec spec = TaskSet();
  spec.set_records(3 * (static_cast<int64_t>(kMostOpenTasks) + 5));
  tasks.Do(TaskBegin(spec));
  for (size_t i = 0; i < kMostOpenTasks; ++i) ASSERT_NE(tasks.Get("worker-0"), 0u);
  EXPECT_EQ(tasks.Get("worker-0"), 0u);
  tasks.Done(1);
  EXPECT_NE(tasks.Get("worker-0"), 0u);
}

// What was saved is restored in master_processor_test.cc; here is
// what no manager has saved.
TEST(TaskManager, RefusesAStateThatItHasNeverSaved) {
  const auto why_not = [](const auto& change) {
    TestedTasks tasks;
    tasks.Do(TaskBegin(TaskSet()));
    tasks.Get("worker-0");
    tasks.Get("worker-1", false);
    MasterState state;
    tasks.manager.Save(state);
    TaskManager::Sets sets = tasks.manager.sets();
    TaskManager::Tasks open = tasks.manager.tasks();
    TaskManager same;
    EXPECT_EQ(same.Load(state, sets, open), absl::OkStatus());
    change(state, sets, open);
    TaskManager other;
    const Status loaded = other.Load(state, std::move(sets), std::move(open));
    EXPECT_TRUE(absl::IsInvalidArgument(loaded)) << loaded;
    return std::string(loaded.message());
  };
  using S = MasterState;
  using D = TaskManager::Sets;
  using T = TaskManager::Tasks;
  const auto first = [](T& t) -> TaskState& { return t.begin()->second; };
  EXPECT_THAT(why_not([](S&, D& d, T&) { d.clear(); }), HasSubstr("the set is missing"));
  EXPECT_THAT(why_not([](S&, D& d, T&) { d["rows"].set_dealt(1); }), HasSubstr("never dealt out"));
  EXPECT_THAT(why_not([](S&, D& d, T&) { d["rows"].set_dealt(5); }), HasSubstr("not one of its"));
  EXPECT_THAT(why_not([](S& s, D&, T&) { s.set_leases(1); }), HasSubstr("out of range"));
  EXPECT_THAT(why_not([&](S&, D&, T& t) { first(t).set_number(1); }), HasSubstr("another's place"));
  EXPECT_THAT(why_not([&](S&, D&, T& t) { first(t).set_lease(2); }), HasSubstr("of another task"));
  EXPECT_THAT(why_not([&](S&, D&, T& t) { first(t).set_lease(0); }), HasSubstr("to nobody"));
  EXPECT_THAT(why_not([&](S&, D&, T& t) { first(t).clear_worker(); }), HasSubstr("to nobody"));
  EXPECT_THAT(why_not([&](S&, D&, T& t) { first(t).set_failures(3); }), HasSubstr("failures of"));
  EXPECT_THAT(why_not([&](S&, D&, T& t) { first(t).set_since_tick(1); }), HasSubstr("the tick"));
  EXPECT_THAT(why_not([](S&, D&, T& t) { t.rbegin()->second.set_command(100); }),
              HasSubstr("nobody who asked"));
}

}  // namespace
}  // namespace millrace
