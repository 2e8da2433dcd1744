// What a member reads, when worlds change faster than a coordinator answers.
#include "members/member_rows.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "models/softmax_regression.h"
#include "topics/row_codec.h"

namespace millrace {
namespace {

// Three workers with a numeric column.
constexpr WorkerId kRowWorkers = 3;
constexpr RowShape kMemberRowShape = {.numeric = 1, .features = 2, .classes = 2};

// A broker with rows of one-row records, and a coordinator that may be away.
struct FakeTopic {
  Offset begin = 0;
  Offset end = 5;  // of each partition
  bool coordinator_is_away = false;
  std::map<int32_t, GroupConsumer::Committed> committed{};
  std::vector<int32_t> deleted_under{};  // readers hear that they are out of range
};

// As the one that reads without joining: what Read wants starts when the coordinator has answered,
// also if it is not wanted any more by then.
class FakeRows final : public GroupConsumer {
 public:
  explicit FakeRows(FakeTopic& topic) : topic_(topic) {}

  StatusOr<size_t> Poll(size_t, const Handler& handler) override {
    if (wanted_ && pending_.empty()) MILLRACE_RETURN_IF_ERROR(TakeWanted(handler));
    if (!pending_.empty() && !topic_.coordinator_is_away) {
      MILLRACE_RETURN_IF_ERROR(StartPending(handler));
    }
    for (const int32_t partition : std::exchange(topic_.deleted_under, {})) {
      MILLRACE_RETURN_IF_ERROR(handler.on_out_of_range(partition));
    }
    size_t events = 0;
    for (auto& [partition, next] : reads_) {
      for (; next < topic_.end; ++next, ++events) {
        const RowNumber row(int64_t{next});
        MILLRACE_RETURN_IF_ERROR(handler.on_record({.partition = partition,
                                                    .offset = next,
                                                    .key = EncodeInputKey({row, 1}),
                                                    .value = EncodeRow({0, {1.0}, {}, {}})}));
      }
    }
    return events;
  }
  void Read(std::set<int32_t> partitions) override { wanted_ = std::move(partitions); }
  void Hold(int32_t, bool) override {}
  void ReportProgress() override {}
  Status Seek(int32_t partition, Offset offset) override {
    if (!reads_.contains(partition)) return absl::NotFoundError("not assigned");
    reads_[partition] = offset;
    return absl::OkStatus();
  }
  StatusOr<OffsetRange> QueryRange(int32_t, std::chrono::milliseconds) override {
    return OffsetRange{topic_.begin, topic_.end};
  }
  void Commit(int32_t partition, const Committed& position) override { due_[partition] = position; }
  void DropCommits() override { due_.clear(); }
  bool is_member() const override { return true; }
  Status Close() override {
    for (const auto& [partition, position] : due_) topic_.committed[partition] = position;
    return absl::OkStatus();
  }

 private:
  Status TakeWanted(const Handler& handler) {
    const std::set<int32_t> wanted = *std::exchange(wanted_, std::nullopt);
    std::set<int32_t> gone;
    for (const auto& [partition, next] : reads_) {
      if (!wanted.contains(partition)) gone.insert(partition);
    }
    for (const int32_t partition : gone) {
      MILLRACE_RETURN_IF_ERROR(handler.on_revoked(partition, false));
      reads_.erase(partition);
    }
    for (const int32_t partition : wanted) {
      if (!reads_.contains(partition)) pending_.insert(partition);
    }
    return absl::OkStatus();
  }
  Status StartPending(const Handler& handler) {
    std::map<int32_t, Offset> starts;
    for (const int32_t partition : pending_) {
      std::optional<Committed> committed;
      const auto found = topic_.committed.find(partition);
      if (found != topic_.committed.end()) committed = found->second;
      MILLRACE_ASSIGN_OR_RETURN(starts[partition], handler.on_assigned(partition, committed));
    }
    pending_.clear();
    reads_.merge(starts);
    return absl::OkStatus();
  }

