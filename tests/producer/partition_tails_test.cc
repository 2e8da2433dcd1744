// How far a topic of rows has come, on librdkafka's mock cluster.
#include "producer/partition_tails.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "producer/kafka_row_sender.h"
#include "tests/kafka/mock_cluster.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

class PartitionTailsTest : public testing::Test {
 protected:
  PartitionTailsTest() { cluster_.CreateTopic("rows", 1); }

  StatusOr<std::vector<PartitionTail>> Read() {
    const TailReading reading = {
        .topic = "rows", .partitions = 1, .shape = kShape, .untouched = true};
    return ReadTails(cluster_.options(), reading, stop_);
  }

  static constexpr RowShape kShape = {.numeric = 1, .features = 1, .classes = 2};
  MockCluster cluster_;
  std::atomic<bool> stop_ = false;
};

TEST_F(PartitionTailsTest, AnEmptyPartitionHasNoRows) {
  const auto tails = Read();
  ASSERT_TRUE(tails.ok()) << tails.status();
  EXPECT_EQ((*tails)[0].rows, 0u);
}

TEST_F(PartitionTailsTest, TheLastRowTellsHowManyThereAreWhateverElseIsThere) {
  const auto sender = KafkaRowSender::Create(cluster_.options(), "rows", {}).value();
  ASSERT_TRUE(sender->Prepare().ok());
  for (RowNumber row = 0; row < 3; ++row) {
    std::string value = EncodeRow({1, {0.5}, {}, {}, false});
    ASSERT_TRUE(sender->Send(0, {row, 1}, value).ok());
    while (sender->outstanding() > 0) {
      ASSERT_TRUE(sender->Wait(std::chrono::milliseconds(20)).ok());
    }
  }
  ProduceNumbers(cluster_.options(), "rows", 0, 0, 5);
  const auto tails = Read();
  ASSERT_TRUE(tails.ok()) << tails.status();
  EXPECT_EQ((*tails)[0].rows, 3u);
}

TEST_F(PartitionTailsTest, RecordsThatAreNoRowsAreNotCalledDeleted) {
  ProduceNumbers(cluster_.options(), "rows", 0, 0, 3);
  const Status status = Read().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("rows [0] holds records, but none is a row of this job"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("is not that of rows"));
}

}  // namespace
}  // namespace millrace
