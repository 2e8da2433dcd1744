#include <gmock/gmock.h>

#include <optional>

#include "base/error_marks.h"
#include "kafka/consumer.h"
#include "kafka/group_offsets.h"
#include "tests/kafka/real_broker.h"

namespace millrace {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

class BrokerTransactionTest : public RealBrokerTest {
 protected:
  // Partition 0 to its end, which is `end`. (A commit is answered before its marker stands there.)
  std::vector<std::string> ReadAll(const std::string& topic, bool read_committed, Offset end) {
    auto consumer = PartitionConsumer::Create(
        kafka_, {.client_id = "reader", .read_committed = read_committed}, topic, nullptr);
    EXPECT_TRUE(consumer.ok());
    EXPECT_TRUE((*consumer)->Assign(0, 0).ok());
    std::vector<std::string> values;
    Offset ended = -1;
    ConsumerHandler handler;
    handler.on_record = [&](const ConsumedRecord& record) {
      values.emplace_back(record.value);
      return absl::OkStatus();
    };
    handler.on_end = [&](int32_t, Offset at) { ended = at; };
    EXPECT_TRUE(Until([&] { return (*consumer)->Poll(1000, handler).ok() && ended >= end; }));
    EXPECT_EQ(ended, end);
    return values;
  }
};

TEST_F(BrokerTransactionTest, ReadersOfCommittedRecordsSeeWholeTransactionsOnly) {
  const std::string topic = CreateTopic(1);
  const auto producer = MakeProducer({.client_id = "test", .transactional_id = topic});
  ASSERT_TRUE(producer->InitTransactions(seconds(30)).ok());
  const auto send = [&](const std::string& value) {
    ASSERT_TRUE(producer->Send(topic, 0, "k", value).ok());
  };
  ASSERT_TRUE(producer->BeginTransaction().ok());
  send("a");
  send("b");
  ASSERT_TRUE(producer->CommitTransaction(seconds(30)).ok());
  EXPECT_EQ(producer->DeliveredEnd(topic, 0), 2);
  ASSERT_TRUE(producer->BeginTransaction().ok());
  send("aborted");
  ASSERT_TRUE(producer->Flush(seconds(30)).ok());
  ASSERT_TRUE(producer->AbortTransaction(seconds(30)).ok());
  EXPECT_THAT(producer->TakeFailures(), IsEmpty());
  ASSERT_TRUE(producer->BeginTransaction().ok());
  send("c");
  ASSERT_TRUE(producer->CommitTransaction(seconds(30)).ok());
  ASSERT_TRUE(producer->BeginTransaction().ok());
  send("open");
  ASSERT_TRUE(producer->Flush(seconds(30)).ok());

  // a b MARKER aborted MARKER c MARKER open: the end is after the last marker.
  EXPECT_THAT(ReadAll(topic, true, 7), ElementsAre("a", "b", "c"));
  EXPECT_THAT(ReadAll(topic, false, 8), ElementsAre("a", "b", "aborted", "c", "open"));
  auto consumer = PartitionConsumer::Create(kafka_, {.client_id = "range", .read_committed = true},
                                            topic, nullptr);
  EXPECT_EQ((*consumer)->QueryRange(0, seconds(10)).value_or(OffsetRange{}).end, 7);
}

TEST_F(BrokerTransactionTest, PositionsOfAGroupAreCommittedWithTheRecordsOrNotAtAll) {
  const std::string topic = CreateTopic(2);
  const auto found = [&] {
    const auto offsets = CommittedOffsets(kafka_, topic + "-group", topic, 2, seconds(30));
    EXPECT_TRUE(offsets.ok()) << offsets.status();
    std::vector<int64_t> numbers;
    for (const std::optional<Offset>& each : offsets.value_or(std::vector<std::optional<Offset>>()))
      numbers.push_back(each.value_or(Offset(-1)));
    return numbers;
  };
  EXPECT_THAT(found(), ElementsAre(-1, -1));
  const auto producer = MakeProducer({.client_id = "test", .transactional_id = topic});
  ASSERT_TRUE(producer->InitTransactions(seconds(30)).ok());
  const auto send = [&](int64_t next) {
    ASSERT_TRUE(producer->BeginTransaction().ok());
    ASSERT_TRUE(producer->Send(topic, 0, "k", std::to_string(next)).ok());
    // (An abort drops what was not sent yet, and the topic would end earlier.)
    ASSERT_TRUE(producer->Flush(seconds(30)).ok());
    ASSERT_TRUE(
        producer->SendOffsets(topic + "-group", topic, {{1, Offset(next)}}, seconds(30)).ok());
  };
  send(5);
  ASSERT_TRUE(producer->CommitTransaction(seconds(30)).ok());
  EXPECT_THAT(found(), ElementsAre(-1, 5));
  send(7);
  ASSERT_TRUE(producer->AbortTransaction(seconds(30)).ok());
  EXPECT_THAT(found(), ElementsAre(-1, 5));
  EXPECT_THAT(ReadAll(topic, true, 4), ElementsAre("5"));
}

TEST_F(BrokerTransactionTest, ANewerInstanceFencesTheOlderAndAbortsItsTransaction) {
  const std::string topic = CreateTopic(1);
  const auto older = MakeProducer({.client_id = "older", .transactional_id = topic});
  ASSERT_TRUE(older->InitTransactions(seconds(30)).ok());
  ASSERT_TRUE(older->BeginTransaction().ok());
  ASSERT_TRUE(older->Send(topic, 0, "k", "older").ok());
  ASSERT_TRUE(older->Flush(seconds(30)).ok());

  const auto newer = MakeProducer({.client_id = "newer", .transactional_id = topic});
  Status status;
  ASSERT_TRUE(Until([&] {
    status = newer->InitTransactions(seconds(30));
    return !absl::IsUnavailable(status);
  }));
  ASSERT_TRUE(status.ok()) << status;
  status = older->CommitTransaction(seconds(30));
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_TRUE(absl::IsFailedPrecondition(older->Send(topic, 0, "k", "again")));

  ASSERT_TRUE(newer->BeginTransaction().ok());
  ASSERT_TRUE(newer->Send(topic, 0, "k", "newer").ok());
  ASSERT_TRUE(newer->CommitTransaction(seconds(30)).ok());
  EXPECT_THAT(ReadAll(topic, true, 4), ElementsAre("newer"));
}

// (predictor/topic_writer.h: so it is told before another producer of it would fence the newer
// one.)
TEST_F(BrokerTransactionTest, AnOlderInstanceThatGivesItsTransactionUpIsToldOfTheNewer) {
  const std::string topic = CreateTopic(1);
  const auto older = MakeProducer({.client_id = "older", .transactional_id = topic});
  ASSERT_TRUE(older->InitTransactions(seconds(30)).ok());
  ASSERT_TRUE(older->BeginTransaction().ok());
  ASSERT_TRUE(older->Send(topic, 0, "k", "older").ok());
  ASSERT_TRUE(older->Flush(seconds(30)).ok());
  const auto newer = MakeProducer({.client_id = "newer", .transactional_id = topic});
  ASSERT_TRUE(Until([&] { return newer->InitTransactions(seconds(30)).ok(); }));
  Status status;
  ASSERT_TRUE(Until([&] {
    status = older->AbortTransaction(seconds(30));
    return !absl::IsUnavailable(status);
  }));
  EXPECT_TRUE(IsFenced(status)) << status;
  ASSERT_TRUE(newer->BeginTransaction().ok());
  ASSERT_TRUE(newer->Send(topic, 0, "k", "newer").ok());
  ASSERT_TRUE(newer->CommitTransaction(seconds(30)).ok());
}

}  // namespace
}  // namespace millrace
