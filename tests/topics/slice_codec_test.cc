#include "topics/slice_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/topics/random_double.h"
#include "topics/partitioning.h"

namespace millrace {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNaN = std::nanf("");

GradientSum RandomGradient(std::mt19937_64& random, size_t blocks, size_t block_size,
                           size_t touched) {
  GradientSum gradient(blocks * block_size, block_size);
  for (size_t i = 0; i < touched; ++i) {
    float* block = gradient.Block(random() % blocks);
    for (size_t k = 0; k < block_size; ++k) block[k] += static_cast<float>(RandomDouble(random));
  }
  return gradient;
}

// The slice's values written out.
std::vector<float> Values(const Slice& slice) {
  std::vector<float> values(slice.end() - slice.begin());
  AddSlice(slice, 1.0f, values);
  return values;
}

TEST(CodecEmbeddingsTest, RefusesIdsOutOfOrderOfAnotherShardOrWithoutTheirValues) {
  std::vector<uint64_t> ours;
  uint64_t other = 0;
  for (uint64_t id = 0; ours.size() < 3 || other == 0; ++id) {
    ShardOfEmbedding(id, 2) == 1 ? ours.push_back(id) : static_cast<void>(other = id);
  }
  EmbeddingBlock block;
  for (const uint64_t id : {ours[0], ours[1], ours[2]}) block.add_id(id);
  block.mutable_value()->Resize(6, 1.0f);
  EXPECT_TRUE(CheckEmbeddings(block, 2, 1, 2).ok());
  EXPECT_FALSE(CheckEmbeddings(block, 3, 1, 2).ok()) << "two values each";
  EXPECT_FALSE(CheckEmbeddings(block, 2, 0, 2).ok()) << "of the other shard";
  block.set_id(2, ours[1]);
  EXPECT_FALSE(CheckEmbeddings(block, 2, 1, 2).ok()) << "twice";
  block.set_id(1, other);
  EXPECT_FALSE(CheckEmbeddings(block, 2, 1, 2).ok()) << "one of the other shard";
}

TEST(CodecSliceTest, AnyGradientsSlicesPutTogetherAreTheGradient) {
  std::mt19937_64 random(6);
  int sparse = 0;
  int dense = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    const size_t block_size = 2 + random() % 5;
    const size_t blocks = 1 + random() % 60;
    GradientSum gradient = RandomGradient(random, blocks, block_size, random() % (blocks + 1));
    const uint64_t keys = blocks * block_size;
    const auto shards = 1 + random() % 5;
    std::vector<float> joined;
    for (uint64_t shard = 0; shard < shards; ++shard) {
      const KeyRange range = {keys * shard / shards, keys * (shard + 1) / shards};
      Slice slice;
      EncodeSlice(gradient, range, sizeof(float), slice);
      ASSERT_TRUE(CheckSlice(slice, range).ok()) << CheckSlice(slice, range);
      ++(slice.dense_size() > 0 ? dense : sparse);
      const std::vector<float> values = Values(slice);
      joined.insert(joined.end(), values.begin(), values.end());
    }
    ASSERT_TRUE(std::equal(joined.begin(), joined.end(), gradient.values().begin(),
                           gradient.values().end()));
  }
  EXPECT_GT(sparse, 100);
  EXPECT_GT(dense, 100);
}

TEST(CodecSliceTest, SendsAGradientInWhicheverFormIsSmaller) {
  std::mt19937_64 random(7);
  const size_t block_size = 4;
  const size_t blocks = 100;
  const KeyRange all = {0, blocks * block_size};
  for (size_t touched = 0; touched <= blocks; ++touched) {
    GradientSum gradient(all.size(), block_size);
    for (size_t block = 0; block < touched; ++block) gradient.Block(block)[0] = 1;
    Slice slice;
    EncodeSlice(gradient, all, sizeof(float), slice);
    Slice whole;
    EncodeDenseSlice(gradient.values(), all, whole);
    EXPECT_LE(slice.ByteSizeLong(), whole.ByteSizeLong() + 8) << touched << " blocks touched";
    if (touched < blocks / 2) {
      EXPECT_EQ(slice.sparse_index_size(), static_cast<int>(touched * block_size));
    }
  }
}

