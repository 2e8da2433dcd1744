#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kafka/mock_cluster.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::IsEmpty;

class TransactionTest : public testing::Test {
 protected:
  TransactionTest() {
    cluster_.CreateTopic("t", 1);
    Open({});
  }

  void Open(std::vector<std::pair<std::string, std::string>> settings) {
    KafkaOptions kafka = cluster_.options();
    kafka.settings = std::move(settings);
    auto producer =
        KafkaProducer::Create(kafka, {.client_id = "test", .transactional_id = "id"}, nullptr);
    ASSERT_TRUE(producer.ok()) << producer.status();
    producer_ = std::move(*producer);
  }

  void BeginWithARecord() {
    ASSERT_TRUE(producer_->InitTransactions(seconds(20)).ok());
    ASSERT_TRUE(producer_->BeginTransaction().ok());
    ASSERT_TRUE(producer_->Send("t", 0, "k", "v").ok());
  }

  MockCluster cluster_;
  std::unique_ptr<KafkaProducer> producer_;
};

TEST_F(TransactionTest, ATransactionCommitsAndTheNextBegins) {
  BeginWithARecord();
  ASSERT_TRUE(producer_->CommitTransaction(seconds(20)).ok());
  EXPECT_EQ(producer_->outstanding(), 0u);
  EXPECT_EQ(producer_->DeliveredEnd("t", 0), 1);
  ASSERT_TRUE(producer_->BeginTransaction().ok());
  ASSERT_TRUE(producer_->Send("t", 0, "k", "v").ok());
  EXPECT_TRUE(producer_->CommitTransaction(seconds(20)).ok());
}

// So a broker that goes in the middle of a checkpoint ends no server.
TEST_F(TransactionTest, ItsRequestsAreUnderWayOneAtATime) {
  Open({{"batch.num.messages", "1"}});
  BeginWithARecord();
  ASSERT_TRUE(producer_->Flush(seconds(20)).ok());
  cluster_.SetRoundTrip(milliseconds(200));
  const auto began = std::chrono::steady_clock::now();
  for (const char* value : {"0", "1", "2"}) ASSERT_TRUE(producer_->Send("t", 0, "", value).ok());
  ASSERT_TRUE(producer_->Flush(seconds(20)).ok());
  EXPECT_GE(std::chrono::steady_clock::now() - began, milliseconds(600));
}

TEST_F(TransactionTest, AFencedProducerMustStop) {
  BeginWithARecord();
  cluster_.Fail(Request::kEndTransaction, {RD_KAFKA_RESP_ERR_PRODUCER_FENCED});
  EXPECT_TRUE(absl::IsFailedPrecondition(producer_->CommitTransaction(seconds(20))));
  EXPECT_TRUE(absl::IsFailedPrecondition(producer_->BeginTransaction()));
  EXPECT_TRUE(absl::IsFailedPrecondition(producer_->Send("t", 0, "k", "v")));
}

TEST_F(TransactionTest, AFailedTransactionIsAbortedAndTheNextSucceeds) {
  ASSERT_TRUE(producer_->InitTransactions(seconds(20)).ok());
  ASSERT_TRUE(producer_->BeginTransaction().ok());
  cluster_.Fail(Request::kAddPartitionsToTransaction,
                {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED});
  ASSERT_TRUE(producer_->Send("t", 0, "k", "v").ok());
  const Status status = producer_->CommitTransaction(seconds(20));
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  ASSERT_TRUE(producer_->AbortTransaction(seconds(20)).ok());
  ASSERT_TRUE(producer_->BeginTransaction().ok());
  ASSERT_TRUE(producer_->Send("t", 0, "k", "v").ok());
  EXPECT_TRUE(producer_->CommitTransaction(seconds(20)).ok());
}

TEST_F(TransactionTest, ACommitThatRunsOutOfTimeIsCalledAgain) {
  BeginWithARecord();
  ASSERT_TRUE(producer_->Flush(seconds(20)).ok());
  cluster_.SetRoundTrip(seconds(30));
  const Status status = producer_->CommitTransaction(milliseconds(200));
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  cluster_.SetRoundTrip(milliseconds(0));
  EXPECT_TRUE(producer_->CommitTransaction(seconds(20)).ok());
}

TEST_F(TransactionTest, WithoutABrokerTransactionsDoNotStartButMayBeTriedAgain) {
  cluster_.SetDown();
  const Status status = producer_->InitTransactions(milliseconds(300));
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  cluster_.SetUp();
  EXPECT_TRUE(producer_->InitTransactions(seconds(20)).ok());
}

TEST_F(TransactionTest, WhatAnAbortThrowsAwayIsNoFailedDelivery) {
  ASSERT_TRUE(producer_->InitTransactions(seconds(20)).ok());
  ASSERT_TRUE(producer_->BeginTransaction().ok());
  cluster_.SetRoundTrip(milliseconds(300));
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(producer_->Send("t", 0, "k", "v").ok());
  ASSERT_TRUE(producer_->AbortTransaction(seconds(20)).ok());
  EXPECT_EQ(producer_->outstanding(), 0u);
  EXPECT_THAT(producer_->TakeFailures(), IsEmpty());
}

TEST_F(TransactionTest, ATransactionThatWasNotStartedIsAnError) {
  EXPECT_TRUE(absl::IsFailedPrecondition(producer_->BeginTransaction()));
}

}  // namespace
}  // namespace millrace
