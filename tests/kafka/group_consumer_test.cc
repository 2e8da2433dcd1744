#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/kafka/mock_cluster.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::IsEmpty;

// The mock's group forms after three seconds, so these tests do several things each. When a member
// joins others the mock waits until just before their sessions run out: broker_group_test.cc has
// that case.
class Member {
 public:
  Member(const MockCluster& cluster, std::string name, double session_timeout_s = 6,
         double stall_timeout_s = 300)
      : name_(std::move(name)) {
    const ConsumerOptions options = {.client_id = name_,
                                     .group_id = "g",
                                     .session_timeout_s = session_timeout_s,
                                     .stall_timeout_s = stall_timeout_s};
    auto consumer = GroupConsumer::Create(cluster.options(), options, "t", &wakeup_);
    EXPECT_TRUE(consumer.ok()) << consumer.status();
    consumer_ = std::move(*consumer);
    handler_.on_record = [this](const ConsumedRecord& record) {
      EXPECT_TRUE(owned_.contains(record.partition));
      EXPECT_FALSE(held_.contains(record.partition));
      values_[record.partition].emplace_back(record.value);
      if (on_record_) on_record_(record);
      return absl::OkStatus();
    };
    handler_.on_end = [this](int32_t partition, Offset) { ended_.insert(partition); };
    handler_.on_out_of_range = [this](int32_t partition) {
      out_of_range_.push_back(partition);
      return absl::OkStatus();
    };
    handler_.on_assigned = [this](int32_t partition,
                                  const std::optional<GroupConsumer::Committed>& committed) {
      owned_.insert(partition);
      held_.erase(partition);
      committed_[partition] = committed;
      return start_ >= 0 ? Offset(start_) : committed.has_value() ? committed->offset : Offset(0);
    };
    handler_.on_revoked = [this](int32_t partition, bool lost) {
      owned_.erase(partition);
      ended_.erase(partition);
      revoked_.push_back({partition, lost});
      return absl::OkStatus();
    };
  }

  void Poll(size_t max_records = 1000) {
    const StatusOr<size_t> events = consumer_->Poll(max_records, handler_);
    ASSERT_TRUE(events.ok()) << events.status();
  }
  void Hold(int32_t partition, bool held) {
    held ? static_cast<void>(held_.insert(partition)) : static_cast<void>(held_.erase(partition));
    consumer_->Hold(partition, held);
  }

  const std::string name_;
  Wakeup wakeup_;
  std::unique_ptr<GroupConsumer> consumer_;
  GroupConsumer::Handler handler_;
  std::function<void(const ConsumedRecord&)> on_record_;
  Offset start_ = -1;
  std::set<int32_t> owned_, held_, ended_;
  std::map<int32_t, std::optional<GroupConsumer::Committed>> committed_;
  std::map<int32_t, std::vector<std::string>> values_;
  std::vector<std::pair<int32_t, bool>> revoked_;
  std::vector<int32_t> out_of_range_;
};

class GroupConsumerTest : public testing::Test {
 protected:
  GroupConsumerTest() {
    cluster_.CreateTopic("t", 2);
    ProduceNumbers(cluster_.options(), "t", 0, 0, 1000);
    ProduceNumbers(cluster_.options(), "t", 1, 0, 1000);
  }
  MockCluster cluster_;
};

TEST_F(GroupConsumerTest, AMemberThatLeavesHandsOverItsCommittedPositionsAndMetadata) {
  auto first = std::make_unique<Member>(cluster_, "first");
  ASSERT_TRUE(Until([&] {
    first->Poll();
    return first->ended_.size() == 2;
  }));
  EXPECT_EQ(first->committed_[0], std::nullopt);
  EXPECT_EQ(first->values_[0], Numbers(0, 1000));
  EXPECT_EQ(first->values_[1], Numbers(0, 1000));
  first->consumer_->Commit(0, {.offset = 400, .metadata = "early"});
  first->consumer_->Commit(0, {.offset = 700, .metadata = "rows 12..99"});
  first->consumer_->Commit(17, {.offset = 1, .metadata = "not ours"});
  // (If it cannot say that it leaves, its session runs out.)
  static_cast<void>(first->consumer_->Close());
  EXPECT_THAT(first->revoked_, IsEmpty());

  Member second(cluster_, "second");
  ASSERT_TRUE(Until([&] {
    second.Poll();
    return second.ended_.size() == 2;
  }));
  ASSERT_TRUE(second.committed_[0].has_value());
  EXPECT_EQ(second.committed_[0]->offset, 700);
  EXPECT_EQ(second.committed_[0]->metadata, "rows 12..99");
  EXPECT_EQ(second.committed_[1], std::nullopt);
  EXPECT_EQ(second.values_[0], Numbers(700, 1000));
  EXPECT_EQ(second.values_[1], Numbers(0, 1000));
}

