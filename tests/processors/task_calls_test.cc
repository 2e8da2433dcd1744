// From the calls of trainers to commands and back.
#include "processors/task_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/processors/task_fixture.h"
#include "topics/task_codec.h"

namespace millrace {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

using Answers = std::vector<std::pair<TaskCalls::Id, StatusOr<TaskAnswer>>>;

// A master without Kafka: what is written is folded.
class TaskCallsTest : public testing::Test {
 protected:
  void Write() {
    for (const TaskCommand& command : calls_.TakeCommands(manager_)) Fold(command);
  }
  void Fold(const TaskCommand& command) { EXPECT_EQ(manager_.Apply(command, 0), absl::OkStatus()); }
  Answers WriteAndAnswer() {
    Write();
    return calls_.TakeAnswers(manager_);
  }
  void Add(const TaskCommand& command) { calls_.Add(++id_, {command, ""}); }
  // What the worker gets at once; told, unless it says otherwise.
  TaskAnswer GetNow(const std::string& worker) {
    Add(TaskGet(worker));
    const Answers answers = WriteAndAnswer();
    EXPECT_THAT(answers, SizeIs(1));
    if (answers.size() != 1) return {};
    const TaskAnswer answer = answers[0].second.value();
    if (answer.kind == TaskAnswer::Kind::kTask) calls_.NoteTold(answer.lease, true);
    return answer;
  }
  void Begin(const TaskSetSpec& spec = TaskSet()) {
    Add(TaskBegin(spec));
    EXPECT_THAT(WriteAndAnswer(), SizeIs(1));
  }

  TaskManager manager_;
  TaskCalls calls_{10};
  TaskCalls::Id id_ = 0;
};

TEST_F(TaskCallsTest, AWorkerGetsATaskWithItsRecords) {
  Begin();
  const TaskAnswer first = GetNow("worker-0");
  EXPECT_EQ(first.kind, TaskAnswer::Kind::kTask);
  EXPECT_EQ(first.lease, 1u);
  EXPECT_EQ(first.range.begin, 0);
  EXPECT_EQ(first.range.end, 3);
  GetNow("worker-0");
  GetNow("worker-0");
  EXPECT_EQ(GetNow("worker-0").range.end, 10) << "the last one has fewer";
}

TEST_F(TaskCallsTest, NothingIsAnsweredBeforeItIsFolded) {
  Add(TaskBegin(TaskSet()));
  const std::vector<TaskCommand> commands = calls_.TakeCommands(manager_);
  EXPECT_THAT(calls_.TakeAnswers(manager_), IsEmpty());
  Fold(commands.at(0));
  EXPECT_THAT(calls_.TakeAnswers(manager_), SizeIs(1));
  EXPECT_THAT(calls_.TakeAnswers(manager_), IsEmpty()) << "each once";
}

TEST_F(TaskCallsTest, WhoAsksWaitsUntilATaskIsFree) {
  Begin();
  for (int i = 0; i < 4; ++i) GetNow("worker-0");
  Write();
  Add(TaskGet("worker-1"));
  Add(TaskGet("worker-2"));
  EXPECT_THAT(calls_.TakeCommands(manager_), IsEmpty()) << "a command that gets nothing";
  EXPECT_THAT(calls_.TakeAnswers(manager_), IsEmpty());
  Add(TaskResult(2, true));
  EXPECT_THAT(WriteAndAnswer(), SizeIs(1));
  const std::vector<TaskCommand> commands = calls_.TakeCommands(manager_);
  ASSERT_THAT(commands, SizeIs(1)) << "one for the task that is free";
  Fold(commands[0]);
  const Answers answers = calls_.TakeAnswers(manager_);
  ASSERT_THAT(answers, SizeIs(1));
  EXPECT_EQ(answers[0].second->range.begin, 3);
}

TEST_F(TaskCallsTest, WhoAsksIsToldWhenTheSetIsDone) {
  Begin();
  for (int i = 0; i < 4; ++i) GetNow("worker-0");
  Add(TaskGet("worker-1"));
  for (uint32_t lease = 1; lease <= 4; ++lease) Add(TaskResult(lease));
  const Answers answers = WriteAndAnswer();
  ASSERT_THAT(answers, SizeIs(5));
  EXPECT_EQ(answers[0].second->kind, TaskAnswer::Kind::kSetIsDone);
}

TEST_F(TaskCallsTest, WhoAsksWaitsForASetThatIsStillToBegin) {
  Add(TaskGet("worker-0"));
  EXPECT_THAT(WriteAndAnswer(), IsEmpty());
  Begin();
  const Answers answers = WriteAndAnswer();
  ASSERT_THAT(answers, SizeIs(1));
  EXPECT_EQ(answers[0].second->lease, 1u);
}

TEST_F(TaskCallsTest, WhoBeginsASetTooManyIsToldOfTheLimit) {
  for (size_t i = 0; i < kMostTaskSets; ++i) Begin(TaskSet("s" + std::to_string(i)));
  TaskCommand restored;
  *restored.mutable_position() = manager_.PositionOf("s0");
  restored.mutable_position()->mutable_spec()->set_name("rows");
  for (const TaskCommand& command : {TaskBegin(TaskSet()), restored}) {
    Add(command);
    for (const TaskCommand& written : calls_.TakeCommands(manager_)) {
      EXPECT_FALSE(manager_.Apply(written, 0).ok());
    }
    const Answers answers = calls_.TakeAnswers(manager_);
    ASSERT_THAT(answers, SizeIs(1));
    const Status refused = answers[0].second.status();
    EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("has 100 of the 100 data sets"));
    EXPECT_THAT(std::string(refused.message()), HasSubstr("there is no room for rows"));
  }
  Begin(TaskSet("s7"));  // it is there
  Add(TaskGet("worker-0"));
  EXPECT_THAT(WriteAndAnswer(), IsEmpty()) << "the client would take it for the end of the set";
}

