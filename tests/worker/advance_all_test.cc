#include "worker/advance_all.h"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/tasks/worker_task_fixture.h"

namespace millrace {
namespace {

// Workers of one process, whose rows differ.
class SomeWorkers {
 public:
  explicit SomeWorkers(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      WorkerOptions options = OnePass(16);
      options.worker = WorkerId(static_cast<uint32_t>(i));
      options.workers = static_cast<uint32_t>(count);
      tasks_.push_back(std::make_unique<WorkerTask>(options, kTaskShape, model_, i));
      feeds_.push_back(std::make_unique<WorkerFeed>(*tasks_.back()));
      EXPECT_TRUE(feeds_.back()->Assigned(std::nullopt, {0, 0}, nullptr).ok());
      std::vector<OutgoingRecord> ignored;
      feeds_.back()->Started(ignored);
    }
    rows_.resize(count);
    updates_.resize(count);
    rows_end_.resize(count);
  }

  // Some of them get rows, some the answer to their last update.
  void Bring(std::mt19937& random, std::vector<OutgoingRecord>& out) {
    for (size_t i = 0; i < feeds_.size(); ++i) {
      for (auto left = random() % 40; left > 0; --left, ++rows_[i]) {
        const Status taken = feeds_[i]->TakeRows({static_cast<Offset>(rows_[i]), 0,
                                                  EncodeInputKey({RowNumber(rows_[i]), 1}),
                                                  EncodeRow(TaskRow(RowNumber(rows_[i] * 3 + i)))});
        ASSERT_TRUE(taken.ok()) << taken;
      }
      if (random() % 3 == 0) continue;
      Weights answer;
      answer.set_epoch(1);
      answer.set_clock(updates_[i]);
      answer.mutable_rows()->set_end(rows_end_[i]);
      answer.set_released(true);
      std::vector<float> weights(10);
      for (float& weight : weights) weight = 0.01f * static_cast<float>(random() % 100);
      EncodeDenseSlice(weights, {0, 10}, *answer.mutable_slice());
      ToProto(Moments(1), *answer.mutable_moments());
      for (const std::string& frame : MakeFrames(answer.SerializeAsString(), answer.clock())) {
        feeds_[i]->TakeWeights(0, EncodeBigEndian32(0) + EncodeBigEndian32(0), frame, out);
      }
    }
  }

  // What a server knows of them then.
  void Note(const std::vector<OutgoingRecord>& out) {
    for (const OutgoingRecord& record : out) {
      ChunkJoiner joiner;
      const std::optional<std::string> body = *joiner.Add(0, *ParseFrame(record.value));
      Gradient message;
      ASSERT_TRUE(body && message.ParseFromString(*body));
      if (!message.has_update() || message.clock() != updates_[message.worker()]) continue;
      ++updates_[message.worker()];
      rows_end_[message.worker()] = message.update().rows_end();
    }
  }
  uint64_t updates() const {
    return std::accumulate(updates_.begin(), updates_.end(), uint64_t{0});
  }

  std::vector<WorkerFeed*> feeds() const {
    std::vector<WorkerFeed*> feeds;
    for (const auto& feed : feeds_) feeds.push_back(feed.get());
    return feeds;
  }

 private:
  const SoftmaxRegression model_{4, 2};
  std::vector<std::unique_ptr<WorkerTask>> tasks_;
  std::vector<std::unique_ptr<WorkerFeed>> feeds_;
  std::vector<uint64_t> rows_;
  std::vector<uint64_t> updates_;
  std::vector<uint64_t> rows_end_;
};

std::vector<std::string> TextsOf(const std::vector<OutgoingRecord>& records) {
  std::vector<std::string> texts;
  for (const OutgoingRecord& record : records) {
    texts.push_back(std::to_string(record.partition) + "/" + record.key + "/" + record.value);
  }
  return texts;
}

TEST(AdvanceAll, SendsTheBytesOfOneWorkerAfterTheOther) {
  constexpr size_t kWorkers = 5;
  SomeWorkers side_by_side(kWorkers);
  SomeWorkers in_turn(kWorkers);
  SideBySide threads(3);
  std::mt19937 random(1);
  for (int round = 0; round < 100; ++round) {
    std::vector<OutgoingRecord> ours;
    std::vector<OutgoingRecord> theirs;
    std::mt19937 again = random;
    side_by_side.Bring(random, ours);
    in_turn.Bring(again, theirs);
    size_t own = 0;
    const StatusOr<std::vector<bool>> advanced =
        AdvanceAll(side_by_side.feeds(), threads, ours, [&] { ++own; });
    ASSERT_TRUE(advanced.ok()) << advanced.status();
    EXPECT_LE(own, kWorkers);
    std::vector<bool> expected;
    for (WorkerFeed* const feed : in_turn.feeds()) {
      const StatusOr<bool> one = feed->Advance(theirs);
      ASSERT_TRUE(one.ok()) << one.status();
      expected.push_back(*one);
    }
    EXPECT_EQ(*advanced, expected);
    ASSERT_EQ(TextsOf(ours), TextsOf(theirs)) << round;
    side_by_side.Note(ours);
    in_turn.Note(theirs);
  }
  EXPECT_GT(side_by_side.updates(), 100U);
}

TEST(AdvanceAll, SaysWhoHasAdvanced) {
  SomeWorkers workers(3);
  const std::vector<WorkerFeed*> feeds = workers.feeds();
  ASSERT_TRUE(
      feeds[0]
          ->TakeRows({0, 0, EncodeInputKey({RowNumber(0), 1}), EncodeRow(TaskRow(RowNumber(0)))})
          .ok());
  SideBySide threads(2);
  std::vector<OutgoingRecord> out;
  const StatusOr<std::vector<bool>> advanced = AdvanceAll(feeds, threads, out, nullptr);
  ASSERT_TRUE(advanced.ok());
  EXPECT_EQ(*advanced, (std::vector<bool>{true, false, false}));
}

}  // namespace
}  // namespace millrace