TEST_F(GroupConsumerTest, AHeldPartitionRestsAtOnceAndGoesOnInOrder) {
  Member member(cluster_, "member");
  // From within the handler, in the middle of what was fetched at once.
  member.on_record_ = [&](const ConsumedRecord& record) {
    if (record.partition == 0 && record.offset % 100 == 10) member.Hold(0, true);
  };
  ASSERT_TRUE(Until([&] {
    member.Poll();
    return !member.values_[0].empty() && member.ended_.contains(1);
  }));
  EXPECT_EQ(member.values_[1], Numbers(0, 1000));
  // A partition's records are in one batch, so all have come with the first: nothing is fetched
  // again.
  cluster_.SetDown();
  for (int rest = 0; rest < 10; ++rest) {
    EXPECT_EQ(member.values_[0], Numbers(0, rest * 100 + 11));
    for (int i = 0; i < 3; ++i) member.Poll();
    EXPECT_EQ(member.values_[0], Numbers(0, rest * 100 + 11));
    member.Hold(0, false);
    member.wakeup_.WaitFor(seconds(5));
    member.Poll();
  }
  EXPECT_EQ(member.values_[0], Numbers(0, 1000));
}

TEST_F(GroupConsumerTest, APositionOutsideTheLogIsReportedAndMendedBySeek) {
  Member member(cluster_, "member");
  member.start_ = 5000;
  ASSERT_TRUE(Until([&] {
    member.Poll();
    return member.out_of_range_.size() == 2;
  }));
  EXPECT_THAT(member.values_, IsEmpty());
  const StatusOr<OffsetRange> range = member.consumer_->QueryRange(1, seconds(10));
  ASSERT_TRUE(range.ok()) << range.status();
  EXPECT_EQ(range->end, 1000);
  ASSERT_TRUE(member.consumer_->Seek(1, 990).ok());
  ASSERT_TRUE(Until([&] {
    member.Poll();
    return member.ended_.contains(1);
  }));
  EXPECT_EQ(member.values_[1], Numbers(990, 1000));
  EXPECT_EQ(member.out_of_range_.size(), 2u);
  EXPECT_TRUE(absl::IsNotFound(member.consumer_->Seek(17, 0)));
}

// One Poll may hand out rows that fill a buffer, so that its partition is held, and then say that
// the position is outside the log. Who starts there again knows nothing of the hold.
TEST_F(GroupConsumerTest, APartitionThatIsStartedAgainIsNotHeld) {
  Member member(cluster_, "member");
  member.start_ = 5000;
  ASSERT_TRUE(Until([&] {
    member.Poll();
    return member.out_of_range_.size() == 2;
  }));
  member.Hold(1, true);
  ASSERT_TRUE(member.consumer_->Seek(1, 990).ok());
  member.held_.clear();
  ASSERT_TRUE(Until([&] {
    member.Poll();
    return member.ended_.contains(1);
  }));
  EXPECT_EQ(member.values_[1], Numbers(990, 1000));
}

TEST_F(GroupConsumerTest, AfterAnErrorOfItsHandlerAnAssignmentIsOfferedAgainOrClosed) {
  Member member(cluster_, "member");
  const auto give = member.handler_.on_assigned;
  int refusals = 0;
  member.handler_.on_assigned = [&](int32_t partition, const auto&) -> StatusOr<Offset> {
    ++refusals;
    if (partition == 1) return absl::DataLossError("no room");
    return Offset{0};
  };
  Status status;
  ASSERT_TRUE(Until([&] {
    status = member.consumer_->Poll(1000, member.handler_).status();
    return !status.ok();
  }));
  EXPECT_EQ(status, absl::DataLossError("no room"));
  EXPECT_EQ(refusals, 2);
  EXPECT_THAT(member.values_, IsEmpty());
  EXPECT_FALSE(member.consumer_->Poll(1000, member.handler_).ok());
  EXPECT_EQ(refusals, 4);
  member.handler_.on_assigned = give;
  ASSERT_TRUE(Until([&] {
    member.Poll();
    return member.ended_.size() == 2;
  }));
  EXPECT_EQ(member.values_[0], Numbers(0, 1000));
  EXPECT_EQ(member.values_[1], Numbers(0, 1000));
}