  FakeTopic& topic_;
  std::optional<std::set<int32_t>> wanted_;
  std::set<int32_t> pending_;
  std::map<int32_t, Offset> reads_;
  std::map<int32_t, Committed> due_;
};

class FakeRanges final : public PartitionConsumer {
 public:
  explicit FakeRanges(FakeTopic& topic) : topic_(topic) {}
  StatusOr<Range> QueryRange(int32_t, std::chrono::milliseconds) override {
    return Range{topic_.begin, topic_.end};
  }
  Status Assign(int32_t, Offset) override { return absl::OkStatus(); }
  Status Unassign(int32_t) override { return absl::OkStatus(); }
  void Hold(int32_t, bool) override {}
  StatusOr<size_t> Poll(size_t, const ConsumerHandler&) override { return size_t{0}; }

 private:
  FakeTopic& topic_;
};

class NoAdmin final : public KafkaAdmin {
 public:
  Status WaitForBroker(const std::function<bool()>&) override { return absl::OkStatus(); }
  Status EnsureTopics(const std::vector<TopicSettings>&, int) override { return absl::OkStatus(); }
  StatusOr<int32_t> PartitionCount(const std::string&) override { return int32_t{kRowWorkers}; }
  StatusOr<std::vector<std::string>> ListTopics() override { return std::vector<std::string>(); }
  Status DeleteRecordsBefore(const std::string&, int32_t, Offset,
                             std::chrono::milliseconds) override {
    return absl::OkStatus();
  }
  Status DeleteTopics(const std::vector<std::string>&, std::chrono::milliseconds) override {
    return absl::OkStatus();
  }
};

class MemberRowsTest : public testing::Test {
 protected:
  MemberRowsTest() : task_(SetupOf()) {
    MemberRows::Clients clients;
    clients.rows = std::make_unique<FakeRows>(topic_);
    clients.ranges = std::make_unique<FakeRanges>(topic_);
    clients.admin = std::make_unique<NoAdmin>();
    rows_.emplace("job", std::move(clients), task_, retry_, [] {});
  }

  MemberTask::Setup SetupOf() const {
    MemberTask::Setup setup;
    setup.server.range = {0, model_.parameter_count()};
    setup.server.workers = kRowWorkers;
    setup.server.numeric_columns = 1;
    setup.worker = [](WorkerId worker) {
      WorkerOptions options;
      options.worker = worker;
      options.workers = kRowWorkers;
      options.training.set_batch_rows(1);
      options.numeric_columns = 1;
      return options;
    };
    setup.shape = kMemberRowShape;
    setup.model = &model_;
    return setup;
  }

  // The next world, in which this member has the position among so many.
  void Begin(uint32_t position, uint32_t members) {
    const StatusOr<std::set<WorkerId>> mine = task_.Begin(position, members);
    ASSERT_TRUE(mine.ok()) << mine.status();
    rows_->Read(*mine);
  }
  void Poll() {
    const StatusOr<size_t> events = rows_->Poll();
    ASSERT_TRUE(events.ok()) << events.status();
  }

  void FinishARound() {
    auto round = task_.ReadRound(std::vector{task_.News()});
    ASSERT_TRUE(round.ok() && *round);
    std::vector<float> sum(task_.value_count());
    for (const WorkerId worker : (*round)->summed) {
      const std::span<const float> values = task_.ValuesOf(worker);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
    }
    ASSERT_TRUE(task_.FinishRound(**std::move(round), sum).ok());
  }

  void CommitOneRow() {
    const MemberTask::Positions position = {0, {1, 1, 1}, std::nullopt};
    rows_->Commit({position});
  }

