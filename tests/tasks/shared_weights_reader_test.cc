#include "tasks/shared_weights_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/big_endian.h"

namespace millrace {
namespace {

constexpr WeightsShape kShape = {.job = 77, .shards = 2, .workers = 3, .parameters = 8};

std::string Body(uint32_t shard, uint64_t version) {
  SharedWeights message;
  message.set_job(77);
  message.set_epoch(1);
  message.set_shard(shard);
  message.set_version(version);
  message.mutable_slice()->set_begin(4 * shard);
  message.mutable_slice()->set_end(4 * shard + 4);
  message.mutable_slice()->mutable_dense()->Resize(4, 0.5f);
  return message.SerializeAsString();
}

TEST(SharedWeightsReaderTest, ReadsAMessageInOneRecordOrInSeveral) {
  SharedWeightsReader reader(kShape);
  for (const size_t frame_bytes : {size_t{30}, kMaxFrameBytes}) {
    const std::vector<std::string> frames = MakeFrames(Body(1, 9), 5, frame_bytes);
    for (uint32_t i = 0; i < frames.size(); ++i) {
      const auto message = reader.Take(EncodeBigEndian32(1) + EncodeBigEndian32(i), frames[i]);
      ASSERT_TRUE(message.ok()) << message.status();
      const bool is_last = i + 1 == frames.size();
      ASSERT_EQ(*message != nullptr, is_last);
      EXPECT_TRUE(!is_last || (*message)->version() == 9);
    }
  }
}

// (Two servers may send at the same time.)
TEST(SharedWeightsReaderTest, KeepsTheChunksOfTwoShardsApart) {
  SharedWeightsReader reader(kShape);
  const std::vector<std::vector<std::string>> frames = {MakeFrames(Body(0, 1), 5, 30),
                                                        MakeFrames(Body(1, 2), 5, 30)};
  std::vector<uint32_t> shards;
  for (uint32_t i = 0; i < std::max(frames[0].size(), frames[1].size()); ++i) {
    for (uint32_t shard = 0; shard < 2; ++shard) {
      if (i >= frames[shard].size()) continue;
      const auto message =
          reader.Take(EncodeBigEndian32(shard) + EncodeBigEndian32(i), frames[shard][i]);
      ASSERT_TRUE(message.ok()) << message.status();
      if (*message != nullptr) shards.push_back((*message)->shard());
    }
  }
  EXPECT_THAT(shards, ::testing::UnorderedElementsAre(0, 1));
}

TEST(SharedWeightsReaderTest, SaysWhyARecordIsUnusableAndReadsOn) {
  SharedWeightsReader reader(kShape);
  const std::string key = EncodeBigEndian32(0) + EncodeBigEndian32(0);
  const std::string chunk = MakeFrames(Body(0, 1), 5, 30).front();
  EXPECT_TRUE(absl::IsInvalidArgument(reader.Take(key, "?").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(reader.Take("nobody", chunk).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(reader.Take(EncodeBigEndian32(2), chunk).status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(reader.Take(key, MakeFrames("no message", 0).front()).status()));
  const auto message = reader.Take(key, MakeFrames(Body(0, 1), 0).front());
  ASSERT_TRUE(message.ok());
  EXPECT_NE(*message, nullptr);
}

}  // namespace
}  // namespace millrace
