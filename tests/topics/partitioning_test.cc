#include "topics/partitioning.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "messages/records.pb.h"

namespace millrace {
namespace {

TEST(PartitioningTest, RowsGoRoundAndRoundInTurnsSoThatNoWorkerStarvesAndNumbersHaveNoGaps) {
  for (const uint32_t workers : {1u, 2u, 3u, 4u, 7u, 64u}) {
    for (const uint32_t rows_per_turn : {1u, 2u, 5u, 32u}) {
      const Dealing dealing = {workers, rows_per_turn};
      std::vector<RowNumber> next(workers, 0);
      for (uint64_t stream_row = 0; stream_row < 1000; ++stream_row) {
        const RowPlace place = PlaceOfRow(stream_row, dealing);
        ASSERT_EQ(place.worker, stream_row / rows_per_turn % workers);
        ASSERT_EQ(place.row, next[place.worker]++);
      }
      const auto [least, most] = std::minmax_element(next.begin(), next.end());
      EXPECT_LE(*most - *least, rows_per_turn);
    }
  }
}

TEST(PartitioningTest, TurnsDoubleAfterSixteenOfASizeUpToTheLongest) {
  for (const uint32_t workers : {1u, 2u, 3u, 7u}) {
    for (const uint32_t first : {1u, 3u, 8u}) {
      for (const uint32_t most : {0u, 1u, 8u, 15u, 16u, 100u}) {
        const Dealing dealing = {workers, first, most};
        std::vector<RowNumber> next(workers, 0);
        uint64_t stream_row = 0;
        uint32_t size = first;
        for (int round = 0; round < 120; ++round) {
          // Of the first size there are twice as many.
          if (round >= 32 && round % 16 == 0 && 2 * size <= most) size *= 2;
          for (uint32_t worker = 0; worker < workers; ++worker) {
            for (uint32_t i = 0; i < size; ++i, ++stream_row) {
              ASSERT_EQ(PlaceOfRow(stream_row, dealing), (RowPlace{WorkerId(worker), next[worker]}))
                  << "row " << stream_row << " of " << workers << " in turns of " << first << " to "
                  << most;
              ++next[worker];
            }
          }
        }
      }
    }
  }
}

TEST(PartitioningTest, AJobOfAnOlderVersionKeepsItsTurns) {
  JobFeatures features;
  features.set_workers(3);
  EXPECT_EQ(DealingOf(features), (Dealing{.workers = 3, .rows_per_turn = 1}));
  features.set_rows_per_turn(256);
  EXPECT_EQ(DealingOf(features), (Dealing{.workers = 3, .rows_per_turn = 256}));
  EXPECT_EQ(PlaceOfRow(1'000'000, DealingOf(features)).row, 1'000'000u / (3 * 256) * 256 + 64u);
}

TEST(PartitioningTest, TheStreamRowOfAPlaceIsTheRowThatWentThere) {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 10'000; ++trial) {
    const Dealing dealing = {.workers = static_cast<uint32_t>(1 + random() % 1000),
                             .rows_per_turn = static_cast<uint32_t>(1 + random() % 100),
                             .most_rows_per_turn = static_cast<uint32_t>(random() % 2000)};
    const uint64_t stream_row = random() >> (1 + random() % 60);
    ASSERT_EQ(StreamRow(PlaceOfRow(stream_row, dealing), dealing), stream_row);
    const RowPlace place{WorkerId(random() % dealing.workers), RowNumber(random() % 1'000'000)};
    ASSERT_EQ(PlaceOfRow(StreamRow(place, dealing), dealing), place);
  }
}

TEST(PartitioningTest, RowsOfWorkerCountsTheRowsThatWentToIt) {
  for (const uint32_t workers : {1u, 2u, 3u, 4u, 7u}) {
    for (const uint32_t rows_per_turn : {1u, 3u, 8u}) {
      for (const uint32_t most : {0u, 12u}) {
        const Dealing dealing = {workers, rows_per_turn, most};
        std::vector<RowNumber> counts(workers, 0);
        for (uint64_t rows = 0; rows < 1000; ++rows) {
          for (WorkerId worker = 0; worker < workers; ++worker) {
            ASSERT_EQ(RowsOfWorker(rows, worker, dealing), counts[worker])
                << rows << " rows in turns of " << rows_per_turn << " to " << most << ", worker "
                << worker << " of " << workers;
          }
          ++counts[PlaceOfRow(rows, dealing).worker];
        }
      }
    }
  }
}

TEST(PartitioningTest, RowsMayBeDealtToSomeWorkersOnly) {
  JobFeatures features;
  features.set_workers(5);
  features.set_dealt_workers(2);
  features.set_rows_per_turn(3);
  const Dealing dealing = DealingOf(features);
  std::vector<RowNumber> counts(features.workers(), 0);
  for (uint64_t row = 0; row < 100; ++row) {
    const RowPlace place = PlaceOfRow(row, dealing);
    EXPECT_LT(place.worker, 2u);
    EXPECT_EQ(StreamRow(place, dealing), row);
    ++counts[place.worker];
  }
  for (WorkerId worker = 0; worker < features.workers(); ++worker) {
    EXPECT_EQ(RowsOfWorker(100, worker, dealing), counts[worker]);
  }
}

TEST(PartitioningTest, EachKeyHasExactlyOneOwner) {
  for (uint64_t keys : {0u, 1u, 2u, 5u, 10u, 97u, 1025u}) {
    for (uint32_t shards = 1; shards <= 130; ++shards) {
      std::vector<int> owners(keys, 0);
      for (ShardId shard = 0; shard < shards; ++shard) {
        const KeyRange range = RangeOfShard(shard, shards, keys);
        ASSERT_LE(range.begin, range.end);
        ASSERT_LE(range.end, keys);
        for (uint64_t key = range.begin; key < range.end; ++key) ++owners[key];
      }
      ASSERT_EQ(std::count(owners.begin(), owners.end(), 1), static_cast<ptrdiff_t>(keys))
          << keys << " keys, " << shards << " shards";
    }
  }
}

TEST(PartitioningTest, RangesFollowOneAnotherAndDifferByAtMostOneKey) {
  std::mt19937_64 random(2);
  for (int trial = 0; trial < 300; ++trial) {
    const uint32_t shards = static_cast<uint32_t>(1 + random() % 3000);
    const uint64_t keys = random() >> (4 + random() % 60);
    uint64_t end = 0;
    for (ShardId shard = 0; shard < shards; ++shard) {
      const KeyRange range = RangeOfShard(shard, shards, keys);
      ASSERT_EQ(range.begin, end);
      ASSERT_GE(range.size(), keys / shards);
      ASSERT_LE(range.size(), keys / shards + 1);
      end = range.end;
    }
    ASSERT_EQ(end, keys) << shards << " shards";
  }
}

// The first system on this design had one range half-open and the other closed, so that nobody
// updated the last class's intercept.
TEST(PartitioningTest, TheLastKeyBelongsToTheLastShard) {
  const uint64_t keys = 6150;
  for (uint32_t shards = 1; shards <= 8; ++shards) {
    const KeyRange range = RangeOfShard(ShardId(shards - 1), shards, keys);
    EXPECT_EQ(range.end, keys);
    EXPECT_LT(range.begin, keys);
  }
}

TEST(PartitioningTest, EmbeddingsOfAnyIdsAreSpreadEvenly) {
  constexpr uint64_t kIds = 40'000;
  for (const uint64_t step : {uint64_t{1}, uint64_t{8}, uint64_t{1000}, uint64_t{1} << 32}) {
    for (const uint32_t shards : {1, 2, 3, 8}) {
      std::vector<uint64_t> owned(shards);
      for (uint64_t i = 0; i < kIds; ++i) ++owned.at(ShardOfEmbedding(i * step, shards));
      for (const uint64_t count : owned) {
        EXPECT_NEAR(static_cast<double>(count), static_cast<double>(kIds) / shards,
                    0.05 * static_cast<double>(kIds) / shards);
      }
    }
  }
}

TEST(PartitioningDeathTest, AShardThatDoesNotExistIsAnErrorOfOurOwn) {
  EXPECT_DEATH(RangeOfShard(3, 3, 100), "broken invariant");
}

}  // namespace
}  // namespace millrace