TEST(CodecSliceTest, AShardsFormFollowsFromItsOwnKeysAlone) {
  // All that was touched belongs to the first half of the keys; the second half has nothing to say.
  GradientSum gradient(400, 4);
  for (size_t block = 0; block < 50; ++block) gradient.Block(block)[0] = 1;
  Slice slice;
  EncodeSlice(gradient, {200, 400}, sizeof(float), slice);
  EXPECT_EQ(slice.dense_size(), 0);
  EXPECT_EQ(slice.sparse_index_size(), 0);
  EncodeSlice(gradient, {0, 200}, sizeof(float), slice);
  EXPECT_EQ(slice.dense_size(), 200);
}

TEST(CodecSliceTest, AddsAMultipleOfASliceToWhatIsThere) {
  Slice dense;
  EncodeDenseSlice(std::vector<float>{1, 2, 3}, {5, 8}, dense);
  std::vector<float> target = {10, 20, 30};
  AddSlice(dense, 0.5f, target);
  EXPECT_EQ(target, (std::vector<float>{10.5f, 21, 31.5f}));
  Slice sparse;
  sparse.add_sparse_index(1);
  sparse.add_sparse_value(4);
  AddSlice(sparse, -1, target);
  EXPECT_EQ(target, (std::vector<float>{10.5f, 17, 31.5f}));
  AddSlice(Slice(), 1, target);
  EXPECT_EQ(target, (std::vector<float>{10.5f, 17, 31.5f}));
}

TEST(CodecSliceTest, ASliceThatDoesNotFitItsTargetIsNotAdded) {
  Slice slice;
  slice.add_sparse_index(1);
  slice.add_sparse_value(1);
  slice.add_sparse_index(4);
  slice.add_sparse_value(1);
  std::vector<float> target(5);
  AddSlice(slice, 2, target);
  EXPECT_EQ(target, (std::vector<float>{0, 2, 0, 0, 2}));
  target.pop_back();
  EXPECT_DEATH(AddSlice(slice, 1, target), "broken invariant");
  slice.clear_sparse_index();
  EXPECT_DEATH(AddSlice(slice, 1, target), "broken invariant");
}

TEST(CodecSliceTest, OnlySingleValuesWhoseKeysAscendAreEncoded) {
  const std::vector<float> values = {1, 1, 1};
  const auto encode = [&](const std::vector<uint64_t>& keys) {
    Slice slice;
    EncodeSlice(keys, values, {2, 90}, sizeof(float), slice);
    return slice;
  };
  EXPECT_EQ(encode({1, 2, 89}).sparse_index_size(), 2);
  EXPECT_DEATH(encode({3, 5, 4}), "broken invariant");
  EXPECT_DEATH(encode({3, 5, 5}), "broken invariant");
}

TEST(CodecSliceTest, RefusesKeysOfAnotherShardAndFormsThatAreNone) {
  const KeyRange range = {10, 13};
  Slice good;
  EncodeDenseSlice(std::vector<float>{1, 2, 3}, range, good);
  EXPECT_TRUE(CheckSlice(good, range).ok());
  EXPECT_FALSE(CheckSlice(good, {10, 14}).ok());
  EXPECT_FALSE(CheckSlice(good, {9, 13}).ok());
  EXPECT_FALSE(CheckSlice(Slice(), range).ok());

  Slice damaged = good;
  damaged.add_dense(4);
  EXPECT_FALSE(CheckSlice(damaged, range).ok());
  damaged = good;
  damaged.mutable_dense()->RemoveLast();
  EXPECT_FALSE(CheckSlice(damaged, range).ok());
  damaged = good;
  damaged.add_sparse_index(0);
  damaged.add_sparse_value(1);
  EXPECT_FALSE(CheckSlice(damaged, range).ok()) << "dense and sparse at once";

  Slice nothing = good;
  nothing.clear_dense();
  EXPECT_TRUE(CheckSlice(nothing, range).ok()) << "no value at all is the empty sparse slice";
}

