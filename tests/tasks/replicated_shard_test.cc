// A replica of a job's shard: rounds, states that travel, checkpoints.
#include "tasks/replicated_shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/big_endian.h"
#include "stores/memory_byte_map.h"
#include "tasks/shard_task.h"
#include "tasks/summed_update.h"
#include "topics/slice_codec.h"

namespace millrace {
namespace {

constexpr KeyRange kThreeKeys = {0, 3};

ServerOptions TwoWorkers() {
  ServerOptions options;
  options.range = kThreeKeys;
  options.workers = 2;
  options.optimizer.learning_rate = 0.5;
  return options;
}

Gradient UpdateOf(WorkerId worker, Clock clock, const std::vector<float>& values) {
  Gradient message;
  message.set_epoch(1);
  message.set_worker(worker);
  message.set_clock(clock);
  Gradient::Update& update = *message.mutable_update();
  update.set_row_count(2);
  update.set_weight_sum(2);
  update.set_rows_end(2 * (clock + 1));
  EncodeDenseSlice(values, kThreeKeys, *update.mutable_slice());
  return message;
}

Gradient LeaveOf(WorkerId worker, Clock clock) {
  Gradient message;
  message.set_epoch(1);
  message.set_worker(worker);
  message.set_clock(clock);
  message.mutable_leave();
  return message;
}

// As members say and sum them.
Status FoldMessages(ReplicatedShard& shard, const std::vector<Gradient>& messages) {
  ReplicatedShard::Round round;
  std::vector<float> sum(kThreeKeys.size(), 0.0f);
  for (const Gradient& message : messages) {
    SplitMessage split = SplitUpdate(message, kThreeKeys);
    for (size_t i = 0; i < split.values.size(); ++i) sum[i] += split.values[i];
    if (!split.values.empty()) round.summed.push_back(WorkerId(message.worker()));
    round.messages.push_back(std::move(split.rest));
  }
  return shard.Fold(std::move(round), sum);
}

std::vector<float> WeightsOf(const ReplicatedShard& shard) {
  const std::span<const float> weights = shard.processor().shard().weights();
  return {weights.begin(), weights.end()};
}

// What a server makes of the same messages.
std::vector<float> WeightsOfAServer(const std::vector<Gradient>& messages) {
  ServerProcessor server(TwoWorkers(), nullptr);
  ServerOutput output;
  for (const Gradient& message : messages) {
    const std::string key = EncodeBigEndian32(message.worker());
    const std::string value = WholeFrameHeader() + message.SerializeAsString();
    GradientRecord record;
    record.key = key;
    record.value = value;
    EXPECT_EQ(server.Process(record, output), absl::OkStatus());
  }
  return {server.shard().weights().begin(), server.shard().weights().end()};
}

void Save(const Checkpoint& checkpoint, MemoryByteMap& store) {
  WriteBatch batch;
  for (const Checkpoint::Entry& entry : checkpoint.entries) batch.Put(entry.key, entry.value);
  ASSERT_EQ(store.Write(batch), absl::OkStatus());
}

TEST(ReplicatedShard, HasTheWeightsOfAServer) {
  const std::vector<Gradient> messages = {
      UpdateOf(0, 0, {0.1f, 0.7f, -3}), UpdateOf(1, 0, {1e-8f, 0.3f, 3}),
      UpdateOf(0, 1, {5, 0.01f, 1}), UpdateOf(1, 1, {0.2f, -0.7f, 1e8f})};
  ReplicatedShard shard(TwoWorkers());
  EXPECT_EQ(FoldMessages(shard, {messages[0], messages[1]}), absl::OkStatus());
  EXPECT_EQ(FoldMessages(shard, {messages[2], messages[3]}), absl::OkStatus());
  EXPECT_EQ(WeightsOf(shard), WeightsOfAServer(messages));
  EXPECT_EQ(shard.progress(), 4u);
}

TEST(ReplicatedShard, GoesOnWithoutAWorkerThatHasLeft) {
  ReplicatedShard shard(TwoWorkers());
  EXPECT_EQ(FoldMessages(shard, {LeaveOf(0, 0), UpdateOf(1, 0, {1, 1, 1})}), absl::OkStatus());
  EXPECT_EQ(FoldMessages(shard, {UpdateOf(1, 1, {1, 1, 1})}), absl::OkStatus());
  EXPECT_EQ(FoldMessages(shard, {LeaveOf(1, 2)}), absl::OkStatus());
  EXPECT_TRUE(shard.processor().AllLeft());
  EXPECT_EQ(shard.progress(), 4u);
}

TEST(ReplicatedShard, RefusesAMessageOfAnotherRound) {
  ReplicatedShard shard(TwoWorkers());
  const Status status = FoldMessages(shard, {UpdateOf(0, 0, {1, 1, 1}), UpdateOf(1, 7, {1, 1, 1})});
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
}

TEST(ReplicatedShard, DropsAnUpdateThatIsNotFiniteAndKeepsADeadLetter) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<Gradient> messages = {UpdateOf(0, 0, {nan, 0, 0}), UpdateOf(1, 0, {1, 2, 3})};
  ReplicatedShard shard(TwoWorkers());
  EXPECT_EQ(FoldMessages(shard, messages), absl::OkStatus());
  EXPECT_EQ(WeightsOf(shard), WeightsOfAServer(messages));
  EXPECT_THAT(shard.MakeCheckpoint()->dead_letters, testing::SizeIs(1));
  shard.CheckpointDurable(1);  // one that began before
  EXPECT_THAT(shard.MakeCheckpoint()->dead_letters, testing::SizeIs(1));
  shard.CheckpointDurable(2);
  EXPECT_THAT(shard.MakeCheckpoint()->dead_letters, testing::IsEmpty());
}

// The first of a round carries the sum; refused, it must not take the others' values with it.
TEST(ReplicatedShard, DropsOnlyTheUpdateWhoseFiguresAreNoGood) {
  for (const size_t bad : {0u, 1u}) {
    std::vector<Gradient> messages = {UpdateOf(0, 0, {1, 2, 3}), UpdateOf(1, 0, {4, 5, 6})};
    messages[bad].mutable_update()->set_weight_sum(-1);
    ReplicatedShard shard(TwoWorkers());
    EXPECT_EQ(FoldMessages(shard, messages), absl::OkStatus());
    EXPECT_EQ(WeightsOf(shard), WeightsOfAServer(messages));
    EXPECT_EQ(shard.processor().counters().non_finite_updates(), 1u);
  }
}

TEST(ReplicatedShard, TakesASumBeyondTheBoundOfItsSummands) {
  const std::vector<Gradient> messages = {UpdateOf(0, 0, {9e17f, 2, 3}),
                                          UpdateOf(1, 0, {9e17f, 5, 6})};
  ReplicatedShard shard(TwoWorkers());
  EXPECT_EQ(FoldMessages(shard, messages), absl::OkStatus());
  EXPECT_EQ(WeightsOf(shard), WeightsOfAServer(messages));
  EXPECT_EQ(shard.processor().counters().non_finite_updates(), 0u);
}

TEST(ReplicatedShard, TakesTheStateOfOneThatIsFurtherWithItsDeadLetters) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  ReplicatedShard further(TwoWorkers());
  ASSERT_EQ(FoldMessages(further, {UpdateOf(0, 0, {nan, 0, 0}), UpdateOf(1, 0, {1, 2, 3})}),
            absl::OkStatus());
  ReplicatedShard newcomer(TwoWorkers());
  ASSERT_EQ(newcomer.TakeImage(*further.EncodeImage()), absl::OkStatus());
  EXPECT_EQ(newcomer.progress(), 2u);
  EXPECT_EQ(newcomer.EncodeImage(), further.EncodeImage());
  EXPECT_THAT(newcomer.MakeCheckpoint()->dead_letters, testing::SizeIs(1));
  // Both go on alike.
  for (ReplicatedShard* shard : {&further, &newcomer}) {
    ASSERT_EQ(FoldMessages(*shard, {UpdateOf(0, 1, {3, 0, 0}), UpdateOf(1, 1, {1, 2, 3})}),
              absl::OkStatus());
  }
  EXPECT_EQ(newcomer.EncodeImage(), further.EncodeImage());
}

