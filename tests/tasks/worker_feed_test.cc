#include "tasks/worker_feed.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "base/big_endian.h"
#include "models/softmax_regression.h"
#include "topics/row_codec.h"

namespace millrace {
namespace {

constexpr RowShape kFedRows = {.numeric = 1, .features = 2, .classes = 2};

// A worker in one pass, whose batches have one row.
class WorkerFeedTest : public testing::Test {
 protected:
  WorkerFeedTest() {
    WorkerOptions options;
    options.training.set_batch_rows(1);
    options.numeric_columns = 1;
    task_.emplace(options, kFedRows, model_, 1);
    feed_.emplace(*task_);
    EXPECT_TRUE(feed_->Assigned(std::nullopt, {0, 0}, nullptr).ok());
  }

  bool Advances() {
    std::vector<OutgoingRecord> out;
    const StatusOr<bool> advanced = feed_->Advance(out);
    EXPECT_TRUE(advanced.ok()) << advanced.status();
    return advanced.value_or(false);
  }
  void TakeRows(int count) {
    for (; count > 0; --count, ++next_) {
      const Status taken =
          feed_->TakeRows({next_, 0, EncodeInputKey({RowNumber(static_cast<uint64_t>(next_)), 1}),
                           EncodeRow({0, {1.0}, {}, {}})});
      ASSERT_TRUE(taken.ok()) << taken;
    }
  }

  const SoftmaxRegression model_{2, 2};
  std::optional<WorkerTask> task_;
  std::optional<WorkerFeed> feed_;
  Offset next_ = 0;
};

TEST_F(WorkerFeedTest, ComputesOnlyWhenSomethingHasCome) {
  EXPECT_FALSE(Advances());
  TakeRows(1);
  EXPECT_TRUE(Advances());
  EXPECT_FALSE(Advances());
}

TEST_F(WorkerFeedTest, TellsOnceThatRowsAreHeldBackAndTakesThoseThatComeNevertheless) {
  EXPECT_EQ(feed_->TakeHold(), std::nullopt);
  while (task_->WantsRows()) TakeRows(1);
  EXPECT_EQ(feed_->TakeHold(), std::optional<bool>(true));
  EXPECT_EQ(feed_->TakeHold(), std::nullopt);
  TakeRows(1);
  EXPECT_EQ(task_->next_offset(), next_);
}

TEST_F(WorkerFeedTest, RowsInFrontOfAPartitionsEndWereDeletedAndOthersNeverThere) {
  TakeRows(7);
  EXPECT_TRUE(feed_->RowsAreGone({7, 7}).ok());
  EXPECT_TRUE(absl::IsDataLoss(feed_->RowsAreGone({0, 6})));
}

// The end is no row, and is read again by whoever starts later; but it has been read.
TEST_F(WorkerFeedTest, TheEndOfTheStreamTellsTheTopicFromAShorterOne) {
  TakeRows(2);
  ASSERT_TRUE(feed_->TakeRows({2, 0, EncodeInputKey({2, 0}), EncodeEnd(2)}).ok());
  EXPECT_TRUE(absl::IsDataLoss(feed_->RowsAreGone({0, 2})));
}

TEST_F(WorkerFeedTest, ACommitAfterTheEndIsOfATopicThatWasRecreated) {
  WorkerOptions options;
  options.numeric_columns = 1;
  WorkerTask task(options, kFedRows, model_, 2);
  WorkerFeed feed(task);
  const WorkerFeed::Committed commit{5, "row=5 clock=5"};
  EXPECT_TRUE(absl::IsDataLoss(feed.Assigned(commit, {0, 4}, nullptr).status()));
}

TEST_F(WorkerFeedTest, CommitsAPositionOnce) {
  TakeRows(1);
  EXPECT_TRUE(feed_->TakePositions().commit.has_value());
  EXPECT_FALSE(feed_->TakePositions().commit.has_value());
}

}  // namespace
}  // namespace millrace
