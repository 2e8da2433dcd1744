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
    EXPECT_TRUE(task_->StartReading(std::nullopt, 0, nullptr).ok());
    feed_.emplace(*task_);
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
          feed_->TakeRow({next_, 0, EncodeBigEndian64(static_cast<uint64_t>(next_)),
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
  EXPECT_TRUE(CheckRowsWereDeleted(7, 7).ok());
  EXPECT_TRUE(absl::IsDataLoss(CheckRowsWereDeleted(8, 7)));
}

}  // namespace
}  // namespace millrace