TEST_F(GroupConsumerTest, AMemberWhoseHandlerRefusesItsAssignmentCanBeClosed) {
  Member member(cluster_, "member");
  member.handler_.on_assigned = [&](int32_t, const auto&) {
    return absl::DataLossError("no room");
  };
  ASSERT_TRUE(Until([&] { return !member.consumer_->Poll(1000, member.handler_).ok(); }));
  const Status left = member.consumer_->Close();
  EXPECT_TRUE(left.ok()) << left;
}

// A main thread that hangs; librdkafka's own goes on with heartbeats.
TEST_F(GroupConsumerTest, AMemberThatStallsGivesUpItsPartitionsAndJoinsAgain) {
  Member member(cluster_, "member", 4, 4);
  const auto read_all = [&] {
    member.Poll();
    return member.ended_.size() == 2;
  };
  ASSERT_TRUE(Until(read_all));
  const auto began = std::chrono::steady_clock::now();
  while (member.revoked_.empty() && std::chrono::steady_clock::now() - began < seconds(60)) {
    // It is notified of what has happened to it; only then it polls again.
    member.wakeup_.WaitFor(seconds(60));
    member.Poll();
  }
  EXPECT_GE(std::chrono::steady_clock::now() - began, seconds(3));
  ASSERT_EQ(member.revoked_.size(), 2u);
  EXPECT_TRUE(member.revoked_[0].second);
  EXPECT_TRUE(member.owned_.empty());
  ASSERT_TRUE(Until(read_all));
}

TEST_F(GroupConsumerTest, ALongComputationThatReportsProgressKeepsItsPartitions) {
  Member member(cluster_, "member", 4, 4);
  ASSERT_TRUE(Until([&] {
    member.Poll();
    return member.ended_.size() == 2;
  }));
  // Twice as long as a stall may last.
  const auto end = std::chrono::steady_clock::now() + seconds(8);
  while (std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(milliseconds(50));
    member.consumer_->ReportProgress();
  }
  for (int i = 0; i < 20; ++i) {
    member.wakeup_.WaitFor(milliseconds(20));
    member.Poll();
  }
  EXPECT_THAT(member.revoked_, IsEmpty());
  EXPECT_EQ(member.owned_.size(), 2u);
}

TEST_F(GroupConsumerTest, AMemberThatIsGivenPartitionsAndNeverPollsAgainCanBeClosed) {
  Member member(cluster_, "member");
  bool assigned = false;
  member.handler_.on_assigned = [&](int32_t, const auto&) {
    assigned = true;
    return Offset{0};
  };
  member.wakeup_.WaitFor(seconds(30));  // an assignment has come
  EXPECT_FALSE(assigned);
  EXPECT_TRUE(member.consumer_->Close().ok());
}

// Two members that are stopped together: the second is in the middle of the rebalance that the
// first one's leaving began.
TEST_F(GroupConsumerTest, AMemberThatLeavesInTheMiddleOfARebalanceLeavesCleanly) {
  Member member(cluster_, "member");
  ASSERT_TRUE(Until([&] {
    member.Poll();
    return member.ended_.size() == 2;
  }));
  cluster_.Fail(Request::kCommitOffsets,
                {RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION, RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION});
  member.consumer_->Commit(0, {.offset = 5, .metadata = ""});
  const Status left = member.consumer_->Close();
  EXPECT_TRUE(left.ok()) << left;
}

TEST_F(GroupConsumerTest, ClosingEndsInTimeWhenTheBrokerIsAway) {
  // (librdkafka gives up what it has to commit when the session has run out.)
  Member member(cluster_, "member", 60);
  ASSERT_TRUE(Until([&] {
    member.Poll();
    return member.ended_.size() == 2;
  }));
  member.consumer_->Commit(0, {.offset = 5, .metadata = ""});
  cluster_.SetDown();
  const auto began = std::chrono::steady_clock::now();
  EXPECT_FALSE(member.consumer_->Close().ok());
  member.consumer_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(30));
}

}  // namespace
}  // namespace millrace
