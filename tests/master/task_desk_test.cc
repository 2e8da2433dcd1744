// From threads that have calls to the loop, and back.
#include "master/task_desk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace millrace {
namespace {

using testing::HasSubstr;

// What became of a caller; outlives it.
struct Heard {
  std::atomic<bool> has_gone = false;
  std::atomic<int> answers = 0;
  StatusOr<TaskAnswer> last = absl::UnknownError("not answered");
};

class HearingCaller final : public TaskCaller {
 public:
  explicit HearingCaller(Heard& heard) : heard_(heard) {}
  bool HasGone() override { return heard_.has_gone; }
  void Answer(const StatusOr<TaskAnswer>& answer) override {
    heard_.last = answer;
    ++heard_.answers;
  }

 private:
  Heard& heard_;
};

TaskCall BeginCall() {
  TaskCall call;
  TaskSetSpec& spec = *call.command.mutable_begin();
  spec.set_name("rows");
  spec.set_records(10);
  spec.set_records_per_task(5);
  spec.set_epochs(1);
  spec.set_most_failures(3);
  return call;
}

TaskCall GetCall() {
  TaskCall call;
  call.command.mutable_get()->set_set("rows");
  call.command.mutable_get()->set_worker("worker-0");
  return call;
}

class TaskDeskTest : public testing::Test {
 protected:
  TaskDeskTest() { desk_.Open(Offset(7), manager_); }

  void Ask(const TaskCall& call, Heard& heard) {
    desk_.Ask(call, std::make_unique<HearingCaller>(heard));
  }
  // One turn of a loop without Kafka.
  void Turn() {
    for (const TaskCommand& command : desk_.TakeCommands(manager_)) {
      EXPECT_EQ(manager_.Apply(command, 0), absl::OkStatus());
    }
    desk_.Answer(manager_);
  }
  uint64_t free() const { return manager_.FreeIn("rows"); }

  Wakeup wakeup_;
  TaskManager manager_;
  TaskDesk desk_{wakeup_};
};

TEST_F(TaskDeskTest, AnswersThreadsThatAsk) {
  Heard begun;
  Heard got;
  std::thread thread([&] {
    Ask(BeginCall(), begun);
    Ask(GetCall(), got);
  });
  while (got.answers == 0) {
    wakeup_.WaitFor(std::chrono::seconds(60));
    Turn();
  }
  thread.join();
  EXPECT_EQ(begun.answers, 1);
  EXPECT_EQ(got.answers, 1);
  ASSERT_EQ(got.last.status(), absl::OkStatus());
  EXPECT_EQ(got.last->lease, 1u);
  EXPECT_EQ(got.last->range.end, 5);
}

TEST_F(TaskDeskTest, RefusesAtOnceWhatCannotBeUsed) {
  TaskCall call = BeginCall();
  call.command.mutable_begin()->set_records(0);
  Heard heard;
  Ask(call, heard);
  EXPECT_TRUE(absl::IsInvalidArgument(heard.last.status()));
  EXPECT_THAT(std::string(heard.last.status().message()), HasSubstr("records of the data set"));
}

TEST_F(TaskDeskTest, GivesNoTaskToACallerThatHasGone) {
  Heard begun;
  Ask(BeginCall(), begun);
  Turn();
  Heard before;  // it is written to `control`
  before.has_gone = true;
  Ask(GetCall(), before);
  Turn();
  EXPECT_EQ(free(), 2u);
  Heard after;  // it goes while its command is under way
  Ask(GetCall(), after);
  for (const TaskCommand& command : desk_.TakeCommands(manager_)) {
    EXPECT_EQ(manager_.Apply(command, 0), absl::OkStatus());
  }
  EXPECT_EQ(free(), 1u);
  after.has_gone = true;
  Turn();
  Turn();
  EXPECT_EQ(free(), 2u);
  Heard late;  // it goes just before it is answered
  Ask(GetCall(), late);
  for (const TaskCommand& command : desk_.TakeCommands(manager_)) {
    EXPECT_EQ(manager_.Apply(command, 0), absl::OkStatus());
  }
  late.has_gone = true;
  desk_.Answer(manager_);
  Turn();
  EXPECT_EQ(free(), 2u);
  for (const Heard* heard : {&before, &after, &late}) {
    EXPECT_EQ(heard->answers, 1) << "its call has to end";
  }
}

TEST_F(TaskDeskTest, ThatIsClosedAnswersAllThatWaitAndAllThatCome) {
  Heard waits;
  Heard waits_in_the_loop;
  Heard comes;
  Ask(GetCall(), waits_in_the_loop);
  Turn();
  Ask(GetCall(), waits);
  desk_.Close();
  Ask(GetCall(), comes);
  for (const Heard* heard : {&waits, &waits_in_the_loop, &comes}) {
    EXPECT_TRUE(absl::IsUnavailable(heard->last.status()));
    EXPECT_EQ(heard->answers, 1);
  }
}

TEST_F(TaskDeskTest, KeepsAsManyWaitingAsItMayAndNoMore) {
  std::vector<Heard> heard(TaskDesk::kMostCalls);
  for (Heard& each : heard) Ask(GetCall(), each);
  Turn();
  Heard one_more;
  Ask(GetCall(), one_more);
  EXPECT_TRUE(absl::IsResourceExhausted(one_more.last.status()));
  heard[0].has_gone = true;
  Turn();
  Heard another;
  Ask(GetCall(), another);
  EXPECT_EQ(another.answers, 0);
  desk_.Close();
}

}  // namespace
}  // namespace millrace