TEST_F(TaskCallsTest, WhatWasNotWrittenIsWrittenAgain) {
  Begin();
  Add(TaskGet("worker-0"));
  EXPECT_THAT(calls_.TakeCommands(manager_), SizeIs(1));
  // The transaction was aborted.
  const Answers answers = WriteAndAnswer();
  ASSERT_THAT(answers, SizeIs(1));
  calls_.NoteTold(answers[0].second->lease, true);
  EXPECT_THAT(calls_.TakeCommands(manager_), SizeIs(1));  // aborted, too
  Write();
  EXPECT_FALSE(manager_.HasUntold("rows", "worker-0", 99));
  EXPECT_THAT(calls_.TakeCommands(manager_), IsEmpty());
}

TEST_F(TaskCallsTest, WhoHasGoneKeepsNoTask) {
  Begin();
  Add(TaskGet("worker-0"));
  Write();
  EXPECT_EQ(manager_.FreeIn("rows"), 3u);
  calls_.Remove(id_);
  EXPECT_THAT(calls_.TakeAnswers(manager_), IsEmpty());
  Write();
  EXPECT_EQ(manager_.FreeIn("rows"), 4u);
}

TEST_F(TaskCallsTest, AnAnswerThatCouldNotBeGivenFreesItsTask) {
  Begin();
  Add(TaskGet("worker-0"));
  const Answers answers = WriteAndAnswer();
  calls_.NoteTold(answers.at(0).second->lease, false);
  Write();
  EXPECT_EQ(manager_.FreeIn("rows"), 4u);
}

TEST_F(TaskCallsTest, TheNextMasterGivesTheTaskThatWasPerhapsNotTold) {
  Begin();
  Add(TaskGet("worker-0"));
  EXPECT_THAT(WriteAndAnswer(), SizeIs(1));  // the answer is lost with the master
  for (int i = 0; i < 3; ++i) GetNow("worker-1");
  Write();
  TaskCalls next(20);
  ASSERT_EQ(manager_.FreeIn("rows"), 0u);
  next.Add(1, {TaskGet("worker-1"), ""});
  next.Add(2, {TaskGet("worker-0"), ""});
  for (const TaskCommand& command : next.TakeCommands(manager_)) Fold(command);
  const Answers answers = next.TakeAnswers(manager_);
  ASSERT_THAT(answers, SizeIs(1));
  EXPECT_EQ(answers[0].first, 2u);
  EXPECT_EQ(answers[0].second->range.begin, 0);
}

TEST_F(TaskCallsTest, CallsSurviveAnotherMasterInBetween) {
  Begin();
  Add(TaskGet("worker-0"));
  Add(TaskGet("worker-1"));
  Write();
  calls_.Remove(id_);
  // Another one takes over, does something, and is overtaken in turn.
  TaskCalls other(20);
  other.Add(1, {TaskGet("worker-2"), ""});
  for (const TaskCommand& command : other.TakeCommands(manager_)) Fold(command);
  Add(TaskBegin(TaskSet("others")));
  calls_.Restart(30, manager_);
  EXPECT_THAT(calls_.TakeAnswers(manager_), IsEmpty()) << "what is void counts as folded";
  const Answers answers = WriteAndAnswer();
  ASSERT_THAT(answers, SizeIs(2));
  EXPECT_EQ(answers[0].second->range.begin, 0) << "what it had got already";
  EXPECT_TRUE(manager_.sets().contains("others"));
  Write();
  EXPECT_EQ(manager_.FreeIn("rows"), 2u) << "of the one who has gone, and one more";
}

