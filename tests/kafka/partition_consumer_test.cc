#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/kafka/mock_cluster.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

class PartitionConsumerTest : public testing::Test {
 protected:
  PartitionConsumerTest() {
    cluster_.CreateTopic("t", 2);
    handler_.on_record = [this](const ConsumedRecord& record) {
      read_[record.partition].push_back(
          {record.offset, std::string(record.key), std::string(record.value)});
      return on_record_ ? on_record_(record) : absl::OkStatus();
    };
    handler_.on_end = [this](int32_t partition, Offset end) { end_[partition] = end; };
    handler_.on_out_of_range = [this](int32_t partition) {
      out_of_range_.push_back(partition);
      return absl::OkStatus();
    };
  }

  void Open(const ConsumerOptions& options = {.client_id = "test"}) {
    auto consumer = PartitionConsumer::Create(cluster_.options(), options, "t", &wakeup_);
    ASSERT_TRUE(consumer.ok()) << consumer.status();
    consumer_ = std::move(*consumer);
  }
  void Poll(size_t max_records = 1000) {
    const StatusOr<size_t> events = consumer_->Poll(max_records, handler_);
    ASSERT_TRUE(events.ok()) << events.status();
  }
  bool PollUntil(const std::function<bool()>& done) {
    return Until([&] {
      Poll();
      return done();
    });
  }
  std::vector<std::string> Values(int32_t partition) {
    std::vector<std::string> values;
    for (const Read& read : read_[partition]) values.push_back(read.value);
    return values;
  }

  MockCluster cluster_;
  Wakeup wakeup_;
  std::unique_ptr<PartitionConsumer> consumer_;
  ConsumerHandler handler_;
  std::function<Status(const ConsumedRecord&)> on_record_;
  std::map<int32_t, std::vector<Read>> read_;
  std::map<int32_t, Offset> end_;
  std::vector<int32_t> out_of_range_;
};

TEST_F(PartitionConsumerTest, PartitionsAreReadInOrderFromTheirOffsetsToTheirEnds) {
  ProduceNumbers(cluster_.options(), "t", 0, 0, 1000);
  ProduceNumbers(cluster_.options(), "t", 1, 0, 500);
  Open();
  ASSERT_TRUE(consumer_->Assign(0, 0).ok());
  ASSERT_TRUE(consumer_->Assign(1, 400).ok());
  ASSERT_TRUE(PollUntil([&] { return end_.size() == 2; }));
  EXPECT_EQ(Values(0), Numbers(0, 1000));
  EXPECT_EQ(Values(1), Numbers(400, 500));
  EXPECT_EQ(end_[0], 1000);
  EXPECT_EQ(end_[1], 500);
  EXPECT_EQ(read_[1][0], (Read{400, "key400", "400"}));
}

TEST_F(PartitionConsumerTest, KeysAndHeadersComeAsTheyWereSent) {
  auto producer = KafkaProducer::Create(cluster_.options(), {.client_id = "test"}, nullptr);
  ASSERT_TRUE(producer.ok()) << producer.status();
  const std::vector<RecordHeader> sent = {{"a", "1"}, {"empty", ""}, {"null", {}}, {"a", "2"}};
  ASSERT_TRUE((*producer)->SendWithHeaders("t", 0, {}, "v", 1234, sent, 0).ok());
  ASSERT_TRUE((*producer)->SendWithHeaders("t", 0, "", {}, 0, {}, 0).ok());
  ASSERT_TRUE((*producer)->Flush(seconds(20)).ok());
  Open();
  handler_.wants_headers = true;
  std::vector<bool> has_key;
  std::vector<bool> has_value;
  std::vector<std::pair<std::string, std::string>> headers;
  on_record_ = [&](const ConsumedRecord& record) {
    has_key.push_back(record.key.data() != nullptr);
    has_value.push_back(record.value.data() != nullptr);
    for (const RecordHeader& header : record.headers) {
      const bool is_null = header.value.data() == nullptr;
      headers.emplace_back(header.name, is_null ? "NULL" : header.value);
    }
    if (record.offset == 0) {
      EXPECT_EQ(record.timestamp_ms, 1234);
    }
    return absl::OkStatus();
  };
  ASSERT_TRUE(consumer_->Assign(0, 0).ok());
  ASSERT_TRUE(PollUntil([&] { return has_key.size() == 2; }));
  EXPECT_THAT(has_key, ElementsAre(false, true));
  EXPECT_THAT(has_value, ElementsAre(true, false));
  using Pair = std::pair<std::string, std::string>;
  EXPECT_THAT(headers,
              ElementsAre(Pair("a", "1"), Pair("empty", ""), Pair("null", "NULL"), Pair("a", "2")));
}