  const SoftmaxRegression model_{2, 2};
  FakeTopic topic_;
  std::atomic<bool> stop_ = false;
  const BrokerRetry retry_{stop_, 1};
  MemberTask task_;
  std::optional<MemberRows> rows_;
};

TEST_F(MemberRowsTest, EveryWorkerContributesWhenItsRowsAreRead) {
  Begin(0, 1);
  Poll();
  EXPECT_TRUE(task_.ready());
}

TEST_F(MemberRowsTest, AWorkerThatIsHostedNoMoreIsNotStartedWhenTheCoordinatorAnswersLate) {
  topic_.coordinator_is_away = true;
  Begin(0, 1);
  Poll();
  Begin(1, 3);
  Poll();
  topic_.coordinator_is_away = false;
  Poll();
  Poll();
  EXPECT_EQ(task_.feed(0), nullptr);
  EXPECT_EQ(task_.feed(2), nullptr);
  EXPECT_NE(task_.feed(1), nullptr);
  EXPECT_TRUE(task_.ready());
}

TEST_F(MemberRowsTest, AWorkerThatComesBackBeforeTheCoordinatorAnswersIsStarted) {
  topic_.coordinator_is_away = true;
  Begin(0, 1);
  Poll();
  Begin(1, 3);
  topic_.coordinator_is_away = false;
  Poll();
  Begin(0, 1);
  Poll();
  Poll();
  EXPECT_TRUE(task_.ready());
}

TEST_F(MemberRowsTest, AWorkerThatComesBackBeforeItsRowsAreLetGoIsReadAgain) {
  Begin(0, 1);
  Poll();
  Begin(1, 3);
  Begin(0, 1);
  Poll();
  Poll();
  EXPECT_TRUE(task_.ready());
}

TEST_F(MemberRowsTest, ATopicThatWasRecreatedUnderTheReaderEndsTheJob) {
  Begin(0, 1);
  Poll();
  topic_.end = 1;
  topic_.deleted_under = {0};
  const Status status = rows_->Poll().status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
}

TEST_F(MemberRowsTest, RowsThatAnotherHostHasDeletedAreReadFromTheFirstThatIsThere) {
  Begin(0, 1);
  Poll();
  topic_.begin = 3;
  topic_.deleted_under = {0};
  Poll();
  EXPECT_NE(task_.feed(0), nullptr);
}

TEST_F(MemberRowsTest, CommitsOfALaterStateThanThereIsAreIgnoredWhileAllRowsAreThere) {
  topic_.committed[0] = {2, "row=2 clock=2"};
  Begin(0, 1);
  Poll();
  EXPECT_TRUE(task_.ready());
}

TEST_F(MemberRowsTest, CommitsOfALaterStateThanThereIsAreAnErrorWhenRowsWereDeleted) {
  topic_.committed[0] = {2, "row=2 clock=2"};
  topic_.begin = 1;
  Begin(0, 1);
  const Status status = rows_->Poll().status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
}

TEST_F(MemberRowsTest, AWorkerThatWasLetGoAndComesBackWaitsForTheCoordinator) {
  Begin(0, 1);
  Poll();
  Begin(1, 3);
  Poll();
  topic_.coordinator_is_away = true;
  Begin(0, 1);
  Poll();
  EXPECT_EQ(task_.feed(0), nullptr);
  topic_.coordinator_is_away = false;
  Poll();
  Poll();
  EXPECT_TRUE(task_.ready());
}

TEST_F(MemberRowsTest, PositionsOfADurableCheckpointAreCommittedThoughTheNextOneBegins) {
  Begin(0, 1);
  Poll();
  MemberNews zero;
  zero.set_begins_checkpoint(true);
  EXPECT_TRUE(task_.FollowCheckpoints(zero).empty());
  FinishARound();
  zero.set_durable(1);
  EXPECT_EQ(task_.FollowCheckpoints(zero).size(), kRowWorkers);
}

TEST_F(MemberRowsTest, AMemberThatIsTakenForDeadCommitsNothingWhenItCloses) {
  Begin(0, 1);
  Poll();
  CommitOneRow();
  EXPECT_TRUE(rows_->Close(false).ok());
  EXPECT_TRUE(topic_.committed.empty());
}

TEST_F(MemberRowsTest, AMemberThatStopsCommitsWhatItWasGiven) {
  Begin(0, 1);
  Poll();
  CommitOneRow();
  EXPECT_TRUE(rows_->Close(true).ok());
  EXPECT_EQ(topic_.committed.at(0).offset, 1);
}

}  // namespace
}  // namespace millrace