TEST_F(TaskCallsTest, APositionIsReadWithoutACommand) {
  Begin();
  GetNow("worker-0");
  Write();
  calls_.Add(++id_, {TaskCommand(), "rows"});
  calls_.Add(++id_, {TaskCommand(), "another"});
  EXPECT_THAT(calls_.TakeCommands(manager_), IsEmpty());
  const Answers answers = calls_.TakeAnswers(manager_);
  ASSERT_THAT(answers, SizeIs(2));
  EXPECT_EQ(answers[0].second->position.dealt(), 1);
  EXPECT_FALSE(answers[1].second->position.has_spec());
}

// ---- sets that follow another ----

TaskSetSpec Followed() {
  TaskSetSpec spec = TaskSet();
  spec.mutable_evaluation()->set_records(4);
  spec.mutable_evaluation()->set_records_per_task(4);
  spec.mutable_evaluation()->set_every(2);
  spec.set_end_task(true);
  return spec;
}

TaskCall ForFollower(const std::string& set, bool waits) {
  TaskCall call;
  call.command = TaskGet("worker-0", set);
  call.follows = "rows";
  call.waits = waits;
  return call;
}

TEST_F(TaskCallsTest, WhoDoesNotWaitForAnEvaluationIsToldThatThereIsNoneNow) {
  const auto ask = [this] {
    calls_.Add(++id_, ForFollower("rows/evaluation", false));
    const Answers answers = WriteAndAnswer();
    EXPECT_THAT(answers, SizeIs(1));
    const TaskAnswer answer = answers.at(0).second.value();
    if (answer.kind == TaskAnswer::Kind::kTask) calls_.NoteTold(answer.lease, true);
    return answer;
  };
  EXPECT_EQ(ask().kind, TaskAnswer::Kind::kNoTaskNow) << "nobody has begun it yet";
  const auto finish = [this](uint32_t lease) {
    Add(TaskResult(lease));
    EXPECT_THAT(WriteAndAnswer(), SizeIs(1));
  };
  Begin(Followed());
  EXPECT_EQ(ask().kind, TaskAnswer::Kind::kNoTaskNow);
  for (int i = 0; i < 2; ++i) finish(GetNow("worker-0").lease);
  const TaskAnswer first = ask();
  EXPECT_EQ(first.kind, TaskAnswer::Kind::kTask);
  EXPECT_EQ(first.type, kEvaluationTask);
  EXPECT_EQ(first.set, "rows/evaluation");
  EXPECT_EQ(first.epoch, 1);
  EXPECT_EQ(first.range.end, 4);
  EXPECT_EQ(ask().kind, TaskAnswer::Kind::kNoTaskNow);
  finish(first.lease);
  for (int i = 0; i < 2; ++i) finish(GetNow("worker-0").lease);
  const TaskAnswer second = ask();
  EXPECT_EQ(second.epoch, 2);
  finish(second.lease);
  EXPECT_EQ(ask().kind, TaskAnswer::Kind::kSetIsDone);
}

TEST_F(TaskCallsTest, WhoAsksForWhatDoesNotFollowIsToldThatThereWillBeNone) {
  Begin();
  for (const std::string set : {"rows/evaluation", "rows/end"}) {
    calls_.Add(++id_, ForFollower(set, true));
    const Answers answers = WriteAndAnswer();
    ASSERT_THAT(answers, SizeIs(1));
    EXPECT_EQ(answers[0].second.value().kind, TaskAnswer::Kind::kSetIsDone);
  }
}

TEST_F(TaskCallsTest, WhoAsksForAnyTaskWaitsUntilTheEndTaskIsDone) {
  TaskSetSpec spec = Followed();
  spec.clear_evaluation();
  Begin(spec);
  std::vector<uint32_t> leases;
  for (int i = 0; i < 4; ++i) leases.push_back(GetNow("worker-0").lease);
  TaskCommand get = TaskGet("worker-1");
  get.mutable_get()->set_any(true);
  Add(get);
  EXPECT_THAT(WriteAndAnswer(), IsEmpty());
  for (const uint32_t lease : leases) Add(TaskResult(lease));
  EXPECT_THAT(WriteAndAnswer(), SizeIs(4));
  const Answers answers = WriteAndAnswer();
  ASSERT_THAT(answers, SizeIs(1));
  const TaskAnswer end = answers[0].second.value();
  EXPECT_EQ(end.type, kEndTask);
  EXPECT_EQ(end.set, "rows") << "whose first rows it names";
  EXPECT_EQ(end.range.end, 3);
  calls_.NoteTold(end.lease, true);
  Add(get);
  EXPECT_THAT(WriteAndAnswer(), IsEmpty()) << "somebody may have to take it over";
  Add(TaskResult(end.lease));
  EXPECT_THAT(WriteAndAnswer(), SizeIs(2));
  Add(TaskGet("worker-2"));
  EXPECT_EQ(WriteAndAnswer().at(0).second.value().kind, TaskAnswer::Kind::kSetIsDone);
}

}  // namespace
}  // namespace millrace
