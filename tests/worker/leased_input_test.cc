// The rows that are leased to the workers of a process, from several partitions.
#include "worker/leased_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/kafka/mock_cluster.h"
#include "tests/kafka/until.h"
#include "topics/topics.h"

namespace millrace {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

// What a worker is to read, and what it has got: records, by partition and offset.
struct ReadingWorker {
  using Place = std::pair<int32_t, int64_t>;
  struct Range {
    int32_t partition;
    int64_t begin;
    int64_t end;
  };
  std::vector<Range> leases;
  size_t lease = 0;
  int64_t next = -1;  // in the lease; -1: not begun
  size_t room = 1'000'000;
  std::vector<Place> got;

  std::optional<LeaseReader::Wish> Wish(WorkerId worker) const {
    if (lease == leases.size() || got.size() >= room) return std::nullopt;
    const Range& range = leases[lease];
    return LeaseReader::Wish{worker, lease, static_cast<uint32_t>(range.partition),
                             Offset(next < 0 ? range.begin : next)};
  }
  void Take(int32_t partition, int64_t offset) {
    got.emplace_back(partition, offset);
    next = offset + 1;
    if (next < leases[lease].end) return;
    ++lease;
    next = -1;
  }
  std::vector<Place> Wanted() const {
    std::vector<Place> wanted;
    for (const Range& range : leases) {
      for (int64_t offset = range.begin; offset < range.end; ++offset) {
        wanted.emplace_back(range.partition, offset);
      }
    }
    return wanted;
  }
};

class LeasedInputTest : public testing::Test {
 protected:
  LeasedInputTest() {
    config_.set_name("leased");
    config_.set_brokers(cluster_.options().brokers);
    config_.set_workers(2);
    cluster_.CreateTopic(TopicName("leased", Topic::kInputData), 2);
    for (const int32_t partition : {0, 1}) {
      ProduceNumbers(cluster_.options(), TopicName("leased", Topic::kInputData), partition, 0, 300);
    }
    handler_.wish_of = [this](WorkerId worker) { return workers_.at(worker).Wish(worker); };
    handler_.wishes = [this] {
      std::vector<LeaseReader::Wish> wishes;
      for (const auto& [number, worker] : workers_) {
        if (const auto wish = worker.Wish(number)) wishes.push_back(*wish);
      }
      return wishes;
    };
    handler_.on_record = [this](WorkerId worker, const InputDataRecord& record) {
      const auto partition =
          static_cast<int32_t>(workers_.at(worker).Wish(worker).value().partition);
      EXPECT_EQ(record.value, std::to_string(record.offset));
      workers_.at(worker).Take(partition, record.offset);
      return absl::OkStatus();
    };
    handler_.range_of = [this](int32_t) -> StatusOr<OffsetRange> { return range_; };
  }

  void Open(std::chrono::milliseconds patience = LeasedInput::kPatience) {
    auto input = LeasedInput::Create(config_, &wakeup_, patience);
    ASSERT_TRUE(input.ok()) << input.status();
    input_ = *std::move(input);
  }
  bool PollUntil(const std::function<bool()>& done) {
    return Until([&] {
      const StatusOr<size_t> events = input_->Poll(100, handler_);
      EXPECT_TRUE(events.ok()) << events.status();
      return done();
    });
  }

  MockCluster cluster_;
  JobConfig config_;
  Wakeup wakeup_;
  std::map<WorkerId, ReadingWorker> workers_;
  OffsetRange range_{0, 300};
  LeasedInput::Handler handler_;
  std::unique_ptr<LeasedInput> input_;
};

TEST_F(LeasedInputTest, EachWorkerGetsTheRecordsOfItsLeasesInTheirOrder) {
  workers_[0].leases = {{0, 0, 50}, {1, 100, 150}, {0, 50, 60}, {0, 280, 300}, {1, 0, 5}};
  workers_[1].leases = {{0, 60, 80}, {0, 10, 11}, {1, 150, 300}};
  Open();
  ASSERT_TRUE(PollUntil([&] {
    return workers_[0].Wish(WorkerId(0)) == std::nullopt &&
           workers_[1].Wish(WorkerId(1)) == std::nullopt;
  }));
  for (const auto& [number, worker] : workers_) {
    EXPECT_THAT(worker.got, ElementsAreArray(worker.Wanted())) << number;
  }
}

TEST_F(LeasedInputTest, AWorkerThatHasEnoughWaitsAndTheOthersDoNot) {
  workers_[0].leases = {{0, 0, 100}};
  workers_[0].room = 10;
  workers_[1].leases = {{0, 100, 200}, {1, 0, 300}};
  Open();
  ASSERT_TRUE(PollUntil([&] { return workers_[1].got.size() == 400; }));
  EXPECT_EQ(workers_[0].got.size(), 10u);
  workers_[0].room = 1000;
  ASSERT_TRUE(PollUntil([&] { return workers_[0].got.size() == 100; }));
  EXPECT_THAT(workers_[0].got, ElementsAreArray(workers_[0].Wanted()));
}

TEST_F(LeasedInputTest, RowsThatAreGoneAreWaitedForUntilThePlanSaysMore) {
  workers_[0].leases = {{0, 400, 500}};
  range_ = {450, 600};  // (the mock cluster deletes nothing)
  Open();
  EXPECT_FALSE(Until(
      [&] {
        EXPECT_TRUE(input_->Poll(100, handler_).ok());
        return !workers_[0].got.empty();
      },
      std::chrono::milliseconds(300)));
  // Another instance of it is further.
  workers_[0].leases = {{0, 200, 300}};
  ASSERT_TRUE(PollUntil([&] { return workers_[0].got.size() == 100; }));
}

TEST_F(LeasedInputTest, RowsOfAnotherLeaseThatAreGoneAreWaitedForAsLong) {
  workers_[0].leases = {{0, 400, 500}};
  range_ = {450, 600};
  Open(std::chrono::milliseconds(1500));
  const auto poll_for = [&](std::chrono::milliseconds time) {
    Status status;
    (void)Until([&] { return !(status = input_->Poll(100, handler_).status()).ok(); }, time);
    return status;
  };
  EXPECT_EQ(poll_for(std::chrono::milliseconds(1000)), absl::OkStatus());
  workers_[0].leases.push_back({0, 420, 500});
  workers_[0].lease = 1;
  EXPECT_EQ(poll_for(std::chrono::milliseconds(1000)), absl::OkStatus()) << "a second loss";
  EXPECT_TRUE(absl::IsDataLoss(poll_for(std::chrono::seconds(20))));
}

TEST_F(LeasedInputTest, ATopicThatEndsBeforeALeaseIsAnErrorThatNamesThePlace) {
  workers_[0].leases = {{1, 400, 500}};
  Open();
  Status status;
  ASSERT_TRUE(Until([&] {
    status = input_->Poll(100, handler_).status();
    return !status.ok();
  }));
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("partition 1 has offsets 0 to 300, but rows at offset 400"));
}

}  // namespace
}  // namespace millrace
