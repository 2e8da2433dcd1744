#include "kafka/producer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kafka/mock_cluster.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class ProducerTest : public testing::Test {
 protected:
  ProducerTest() { cluster_.CreateTopic("t", 2); }

  void Open(const ProducerOptions& options = {.client_id = "test"},
            std::vector<std::pair<std::string, std::string>> settings = {}) {
    KafkaOptions kafka = cluster_.options();
    kafka.settings = std::move(settings);
    auto producer = KafkaProducer::Create(kafka, options, &wakeup_);
    ASSERT_TRUE(producer.ok()) << producer.status();
    producer_ = std::move(*producer);
  }

  std::vector<std::string> ReadAll(int32_t partition) {
    std::vector<std::string> values;
    auto consumer =
        PartitionConsumer::Create(cluster_.options(), {.client_id = "reader"}, "t", nullptr);
    EXPECT_TRUE(consumer.ok()) << consumer.status();
    EXPECT_TRUE((*consumer)->Assign(partition, 0).ok());
    bool ended = false;
    ConsumerHandler handler;
    handler.on_record = [&](const ConsumedRecord& record) {
      values.emplace_back(record.value);
      return absl::OkStatus();
    };
    handler.on_end = [&](int32_t, Offset) { ended = true; };
    EXPECT_TRUE(Until([&] { return (*consumer)->Poll(1000, handler).ok() && ended; }));
    return values;
  }

  MockCluster cluster_;
  Wakeup wakeup_;
  std::unique_ptr<KafkaProducer> producer_;
};

TEST_F(ProducerTest, WhatIsSentIsDeliveredInOrderAndOnce) {
  Open();
  ASSERT_TRUE(producer_->Prepare({"t"}).ok());
  EXPECT_EQ(producer_->DeliveredEnd("t", 1), -1);
  for (int i = 0; i < 5000; ++i) {
    ASSERT_TRUE(producer_->Send("t", 1, "k", std::to_string(i)).ok());
  }
  ASSERT_TRUE(producer_->Flush(seconds(20)).ok());
  EXPECT_EQ(producer_->outstanding(), 0u);
  EXPECT_EQ(producer_->DeliveredEnd("t", 1), 5000);
  EXPECT_EQ(producer_->DeliveredEnd("t", 0), -1);
  EXPECT_EQ(producer_->DeliveredEnd("other", 0), -1);
  EXPECT_THAT(producer_->TakeFailures(), IsEmpty());
  EXPECT_EQ(ReadAll(1), Numbers(0, 5000));
}

