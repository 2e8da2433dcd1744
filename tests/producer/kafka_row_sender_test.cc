// CsvProducer's way into Kafka, on librdkafka's mock cluster.
#include "producer/kafka_row_sender.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "kafka/read_partition.h"
#include "tests/kafka/mock_cluster.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// As StreamRows does.
Status SendWhenThereIsRoom(KafkaRowSender& sender, const InputKey& key, std::string value) {
  while (true) {
    Status sent = sender.Send(0, key, value);
    if (!absl::IsResourceExhausted(sent)) return sent;
    MILLRACE_RETURN_IF_ERROR(sender.Wait(std::chrono::milliseconds(20)));
  }
}

// (The mock takes a batch that overtakes an earlier one; a broker that knows the client does not.)
TEST(KafkaRowSender, ABrokerThatRefusesTheFirstRecordOfAPartitionGetsNoOtherInItsPlace) {
  MockCluster cluster;
  cluster.CreateTopic("rows", 1);
  KafkaOptions kafka = cluster.options();
  kafka.settings.emplace_back("batch.num.messages", "1");
  const auto sender = KafkaRowSender::Create(kafka, "rows", {.paced = true}).value();
  ASSERT_TRUE(sender->Prepare().ok());
  cluster.Fail(Request::kProduce, {RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION});
  cluster.SetRoundTrip(std::chrono::milliseconds(200));  // several are sent before one is refused
  std::vector<std::string> values;
  for (RowNumber row = 0; row < 3; ++row) {
    values.push_back(std::to_string(row));
    ASSERT_TRUE(SendWhenThereIsRoom(*sender, {row, 1}, values.back()).ok());
  }
  while (sender->outstanding() > 0) {
    ASSERT_TRUE(sender->Wait(std::chrono::milliseconds(20)).ok());
  }
  std::vector<std::string> found;
  const std::atomic<bool> stop = false;
  const Status read =
      ReadPartition(cluster.options(), "test", "rows", 0, stop, [&](const ConsumedRecord& record) {
        found.emplace_back(record.value);
        return absl::OkStatus();
      });
  ASSERT_TRUE(read.ok()) << read;
  EXPECT_EQ(found, values);
}

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
    status = SendWhenThereIsRoom(**sender, {row, 1}, value);
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
