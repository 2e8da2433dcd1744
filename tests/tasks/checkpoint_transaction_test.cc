#include "tasks/checkpoint_transaction.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error_marks.h"

namespace millrace {
namespace {

using Calls = std::vector<std::string>;

// Answers each call with the next status that was planned for it; unplanned, with OK.
class PlannedPort final : public TransactionPort {
 public:
  Status Begin() override { return Answer("begin"); }
  Status Append(std::string_view key, std::string_view) override {
    return Answer("append " + std::string(key));
  }
  Status AppendDeadLetter(std::string_view) override { return Answer("dead letter"); }
  StatusOr<Offset> AwaitDelivery() override {
    Status delivered = Answer("deliver");
    if (!delivered.ok()) return delivered;
    return end;
  }
  Status Commit() override { return Answer("commit"); }
  Status Abort() override { return Answer("abort"); }

  void Plan(const std::string& call, Status status) { plan_.push_back({call, std::move(status)}); }

  Calls calls;
  Offset end = 10;

 private:
  Status Answer(const std::string& call) {
    calls.push_back(call);
    if (plan_.empty() || plan_.front().first != call) return absl::OkStatus();
    Status status = plan_.front().second;
    plan_.pop_front();
    return status;
  }

  std::deque<std::pair<std::string, Status>> plan_;
};

class CheckpointTransactionTest : public testing::Test {
 protected:
  CheckpointTransactionTest() {
    checkpoint_.entries = {{"p", "block"}};
    checkpoint_.dead_letters = {"letter"};
  }
  StatusOr<Offset> Commit(Offset previous_end = 0) {
    return transaction_.Commit(checkpoint_, previous_end);
  }

  Checkpoint checkpoint_;
  PlannedPort port_;
  CheckpointTransaction transaction_{port_};
};

TEST_F(CheckpointTransactionTest, CommitsOnceEverythingIsDelivered) {
  EXPECT_EQ(Commit().value_or(Offset(-1)), 10);
  EXPECT_EQ(port_.calls, (Calls{"begin", "append p", "dead letter", "deliver", "commit"}));
  EXPECT_FALSE(transaction_.is_open());
}

TEST_F(CheckpointTransactionTest, ACommitWithoutAnAnswerIsMadeAgainAndNothingElse) {
  port_.Plan("commit", absl::DeadlineExceededError("no answer"));
  EXPECT_TRUE(absl::IsDeadlineExceeded(Commit().status()));
  EXPECT_TRUE(transaction_.is_open());
  port_.calls.clear();
  EXPECT_EQ(Commit().value_or(Offset(-1)), 10);
  EXPECT_EQ(port_.calls, Calls{"commit"});
  EXPECT_FALSE(transaction_.is_open());
}

TEST_F(CheckpointTransactionTest, AnOpenTransactionGoesOnWithItsOwnCheckpointOnly) {
  port_.Plan("commit", absl::DeadlineExceededError("no answer"));
  ASSERT_TRUE(absl::IsDeadlineExceeded(Commit().status()));
  ++checkpoint_.position;
  EXPECT_DEATH((void)Commit(), "broken invariant");
  --checkpoint_.position;
  ASSERT_TRUE(Commit().ok());
  ++checkpoint_.position;
  EXPECT_TRUE(Commit().ok());
}

TEST_F(CheckpointTransactionTest, ADeliveryWithoutAnAnswerIsAwaitedFurther) {
  port_.Plan("deliver", absl::UnavailableError("no broker"));
  EXPECT_TRUE(absl::IsUnavailable(Commit().status()));
  port_.calls.clear();
  EXPECT_TRUE(Commit().ok());
  EXPECT_EQ(port_.calls, (Calls{"deliver", "commit"}));
}

TEST_F(CheckpointTransactionTest, AnAbortWithoutAnAnswerIsMadeAgainAndKeepsItsReason) {
  port_.Plan("commit", MarkPermanent(absl::AbortedError("not allowed")));
  port_.Plan("abort", absl::UnavailableError("no broker"));
  EXPECT_TRUE(absl::IsUnavailable(Commit().status()));
  port_.calls.clear();
  const Status reason = Commit().status();
  EXPECT_EQ(reason.message(), "not allowed");
  EXPECT_TRUE(IsPermanent(reason));
  EXPECT_EQ(port_.calls, Calls{"abort"});
  EXPECT_FALSE(transaction_.is_open());
}

TEST_F(CheckpointTransactionTest, ARecordThatIsNotDeliveredAbortsAndTheNextTransactionMayBegin) {
  port_.Plan("append p", absl::AbortedError("timed out"));
  EXPECT_TRUE(absl::IsAborted(Commit().status()));
  EXPECT_EQ(port_.calls, (Calls{"begin", "append p", "abort"}));
  EXPECT_TRUE(Commit().ok());
}

TEST_F(CheckpointTransactionTest, WhoIsFencedTouchesNothingAnyMore) {
  port_.Plan("commit", MarkFenced(absl::FailedPreconditionError("fenced")));
  EXPECT_TRUE(IsFenced(Commit().status()));
  EXPECT_EQ(port_.calls.back(), "commit");
  EXPECT_TRUE(transaction_.is_open());
}

TEST_F(CheckpointTransactionTest, RecordsThatEndInFrontOfTheLastCheckpointAreAborted) {
  EXPECT_TRUE(absl::IsDataLoss(Commit(10).status()));
  EXPECT_EQ(port_.calls.back(), "abort");
}

}  // namespace
}  // namespace millrace