// A new leader may lack what was read from the last one.
TEST_F(PartitionConsumerTest, AfterALostConnectionThePartitionIsReadAgainFromWhereItsReaderSays) {
  ProduceNumbers(cluster_.options(), "t", 0, 0, 100);
  Open();
  int lost = 0;
  handler_.on_connection_lost = [&](int32_t partition) {
    EXPECT_EQ(partition, 0);
    ++lost;
    return std::optional<Offset>(read_[0].empty() ? 0 : 99);
  };
  ASSERT_TRUE(consumer_->Assign(0, 0).ok());
  ASSERT_TRUE(PollUntil([&] { return end_.contains(0); }));
  ASSERT_EQ(Values(0), Numbers(0, 100));
  const int before = lost;
  cluster_.SetDown();
  cluster_.SetUp();
  ProduceNumbers(cluster_.options(), "t", 0, 100, 102);
  ASSERT_TRUE(PollUntil([&] { return Values(0).back() == "101"; }));
  EXPECT_GT(lost, before);
  const std::vector<std::string> values = Values(0);
  EXPECT_EQ(values[100], "99") << "before anything of the new connection";
}

TEST_F(PartitionConsumerTest, TheEndOfAnEmptyPartitionIsTold) {
  Open();
  ASSERT_TRUE(consumer_->Assign(0, 0).ok());
  ASSERT_TRUE(PollUntil([&] { return end_.contains(0); }));
  EXPECT_EQ(end_[0], 0);
}

TEST_F(PartitionConsumerTest, PollHandsOutNoMoreThanItIsAskedForAndWakesForTheRest) {
  ProduceNumbers(cluster_.options(), "t", 0, 0, 100);
  Open();
  ASSERT_TRUE(consumer_->Assign(0, 0).ok());
  ASSERT_TRUE(Until([&] {
    Poll(7);
    return !read_[0].empty();
  }));
  // From here on the run loop of an app: the wait must end at once while records are left.
  const auto began = std::chrono::steady_clock::now();
  while (read_[0].size() < 100) {
    wakeup_.WaitFor(seconds(120));
    const size_t before = read_[0].size();
    Poll(7);
    EXPECT_LE(read_[0].size() - before, 7u);
    ASSERT_LT(std::chrono::steady_clock::now() - began, seconds(60));
  }
  EXPECT_EQ(Values(0), Numbers(0, 100));
}

TEST_F(PartitionConsumerTest, APartitionThatIsHeldWaitsAndTheOthersDoNot) {
  ProduceNumbers(cluster_.options(), "t", 0, 0, 1000);
  ProduceNumbers(cluster_.options(), "t", 1, 0, 1000);
  Open({.client_id = "test", .holds_partitions = true});
  ASSERT_TRUE(consumer_->Assign(0, 0).ok());
  ASSERT_TRUE(consumer_->Assign(1, 0).ok());
  on_record_ = [this](const ConsumedRecord& record) {
    if (record.partition == 0 && record.offset == 10) consumer_->Hold(0, true);
    return absl::OkStatus();
  };
  ASSERT_TRUE(PollUntil([&] { return end_.contains(1); }));
  EXPECT_EQ(Values(1), Numbers(0, 1000));
  Poll();
  EXPECT_EQ(Values(0), Numbers(0, 11)) << "it is held at once, also in a handler";
  consumer_->Hold(0, false);
  ASSERT_TRUE(PollUntil([&] { return end_.contains(0); }));
  EXPECT_EQ(Values(0), Numbers(0, 1000)) << "nothing is lost, and nothing comes twice";
  // Another assignment is not held.
  consumer_->Hold(0, true);
  ASSERT_TRUE(consumer_->Assign(0, 990).ok());
  read_.clear();
  end_.clear();
  ASSERT_TRUE(PollUntil([&] { return end_.contains(0); }));
  EXPECT_EQ(Values(0), Numbers(990, 1000));
  consumer_->Hold(7, true);  // of no partition that is read: nothing
}

TEST_F(PartitionConsumerTest, AnErrorOfAHandlerEndsThePollWhichReturnsIt) {
  ProduceNumbers(cluster_.options(), "t", 0, 0, 100);
  Open();
  on_record_ = [](const ConsumedRecord& record) {
    return record.offset % 40 == 30 ? absl::DataLossError(std::string(record.value))
                                    : absl::OkStatus();
  };
  ASSERT_TRUE(consumer_->Assign(0, 0).ok());
  for (const int bad : {30, 70}) {
    Status status;
    ASSERT_TRUE(Until([&] {
      status = consumer_->Poll(1000, handler_).status();
      return !status.ok();
    }));
    EXPECT_EQ(status, absl::DataLossError(std::to_string(bad)));
    EXPECT_EQ(Values(0), Numbers(0, bad + 1));
  }
  ASSERT_TRUE(PollUntil([&] { return end_.contains(0); }));
  EXPECT_EQ(Values(0), Numbers(0, 100));
}