TEST(ReplicatedShard, TakesNoDeadLettersThatItKnowsToBeWritten) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  ReplicatedShard further(TwoWorkers());
  ReplicatedShard knows(TwoWorkers());
  for (ReplicatedShard* shard : {&further, &knows}) {
    ASSERT_EQ(FoldMessages(*shard, {UpdateOf(0, 0, {nan, 0, 0}), UpdateOf(1, 0, {1, 2, 3})}),
              absl::OkStatus());
  }
  knows.CheckpointDurable(2);
  ASSERT_EQ(FoldMessages(further, {UpdateOf(0, 1, {1, nan, 0}), UpdateOf(1, 1, {1, 2, 3})}),
            absl::OkStatus());
  ASSERT_EQ(knows.TakeImage(*further.EncodeImage()), absl::OkStatus());
  EXPECT_EQ(knows.progress(), 4u);
  EXPECT_THAT(knows.MakeCheckpoint()->dead_letters, testing::SizeIs(1));
}

TEST(ReplicatedShard, KeepsItsStateWhenAnotherIsNotFurther) {
  ReplicatedShard shard(TwoWorkers());
  const std::string before = *shard.EncodeImage();
  ASSERT_EQ(FoldMessages(shard, {UpdateOf(0, 0, {1, 0, 0}), UpdateOf(1, 0, {1, 2, 3})}),
            absl::OkStatus());
  const std::string after = *shard.EncodeImage();
  EXPECT_EQ(shard.TakeImage(before), absl::OkStatus());
  EXPECT_EQ(*shard.EncodeImage(), after);
  EXPECT_TRUE(absl::IsDataLoss(shard.TakeImage("no image")));
  EXPECT_TRUE(absl::IsDataLoss(shard.TakeImage("short")));
  EXPECT_TRUE(absl::IsDataLoss(shard.TakeImage(after.substr(0, after.size() - 1))));
  EXPECT_EQ(*shard.EncodeImage(), after);
}

