#include "stores/parameter_shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/big_endian.h"
#include "messages/records.pb.h"
#include "stores/memory_byte_map.h"
#include "topics/frame.h"

namespace millrace {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr uint64_t kBlock = ParameterShard::kBlockKeys;
// Two blocks, the second one short; and a begin that no block's size divides.
constexpr KeyRange kRange = {100, 100 + kBlock + 10};
constexpr size_t kSlots = 2;

ParameterShard SomeShard() {
  ParameterShard shard(kRange, kSlots, /*keeps_previous_round=*/true);
  float next = 1;
  for (float& weight : shard.mutable_weights()) weight = next++;
  shard.KeepPreviousRound();
  for (float& weight : shard.mutable_weights()) weight = -next++;
  for (float& slot : shard.mutable_slots()) slot = next++;
  return shard;
}

ParameterShard EmptyShard() { return {kRange, kSlots, /*keeps_previous_round=*/true}; }

std::string BlockKey(uint64_t begin) { return "p" + EncodeBigEndian64(begin); }

// A block of so many keys, as LoadBlock takes it where the place is right.
ParameterBlock BlockOf(uint64_t begin, size_t keys) {
  ParameterBlock block;
  block.set_begin(begin);
  block.mutable_weights()->Resize(static_cast<int>(keys), 7.0f);
  block.mutable_slots()->Resize(static_cast<int>(keys * kSlots), 7.0f);
  block.mutable_previous_round()->Resize(static_cast<int>(keys), 7.0f);
  return block;
}

Status Load(ParameterShard& shard, const ParameterBlock& block, uint64_t key) {
  return shard.LoadBlock(BlockKey(key), MakeFrames(block.SerializeAsString(), 0).front());
}

TEST(ParameterShard, ItsBlocksAreTheWholeShard) {
  const ParameterShard saved = SomeShard();
  ASSERT_EQ(saved.block_count(), 2u);
  ParameterShard loaded = EmptyShard();
  for (size_t block : {1, 0}) {
    const ParameterShard::Encoded encoded = saved.EncodeBlock(block);
    EXPECT_EQ(encoded.key, BlockKey(kRange.begin + block * kBlock));
    ASSERT_TRUE(loaded.LoadBlock(encoded.key, encoded.value).ok());
  }
  EXPECT_THAT(loaded.weights(), ElementsAreArray(saved.weights()));
  EXPECT_THAT(loaded.slots(), ElementsAreArray(saved.slots()));
  EXPECT_THAT(loaded.previous_round(), ElementsAreArray(saved.previous_round()));
}

TEST(ParameterShard, ABlockChangesItsOwnKeysOnly) {
  const ParameterShard saved = SomeShard();
  ParameterShard loaded = EmptyShard();
  const ParameterShard::Encoded encoded = saved.EncodeBlock(1);
  ASSERT_TRUE(loaded.LoadBlock(encoded.key, encoded.value).ok());
  EXPECT_THAT(loaded.weights().first(kBlock), Each(0.0f));
  EXPECT_THAT(loaded.weights().subspan(kBlock), ElementsAreArray(saved.weights().subspan(kBlock)));
  EXPECT_THAT(loaded.previous_round().first(kBlock), Each(0.0f));
  for (size_t slot = 0; slot < kSlots; ++slot) {
    const auto of_slot = [slot](const ParameterShard& shard) {
      return shard.slots().subspan(slot * kRange.size(), kRange.size());
    };
    EXPECT_THAT(of_slot(loaded).first(kBlock), Each(0.0f));
    EXPECT_THAT(of_slot(loaded).subspan(kBlock), ElementsAreArray(of_slot(saved).subspan(kBlock)));
  }
}

TEST(ParameterShard, TakesABlockOfEachPlaceInItsRange) {
  ParameterShard shard = EmptyShard();
  EXPECT_TRUE(Load(shard, BlockOf(kRange.begin, kBlock), kRange.begin).ok());
  EXPECT_TRUE(Load(shard, BlockOf(kRange.begin + kBlock, 10), kRange.begin + kBlock).ok());
  EXPECT_THAT(shard.weights(), Each(7.0f));
}

TEST(ParameterShard, ABlockThatBeginsBetweenBlocksIsDataLoss) {
  // As many values as the block at that place has, so that nothing else is wrong.
  for (const uint64_t begin : {kRange.begin + 1, kRange.begin + kBlock - 1}) {
    ParameterShard shard = EmptyShard();
    EXPECT_TRUE(absl::IsDataLoss(Load(shard, BlockOf(begin, kBlock), begin))) << begin;
    EXPECT_THAT(shard.weights(), Each(0.0f));
  }
  ParameterShard shard = EmptyShard();
  EXPECT_TRUE(absl::IsDataLoss(
      Load(shard, BlockOf(kRange.begin + kBlock + 5, 10), kRange.begin + kBlock + 5)));
}

TEST(ParameterShard, ABlockUnderTheKeyOfAnotherIsDataLoss) {
  ParameterShard shard = EmptyShard();
  const ParameterBlock block = BlockOf(kRange.begin, kBlock);
  EXPECT_TRUE(absl::IsDataLoss(Load(shard, block, kRange.begin + kBlock)));
  EXPECT_TRUE(absl::IsDataLoss(Load(shard, block, 0)));
  EXPECT_THAT(shard.weights(), Each(0.0f));
}

TEST(ParameterShard, ABlockOutsideItsKeysIsDataLossThatNamesThem) {
  ParameterShard shard({2 * kBlock, 4 * kBlock}, kSlots, true);
  for (const uint64_t begin : {uint64_t{0}, kBlock, 4 * kBlock, 5 * kBlock}) {
    const Status status = Load(shard, BlockOf(begin, kBlock), begin);
    EXPECT_TRUE(absl::IsDataLoss(status)) << begin;
    EXPECT_THAT(
        std::string(status.message()),
        testing::AllOf(HasSubstr("key " + std::to_string(begin)), HasSubstr("[8192, 16384)")));
  }
}

TEST(ParameterShard, ABlockWithMoreOrFewerValuesIsDataLoss) {
  const std::vector<std::function<void(ParameterBlock&)>> changes = {
      [](ParameterBlock& block) { block.add_weights(1); },
      [](ParameterBlock& block) { block.mutable_weights()->RemoveLast(); },
      [](ParameterBlock& block) { block.add_slots(1); },
      [](ParameterBlock& block) { block.mutable_slots()->RemoveLast(); },
      [](ParameterBlock& block) { block.add_previous_round(1); },
      [](ParameterBlock& block) { block.clear_previous_round(); },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    ParameterShard shard = EmptyShard();
    ParameterBlock block = BlockOf(kRange.begin, kBlock);
    changes[i](block);
    EXPECT_TRUE(absl::IsDataLoss(Load(shard, block, kRange.begin))) << i;
  }
}

TEST(ParameterShard, BytesThatAreNoBlockAreDataLoss) {
  ParameterShard shard = EmptyShard();
  const std::string body = BlockOf(kRange.begin, kBlock).SerializeAsString();
  const std::string whole = MakeFrames(body, 0).front();
  const std::string chunk = MakeFrames(body, 0, whole.size() - 1).front();
  for (const std::string& value : {std::string(), whole.substr(0, 100), chunk}) {
    EXPECT_TRUE(absl::IsDataLoss(shard.LoadBlock(BlockKey(kRange.begin), value)));
  }
}

TEST(ParameterShard, HandsOutAnUpdatedBlockOnceAndCountsItsBytes) {
  ParameterShard shard = EmptyShard();
  const size_t block_bytes = kBlock * (1 + kSlots) * sizeof(float);
  EXPECT_EQ(shard.updated_bytes(), 0u);
  shard.MarkUpdated(1);
  shard.MarkUpdated(1);
  EXPECT_EQ(shard.updated_bytes(), block_bytes);
  EXPECT_THAT(shard.TakeUpdated(), ElementsAre(1));
  EXPECT_EQ(shard.updated_bytes(), 0u);
  EXPECT_THAT(shard.TakeUpdated(), ElementsAre());
  shard.MarkAllUpdated();
  EXPECT_EQ(shard.updated_bytes(), 2 * block_bytes);
  EXPECT_THAT(shard.TakeUpdated(), ElementsAre(0, 1));
}

TEST(ParameterShard, WhatItReplacesIsToBeSavedWithIt) {
  ParameterShard shard = EmptyShard();
  shard.KeepPreviousRound();
  EXPECT_THAT(shard.TakeUpdated(), ElementsAre(0, 1));
}

TEST(ParameterShard, ScansItsBlocksAndNothingElse) {
  MemoryByteMap store;
  WriteBatch batch;
  for (const std::string& key : {BlockKey(5), BlockKey(4096), std::string("p"), std::string("pp"),
                                 BlockKey(7) + "x", "q" + EncodeBigEndian64(1)}) {
    batch.Put(key, "value");
  }
  ASSERT_TRUE(store.Write(batch).ok());
  std::vector<std::string> keys;
  ASSERT_TRUE(ParameterShard::ScanBlocks(store, [&](std::string_view key, std::string_view) {
                keys.emplace_back(key);
                return true;
              }).ok());
  EXPECT_THAT(keys, ElementsAre(BlockKey(5), BlockKey(4096)));
  keys.clear();
  ASSERT_TRUE(ParameterShard::ScanBlocks(store, [&](std::string_view key, std::string_view) {
                keys.emplace_back(key);
                return false;
              }).ok());
  EXPECT_THAT(keys, ElementsAre(BlockKey(5)));
}

}  // namespace
}  // namespace millrace