TEST_F(PartitionConsumerTest, ANewRecordEndsTheWaitOfTheRunLoop) {
  Open();
  ASSERT_TRUE(consumer_->Assign(0, 0).ok());
  ASSERT_TRUE(PollUntil([&] { return end_.contains(0); }));
  ProduceNumbers(cluster_.options(), "t", 0, 0, 1);
  const auto began = std::chrono::steady_clock::now();
  while (read_[0].empty()) {
    wakeup_.WaitFor(seconds(120));
    Poll();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(60));
}

TEST_F(PartitionConsumerTest, AfterEachNewAssignmentReadingBeginsAtItsOffset) {
  ProduceNumbers(cluster_.options(), "t", 0, 0, 3000);
  ProduceNumbers(cluster_.options(), "t", 1, 0, 3000);
  Open();
  ASSERT_TRUE(consumer_->Assign(1, 0).ok());
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    const Offset start(std::uniform_int_distribution<int64_t>(0, 2900)(random));
    ASSERT_TRUE(consumer_->Assign(0, start).ok());
    read_[0].clear();
    // Sometimes at once again, sometimes with records left in the queue.
    const size_t wanted = std::uniform_int_distribution<size_t>(0, 90)(random);
    ASSERT_TRUE(Until([&] {
      Poll(50);
      return read_[0].size() >= wanted;
    }));
    Offset expected = start;
    for (const Read& read : read_[0]) ASSERT_EQ(read.offset, expected++) << "round " << round;
  }
  // The other partition has not noticed.
  ASSERT_TRUE(PollUntil([&] { return end_.contains(1); }));
  EXPECT_EQ(Values(1), Numbers(0, 3000));
}

TEST_F(PartitionConsumerTest, NothingIsHandedOutOfAPartitionThatIsNotReadAnyMore) {
  ProduceNumbers(cluster_.options(), "t", 0, 0, 1000);
  Open();
  ASSERT_TRUE(consumer_->Assign(0, 0).ok());
  ASSERT_TRUE(Until([&] {
    Poll(10);
    return !read_[0].empty();
  }));
  ASSERT_TRUE(consumer_->Unassign(0).ok());
  read_.clear();
  end_.clear();
  for (int i = 0; i < 50; ++i) {
    Poll();
    wakeup_.WaitFor(milliseconds(2));
  }
  EXPECT_THAT(read_, IsEmpty());
  EXPECT_THAT(end_, IsEmpty());
  EXPECT_TRUE(consumer_->Unassign(0).ok());
}

TEST_F(PartitionConsumerTest, APositionOutsideTheLogIsReportedAndNeverMendedInSilence) {
  ProduceNumbers(cluster_.options(), "t", 0, 0, 10);
  Open();
  ASSERT_TRUE(consumer_->Assign(0, 1000).ok());
  ASSERT_TRUE(PollUntil([&] { return !out_of_range_.empty(); }));
  EXPECT_THAT(out_of_range_, ElementsAre(0));
  EXPECT_THAT(read_[0], IsEmpty());
  ASSERT_TRUE(consumer_->Assign(0, 7).ok());
  ASSERT_TRUE(PollUntil([&] { return read_[0].size() == 3; }));
  EXPECT_EQ(Values(0), Numbers(7, 10));
  EXPECT_THAT(out_of_range_, ElementsAre(0));
}

TEST_F(PartitionConsumerTest, AnOutOfRangeEventOfAnEarlierAssignmentIsNotReported) {
  ProduceNumbers(cluster_.options(), "t", 0, 0, 100);
  Open();
  for (int round = 0; round < 40; ++round) {
    ASSERT_TRUE(consumer_->Assign(0, Offset(1000 + round)).ok());
    // The event is under way, or already in the queue.
    if (round % 2 == 1) std::this_thread::sleep_for(milliseconds(round));
    ASSERT_TRUE(consumer_->Assign(0, 90).ok());
    read_[0].clear();
    ASSERT_TRUE(PollUntil([&] { return read_[0].size() == 10; })) << "round " << round;
    EXPECT_EQ(Values(0), Numbers(90, 100));
    EXPECT_THAT(out_of_range_, IsEmpty()) << "round " << round;
  }
}

TEST_F(PartitionConsumerTest, ATopicThatIsDeletedUnderItsReaderIsAnErrorThatNamesIt) {
  Open();
  ASSERT_TRUE(consumer_->Assign(0, 0).ok());
  ASSERT_TRUE(PollUntil([&] { return end_.contains(0); }));
  cluster_.Forget("t");
  cluster_.Fail(Request::kFetch, {RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART});
  Status status;
  ASSERT_TRUE(Until([&] {
    status = consumer_->Poll(100, handler_).status();
    return !status.ok();
  }));
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("topic 't' is gone"));
}