TEST(ReplicatedShard, GoesOnFromTheLastCheckpoint) {
  ReplicatedShard shard(TwoWorkers());
  ASSERT_EQ(FoldMessages(shard, {UpdateOf(0, 0, {1, 0, 0}), UpdateOf(1, 0, {1, 2, 3})}),
            absl::OkStatus());
  MemoryByteMap parameters;
  ReplicatedShard later(TwoWorkers());
  EXPECT_EQ(later.LoadIfFurther(parameters).value(), 0u);  // there is none
  EXPECT_EQ(later.progress(), 0u);
  Save(*shard.MakeCheckpoint(), parameters);
  EXPECT_EQ(later.LoadIfFurther(parameters).value(), 2u);
  EXPECT_EQ(later.EncodeImage(), shard.EncodeImage());
  ASSERT_EQ(FoldMessages(shard, {UpdateOf(0, 1, {1, 0, 0}), UpdateOf(1, 1, {1, 2, 3})}),
            absl::OkStatus());
  const std::string after = *shard.EncodeImage();
  EXPECT_EQ(shard.LoadIfFurther(parameters).value(), 2u);
  EXPECT_EQ(*shard.EncodeImage(), after);
}

TEST(ReplicatedShard, LeavesACheckpointThatAServerGoesOnFrom) {
  ReplicatedShard shard(TwoWorkers());
  ASSERT_EQ(FoldMessages(shard, {UpdateOf(0, 0, {1, 0, 0}), UpdateOf(1, 0, {1, 2, 3})}),
            absl::OkStatus());
  MemoryByteMap store;
  Save(*shard.MakeCheckpoint(), store);
  ShardTask server(TwoWorkers(), store);
  ASSERT_EQ(server.Load(), absl::OkStatus());
  EXPECT_TRUE(server.has_state());
  ASSERT_EQ(server.StartReplay(0, 0), absl::OkStatus());  // no update is in `gradients`
  EXPECT_TRUE(server.replayed());
  const std::span<const float> weights = server.processor().shard().weights();
  EXPECT_THAT(WeightsOf(shard), testing::ElementsAreArray(weights));
}

}  // namespace
}  // namespace millrace
