#include "tasks/checkpoint_cycle.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "base/error_marks.h"
#include "stores/memory_byte_map.h"
#include "tests/tasks/fold_and_answer.h"

namespace millrace {
namespace {

using std::chrono::seconds;
using End = CheckpointCycle::End;

class CheckpointCycleTest : public testing::Test {
 protected:
  static ServerOptions Options() {
    ServerOptions options;
    options.range = {0, 3};
    return options;
  }

  // A record that changes the state.
  void Process() {
    std::vector<OutgoingRecord> out;
    ASSERT_TRUE(FoldAndAnswer(task_, {task_.position(), "key", "no gradient", 0}, out).ok());
  }
  Checkpoint Begin() {
    auto checkpoint = cycle_.BeginIfDue(task_, now_);
    EXPECT_TRUE(checkpoint.ok() && *checkpoint);
    return **std::move(checkpoint);
  }
  bool IsDue() {
    auto checkpoint = cycle_.BeginIfDue(task_, now_);
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    return checkpoint->has_value();
  }

  MemoryByteMap store_;
  ShardTask task_{Options(), store_};
  CheckpointCycle::Time now_{std::chrono::hours(1)};
  CheckpointCycle cycle_{{std::chrono::duration<double>(0), 1000, 0, now_}};
};

TEST_F(CheckpointCycleTest, AnAbortedCheckpointIsTriedAgainAfterAWhileWithAllOfIt) {
  Process();
  const Checkpoint first = Begin();
  ASSERT_EQ(cycle_.Finish(task_, first, absl::AbortedError("timed out"), now_).value(),
            End::kAborted);
  EXPECT_FALSE(IsDue());
  now_ += seconds(1);
  const Checkpoint second = Begin();
  EXPECT_EQ(second.position, first.position);
  EXPECT_EQ(second.dead_letters, first.dead_letters);
  ASSERT_EQ(cycle_.Finish(task_, second, absl::OkStatus(), now_).value(), End::kDurable);
  EXPECT_TRUE(task_.saved());
}

TEST_F(CheckpointCycleTest, WhatNoRepetitionMendsIsAnErrorThoughItWasOnlyAborted) {
  Process();
  const Status permanent = MarkPermanent(absl::AbortedError("not allowed"));
  const Status error = cycle_.Finish(task_, Begin(), permanent, now_).status();
  EXPECT_TRUE(IsPermanent(error));
  EXPECT_NE(error.message().find("shard 0"), absl::string_view::npos);
  EXPECT_NE(error.message().find("not allowed"), absl::string_view::npos);
}

TEST_F(CheckpointCycleTest, WhoIsFencedIsToldOfTheOtherProcess) {
  Process();
  const Status fenced = MarkFenced(absl::FailedPreconditionError("producer fenced"));
  const Status error = cycle_.Finish(task_, Begin(), fenced, now_).status();
  EXPECT_TRUE(IsFenced(error));
  EXPECT_NE(error.message().find("another process"), absl::string_view::npos);
}

TEST_F(CheckpointCycleTest, AnErrorOfTheStoreIsFinal) {
  Process();
  const Status full = absl::ResourceExhaustedError("no space left on the device");
  EXPECT_EQ(cycle_.Finish(task_, Begin(), full, now_).status(), full);
  EXPECT_FALSE(task_.saved());
}

TEST_F(CheckpointCycleTest, AfterACancelledCheckpointNoneBegins) {
  Process();
  ASSERT_EQ(cycle_.Finish(task_, Begin(), absl::CancelledError("stopped"), now_).value(),
            End::kCancelled);
  now_ += std::chrono::hours(1);
  EXPECT_TRUE(cycle_.is_stopped());
  EXPECT_FALSE(IsDue());
  EXPECT_TRUE(cycle_.GivesUpSaving(End::kCancelled));
}

TEST_F(CheckpointCycleTest, NoCheckpointBeginsWhileAnotherIsUnderWay) {
  Process();
  const Checkpoint first = Begin();
  Process();
  EXPECT_DEATH((void)cycle_.BeginIfDue(task_, now_), "broken invariant");
  EXPECT_DEATH((void)cycle_.Begin(task_, now_), "broken invariant");
  ASSERT_TRUE(cycle_.Finish(task_, first, absl::OkStatus(), now_).ok());
  EXPECT_DEATH((void)cycle_.Finish(task_, first, absl::OkStatus(), now_), "broken invariant");
  EXPECT_TRUE(cycle_.Begin(task_, now_).value().has_value());
}

TEST_F(CheckpointCycleTest, SavingIsGivenUpAfterSomeFailuresInARow) {
  EXPECT_FALSE(cycle_.GivesUpSaving(End::kAborted));
  EXPECT_FALSE(cycle_.GivesUpSaving(End::kDurable));
  EXPECT_FALSE(cycle_.GivesUpSaving(End::kAborted));
  EXPECT_FALSE(cycle_.GivesUpSaving(End::kAborted));
  EXPECT_TRUE(cycle_.GivesUpSaving(End::kAborted));
  EXPECT_FALSE(cycle_.GivesUpSaving(End::kAborted));
}

}  // namespace
}  // namespace millrace