// As one that has just come up may.
TEST_F(PartitionConsumerTest, ABrokerThatDoesNotKnowTheTopicForAMomentIsForgiven) {
  Open();
  ASSERT_TRUE(consumer_->Assign(0, 0).ok());
  ASSERT_TRUE(PollUntil([&] { return end_.contains(0); }));
  cluster_.Forget("t");
  cluster_.Fail(Request::kFetch, {RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART});
  const auto known_again = std::chrono::steady_clock::now() + seconds(2);
  while (std::chrono::steady_clock::now() < known_again) {
    Poll();
    wakeup_.WaitFor(milliseconds(20));
  }
  cluster_.Remember("t");
  ProduceNumbers(cluster_.options(), "t", 0, 0, 10);
  ASSERT_TRUE(PollUntil([&] { return read_[0].size() == 10; }));
}

TEST_F(PartitionConsumerTest, ARangeIsFromTheFirstRecordToAfterTheLast) {
  ProduceNumbers(cluster_.options(), "t", 1, 0, 42);
  Open();
  StatusOr<PartitionConsumer::Range> range = consumer_->QueryRange(1, seconds(10));
  ASSERT_TRUE(range.ok()) << range.status();
  EXPECT_EQ(range->begin, 0);
  EXPECT_EQ(range->end, 42);
  range = consumer_->QueryRange(0, seconds(10));
  ASSERT_TRUE(range.ok()) << range.status();
  EXPECT_EQ(range->end, 0);
}

TEST_F(PartitionConsumerTest, AskingForARangeEndsInTimeWhenTheBrokerIsAway) {
  Open();
  ASSERT_TRUE(consumer_->QueryRange(0, seconds(10)).ok());
  cluster_.SetDown();
  const auto began = std::chrono::steady_clock::now();
  const Status status = consumer_->QueryRange(0, milliseconds(300)).status();
  EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(30));
  EXPECT_TRUE(absl::IsDeadlineExceeded(status) || absl::IsUnavailable(status)) << status;
}

// A broker that has just started names no leader for a moment. librdkafka 2.0.2 keeps that answer.
TEST_F(PartitionConsumerTest, ARangeIsToldAgainWhenThePartitionHasALeaderAgain) {
  ProduceNumbers(cluster_.options(), "t", 1, 0, 42);
  Open();
  cluster_.TakeLeader("t", 1);
  EXPECT_TRUE(Until(
      [&] { return absl::IsUnavailable(consumer_->QueryRange(1, milliseconds(300)).status()); }));
  cluster_.GiveLeader("t", 1);
  const StatusOr<PartitionConsumer::Range> range = consumer_->QueryRange(1, seconds(10));
  ASSERT_TRUE(range.ok()) << range.status();
  EXPECT_EQ(range->end, 42);
}

TEST_F(PartitionConsumerTest, ARangeOfAPartitionOrATopicThatDoesNotExistIsNotFound) {
  const auto is_not_found = [](PartitionConsumer& consumer, int32_t partition) {
    return absl::IsNotFound(consumer.QueryRange(partition, milliseconds(300)).status());
  };
  Open();
  EXPECT_TRUE(Until([&] { return is_not_found(*consumer_, 7); }));
  cluster_.Forget("t");
  const auto consumer =
      PartitionConsumer::Create(cluster_.options(), {.client_id = "test"}, "t", nullptr);
  ASSERT_TRUE(consumer.ok()) << consumer.status();
  EXPECT_TRUE(Until([&] { return is_not_found(**consumer, 0); }));
}

// Without FetchNudge this takes a second for each 16 kB: a minute.
TEST_F(PartitionConsumerTest, AReaderWithASmallQueueIsFedWithoutPauses) {
  {
    auto producer =
        KafkaProducer::Create(cluster_.options(), {.client_id = "p", .linger_ms = 5}, nullptr);
    for (int i = 0; i < 2000; ++i) {
      ASSERT_TRUE((*producer)->Send("t", 0, "", std::string(500, 'x')).ok());
    }
    ASSERT_TRUE((*producer)->Flush(seconds(20)).ok());
  }
  // Fetches of 10 kB, so that the queue is full after a few.
  Open({.client_id = "test", .queue_kbytes = 16});
  const auto began = std::chrono::steady_clock::now();
  ASSERT_TRUE(consumer_->Assign(0, 0).ok());
  ASSERT_TRUE(Until(
      [&] {
        Poll(5);
        return end_.contains(0);
      },
      seconds(120)));
  EXPECT_EQ(read_[0].size(), 2000u);
  EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(30));
}

}  // namespace
}  // namespace millrace