TEST_F(ProducerTest, ValuesThatItOwnsAreDeliveredWhateverBecomesOfTheirStrings) {
  Open();
  ASSERT_TRUE(producer_->Prepare({"t"}).ok());
  std::vector<std::string> values;
  for (const size_t size : {10, 20'000, 900'000, 900'000}) {
    values.push_back(std::string(size, static_cast<char>('a' + values.size())));
    std::string value = values.back();
    ASSERT_TRUE(producer_->SendOwned("t", 0, "k", value).ok());
    value.assign(size, '-');
  }
  ASSERT_TRUE(producer_->Flush(seconds(20)).ok());
  EXPECT_EQ(ReadAll(0), values);
}

TEST_F(ProducerTest, AValueThatIsRefusedStaysItsSenders) {
  Open({.client_id = "test", .queue_kbytes = 1000});
  ASSERT_TRUE(producer_->Prepare({"t"}).ok());
  cluster_.SetDown();
  std::string value(900'000, 'x');
  while (producer_->SendOwned("t", 0, "k", value).ok()) value.assign(900'000, 'x');
  EXPECT_EQ(value.size(), 900'000u);
  // What is still queued goes with the producer: a leak would be noticed.
  producer_.reset();
}

TEST_F(ProducerTest, ErrorsThatCanBeTriedAgainLoseAndDoubleNothing) {
  // A real broker refuses requests that overtake a failed one; the mock takes them.
  Open({.client_id = "test", .one_request_at_a_time = true});
  cluster_.Fail(Request::kProduce,
                {RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, RD_KAFKA_RESP_ERR__TRANSPORT,
                 RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT});
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(producer_->Send("t", 0, "k", std::to_string(i)).ok());
    producer_->Poll(milliseconds(1));
  }
  ASSERT_TRUE(producer_->Flush(seconds(20)).ok());
  EXPECT_THAT(producer_->TakeFailures(), IsEmpty());
  EXPECT_EQ(ReadAll(0), Numbers(0, 100));
}

// A broker that does not lead a new partition yet refuses an idempotent producer's first batch, and
// may then take the second, since it knows nothing of this producer. librdkafka counts the first as
// delivered, too.
TEST_F(ProducerTest, WhatNoBrokerHasPlacedInALogIsReportedAsNotDelivered) {
  Open({.client_id = "test"}, {{"batch.num.messages", "1"}});
  ASSERT_TRUE(producer_->Prepare({"t"}).ok());
  cluster_.Fail(Request::kProduce, {RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION});
  cluster_.SetDown();
  for (const char* value : {"0", "1", "2"}) {
    ASSERT_TRUE(producer_->Send("t", 0, "k", value).ok());
  }
  cluster_.SetRoundTrip(milliseconds(500));  // all are sent before the first is refused
  cluster_.SetUp();
  ASSERT_TRUE(producer_->Flush(seconds(20)).ok());
  const size_t lost = 3 - ReadAll(0).size();
  EXPECT_GE(lost, 1u) << "the accident has not happened";
  EXPECT_THAT(producer_->TakeFailures(), SizeIs(lost));
}

TEST_F(ProducerTest, ADeliveryThatFailsForGoodIsReportedOnce) {
  Open();
  ASSERT_TRUE(producer_->Prepare({"t"}).ok());
  cluster_.Fail(Request::kProduce, {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE});
  ASSERT_TRUE(producer_->Send("t", 1, "k", "too large").ok());
  ASSERT_TRUE(producer_->Flush(seconds(20)).ok());
  const std::vector<FailedDelivery> failures = producer_->TakeFailures();
  ASSERT_THAT(failures, SizeIs(1));
  EXPECT_EQ(failures[0].topic, "t");
  EXPECT_EQ(failures[0].partition, 1);
  EXPECT_THAT(failures[0].reason, testing::HasSubstr("too large"));
  EXPECT_THAT(producer_->TakeFailures(), IsEmpty());
  EXPECT_EQ(producer_->DeliveredEnd("t", 1), -1);

  ASSERT_TRUE(producer_->Send("t", 1, "k", "next").ok());
  ASSERT_TRUE(producer_->Flush(seconds(20)).ok());
  EXPECT_THAT(ReadAll(1), ElementsAre("next"));
}

TEST_F(ProducerTest, ARefusedRecordComesBackWithItsTagAndWhatOfItWasRefused) {
  const std::pair<rd_kafka_resp_err_t, Refused> refusals[] = {
      {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, Refused::kSize},
      {RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP, Refused::kTime},
      {RD_KAFKA_RESP_ERR_INVALID_RECORD, Refused::kRecord},
      {RD_KAFKA_RESP_ERR_POLICY_VIOLATION, Refused::kOther},
  };
  Open();
  ASSERT_TRUE(producer_->Prepare({"t"}).ok());
  for (const auto& [error, refused] : refusals) {
    cluster_.Fail(Request::kProduce, {error});
    ASSERT_TRUE(producer_->SendWithHeaders("t", 1, "k", "v", 1, {}, 77).ok());
    ASSERT_TRUE(producer_->Flush(seconds(20)).ok());
    const std::vector<FailedDelivery> failures = producer_->TakeFailures();
    ASSERT_THAT(failures, SizeIs(1));
    EXPECT_EQ(failures[0].tag, 77u);
    EXPECT_EQ(failures[0].refused, refused) << rd_kafka_err2name(error);
  }
}

TEST_F(ProducerTest, AFullQueueIsReportedAndWhatIsInItIsDelivered) {
  Open({.client_id = "test", .queue_kbytes = 64});
  ASSERT_TRUE(producer_->Prepare({"t"}).ok());
  cluster_.SetDown();
  int sent = 0;
  Status status;
  while (sent < 30000 && (status = producer_->Send("t", 0, "", std::to_string(sent))).ok()) ++sent;
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(producer_->outstanding(), static_cast<size_t>(sent));
  cluster_.SetUp();
  ASSERT_TRUE(producer_->Flush(seconds(20)).ok());
  EXPECT_TRUE(producer_->Send("t", 0, "", std::to_string(sent)).ok());
  ASSERT_TRUE(producer_->Flush(seconds(20)).ok());
  EXPECT_EQ(ReadAll(0), Numbers(0, sent + 1));
}

TEST_F(ProducerTest, ARecordAboveTheLimitIsRefused) {
  Open();
  EXPECT_TRUE(absl::IsInvalidArgument(
      producer_->Send("t", 0, "", std::string(kMaxRecordBytes + 2000, 'x'))));
  EXPECT_TRUE(producer_->Send("t", 0, "", std::string(kMaxRecordBytes, 'x')).ok());
  EXPECT_TRUE(producer_->Flush(seconds(20)).ok());
  EXPECT_THAT(producer_->TakeFailures(), IsEmpty());
}

TEST_F(ProducerTest, AnUnknownPartitionIsRefused) {
  Open();
  ASSERT_TRUE(producer_->Prepare({"t"}).ok());
  EXPECT_TRUE(absl::IsNotFound(producer_->Send("t", 2, "", "x")));
}

TEST_F(ProducerTest, AnEmptyValueAndNoValueAreDifferent) {
  Open();
  ASSERT_TRUE(producer_->Send("t", 0, "k", "").ok());
  ASSERT_TRUE(producer_->Send("t", 0, {}, {}, 1234567).ok());
  ASSERT_TRUE(producer_->Flush(seconds(20)).ok());
  auto consumer =
      PartitionConsumer::Create(cluster_.options(), {.client_id = "reader"}, "t", nullptr);
  ASSERT_TRUE((*consumer)->Assign(0, 0).ok());
  std::vector<bool> keys, values;
  int64_t timestamp = 0;
  ConsumerHandler handler;
  handler.on_record = [&](const ConsumedRecord& record) {
    keys.push_back(record.key.data() != nullptr);
    values.push_back(record.value.data() != nullptr);
    timestamp = record.timestamp_ms;
    return absl::OkStatus();
  };
  ASSERT_TRUE(Until([&] { return (*consumer)->Poll(10, handler).ok() && keys.size() == 2; }));
  EXPECT_THAT(keys, ElementsAre(true, false));
  EXPECT_THAT(values, ElementsAre(true, false));
  EXPECT_EQ(timestamp, 1234567);
}

TEST_F(ProducerTest, ADeliveryEndsTheWaitOfTheRunLoop) {
  Open();
  ASSERT_TRUE(producer_->Prepare({"t"}).ok());
  wakeup_.WaitFor(milliseconds(0));
  ASSERT_TRUE(producer_->Send("t", 0, "", "x").ok());
  const auto began = std::chrono::steady_clock::now();
  while (producer_->outstanding() > 0) {
    wakeup_.WaitFor(seconds(120));
    producer_->Poll(milliseconds(0));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(60));
}

TEST_F(ProducerTest, AFlushThatRunsOutOfTimeSaysWhatIsMissing) {
  Open();
  ASSERT_TRUE(producer_->Prepare({"t"}).ok());
  cluster_.SetDown();
  ASSERT_TRUE(producer_->Send("t", 0, "", "x").ok());
  const Status status = producer_->Flush(milliseconds(50));
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("1 record"));
}

TEST_F(ProducerTest, DestructionDoesNotWaitForABrokerThatIsAway) {
  Open();
  ASSERT_TRUE(producer_->Prepare({"t"}).ok());
  cluster_.SetDown();
  ASSERT_TRUE(producer_->Send("t", 0, "", "x").ok());
  const auto began = std::chrono::steady_clock::now();
  producer_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(5));
}

// When the broker is back, it refuses the first of two that are repeated, since it does not lead
// the partition yet, and then the second, since the first is missing.
TEST_F(ProducerTest, ABrokerThatGoesWithTwoRequestsUnderWayMayEndAProducer) {
  Open({.client_id = "test"}, {{"batch.num.messages", "1"}});
  ASSERT_TRUE(producer_->Prepare({"t"}).ok());
  ASSERT_TRUE(producer_->Send("t", 0, "", "0").ok());
  ASSERT_TRUE(producer_->Flush(seconds(20)).ok());
  cluster_.SetDown();
  for (const char* value : {"1", "2"}) ASSERT_TRUE(producer_->Send("t", 0, "", value).ok());
  cluster_.SetRoundTrip(milliseconds(500));  // both are sent before the first is refused
  cluster_.Fail(Request::kProduce,
                {RD_KAFKA_RESP_ERR__TRANSPORT, RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
                 RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER});
  cluster_.SetUp();
  ASSERT_TRUE(producer_->Flush(seconds(20)).ok());
  // (What the mock took of it, a broker would not have taken.)
  EXPECT_THAT(producer_->TakeFailures(), Not(IsEmpty()));
  EXPECT_TRUE(absl::IsFailedPrecondition(producer_->Send("t", 0, "", "3")));
}

TEST_F(ProducerTest, OneRequestAtATimeIsSentAfterTheAnswerToTheOneBefore) {
  Open({.client_id = "test", .one_request_at_a_time = true}, {{"batch.num.messages", "1"}});
  ASSERT_TRUE(producer_->Prepare({"t"}).ok());
  cluster_.SetRoundTrip(milliseconds(200));
  const auto began = std::chrono::steady_clock::now();
  for (const char* value : {"0", "1", "2"}) ASSERT_TRUE(producer_->Send("t", 0, "", value).ok());
  ASSERT_TRUE(producer_->Flush(seconds(20)).ok());
  EXPECT_GE(std::chrono::steady_clock::now() - began, milliseconds(600));
}

TEST_F(ProducerTest, AFatalErrorFailsWhatIsOutstandingAndEverySendAfterIt) {
  Open();
  ASSERT_TRUE(producer_->Prepare({"t"}).ok());
  ASSERT_TRUE(producer_->Send("t", 0, "", "first").ok());
  ASSERT_TRUE(producer_->Flush(seconds(20)).ok());
  cluster_.Fail(Request::kProduce, {RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER});
  ASSERT_TRUE(producer_->Send("t", 0, "", "x").ok());
  ASSERT_TRUE(Until([&] {
    producer_->Poll(milliseconds(10));
    return producer_->outstanding() == 0;
  }));
  EXPECT_THAT(producer_->TakeFailures(), SizeIs(1));
  const Status status = producer_->Send("t", 0, "", "y");
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
}

}  // namespace
}  // namespace millrace