TEST(CodecSliceTest, RefusesSparseKeysThatDoNotAscendOrLieOutside) {
  const KeyRange range = {10, 13};
  const auto check = [&](std::vector<uint32_t> index, size_t values) {
    Slice slice;
    slice.set_begin(range.begin);
    slice.set_end(range.end);
    slice.mutable_sparse_index()->Add(index.begin(), index.end());
    for (size_t i = 0; i < values; ++i) slice.add_sparse_value(1);
    return CheckSlice(slice, range).ok();
  };
  EXPECT_TRUE(check({0, 2}, 2));
  EXPECT_TRUE(check({0, 1, 2}, 3));
  EXPECT_FALSE(check({0, 2}, 1));
  EXPECT_FALSE(check({0, 2}, 3));
  EXPECT_FALSE(check({2, 0}, 2));
  EXPECT_FALSE(check({1, 1}, 2));
  EXPECT_FALSE(check({0, 3}, 2));
  EXPECT_FALSE(check({0xffffffff}, 1));
}

TEST(CodecSliceTest, FindsANaNAnInfinityOrTooLargeAValueWhereverItStands) {
  constexpr float kLargest = 1e38f;
  for (float poison : {kNaN, kInfinity, -kInfinity, 1.1e38f, -1.1e38f}) {
    for (int place = 0; place < 40; ++place) {
      Slice dense;
      Slice sparse;
      for (int i = 0; i < 40; ++i) {
        dense.add_dense(i == place ? poison : -1e38f);
        sparse.add_sparse_value(i == place ? poison : 1e38f);
      }
      EXPECT_FALSE(AllWithin(dense, kLargest));
      EXPECT_FALSE(AllWithin(sparse, kLargest));
      dense.set_dense(place, 0);
      sparse.set_sparse_value(place, 0);
      EXPECT_TRUE(AllWithin(dense, kLargest));
      EXPECT_TRUE(AllWithin(sparse, kLargest));
    }
  }
  EXPECT_TRUE(AllWithin(Slice(), 0));
}

TEST(CodecSliceTest, CopiesValuesThatAreWithinALimitAndSaysWhereOneIsNot) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{4096}, size_t{10'000}}) {
    std::vector<float> values(size);
    std::iota(values.begin(), values.end(), -3.0f);
    std::vector<float> copy = {7};
    EXPECT_TRUE(AppendWithin(values, 1e18f, copy));
    ASSERT_EQ(copy.size(), size + 1);
    EXPECT_TRUE(std::equal(values.begin(), values.end(), copy.begin() + 1));
    for (const size_t place : {size_t{0}, size / 2, size - 1}) {
      for (const float poison : {kNaN, kInfinity, -1.1e18f}) {
        if (size == 0) continue;
        std::vector<float> bad = values;
        bad[place] = poison;
        EXPECT_FALSE(AppendWithin(bad, 1e18f, copy)) << place;
      }
    }
  }
}

TEST(CodecSliceTest, FindsAValueThatIsNotFiniteOrWhoseMultipleIsNot) {
  constexpr float kMost = std::numeric_limits<float>::max();
  for (size_t bad = 0; bad < 37; ++bad) {
    std::vector<float> values(37, -1.0f);
    values[bad] = -kMost;
    EXPECT_TRUE(AreFinite(values, 1));
    EXPECT_FALSE(AreFinite(values, std::nextafter(1.0f, 2.0f)));
    for (const float value : {kNaN, kInfinity, -kInfinity}) {
      values[bad] = value;
      EXPECT_FALSE(AreFinite(values, 1));
      EXPECT_FALSE(AreFinite(values, 0));
    }
  }
  EXPECT_TRUE(AreFinite(std::vector<float>(37, 0.0f), kMost));
  EXPECT_FALSE(AreFinite(std::vector<float>(37, 0.0f), kInfinity));
  EXPECT_TRUE(AreFinite({}, kInfinity));
}

}  // namespace
}  // namespace millrace
