// CsvProducer's way into Kafka, on librdkafka's mock cluster.
#include "producer/kafka_row_sender.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kafka/mock_cluster.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(KafkaRowSender, AClientThatHasFailedForGoodSaysWhyAndThatAnotherOneMayGoOn) {
  MockCluster cluster;
  cluster.CreateTopic("rows", 1);
  const auto sender = KafkaRowSender::Create(cluster.options(), "rows", {});
  ASSERT_TRUE(sender.ok()) << sender.status();
  ASSERT_TRUE((*sender)->Prepare().ok());
  // A broker that came back without what it had: nothing may follow the batch that it refuses.
  cluster.Fail(Request::kProduce, {RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER});
  Status status = absl::OkStatus();
  for (RowNumber row = 0; row < 2000 && status.ok(); ++row) {
    std::string value = "the row's own bytes";
    status = (*sender)->Send(0, {row, 1}, value);
    if (status.ok()) status = (*sender)->Wait(std::chrono::milliseconds(20));
  }
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("the row's own bytes")));

  const auto other = KafkaRowSender::Create(cluster.options(), "rows", {});
  ASSERT_TRUE((*other)->Prepare().ok());
  std::string value = "again";
  EXPECT_TRUE((*other)->Send(0, {0, 3}, value).ok());
  EXPECT_EQ((*other)->rows_outstanding(), 3u);
  while ((*other)->outstanding() > 0) {
    ASSERT_TRUE((*other)->Wait(std::chrono::milliseconds(20)).ok());
  }
  EXPECT_EQ((*other)->rows_outstanding(), 0u);
}

}  // namespace
}  // namespace millrace
