#include "topics/replica_placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

namespace millrace {
namespace {

using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

TEST(ReplicatedBy, NamesTheShardsInFrontOfAServerAroundTheRing) {
  EXPECT_THAT(ReplicatedBy({2}, 5, 2), ElementsAreArray<ShardId>({0, 1}));
  EXPECT_THAT(ReplicatedBy({0}, 5, 2), ElementsAreArray<ShardId>({3, 4}));
  EXPECT_THAT(ReplicatedBy({1, 2}, 5, 2), ElementsAreArray<ShardId>({0, 4}))
      << "its own it has anyway";
  EXPECT_THAT(ReplicatedBy({0, 1, 2}, 3, 2), IsEmpty());
  EXPECT_THAT(ReplicatedBy({0}, 1, 0), IsEmpty());
}

TEST(ReplicasMissing, AreThoseOfFollowersThatAreOneProcessWithAnotherOrWithTheShard) {
  EXPECT_EQ(ReplicasMissing(0, {0}, 4, 2), 0u);
  EXPECT_EQ(ReplicasMissing(0, {0, 1}, 4, 1), 1u) << "its follower is its own process";
  EXPECT_EQ(ReplicasMissing(1, {0, 1}, 4, 1), 0u);
  EXPECT_EQ(ReplicasMissing(3, {0, 1, 3}, 4, 2), 2u) << "around the ring";
  EXPECT_EQ(ReplicasMissing(0, {1, 2}, 3, 2), 1u) << "two followers keep one copy";
  EXPECT_EQ(ReplicasMissing(0, {1}, 3, 2), 0u);
  EXPECT_EQ(ReplicasMissing(0, {0, 2}, 4, 0), 0u);
}

TEST(ReplicatedBy, EveryShardHasAsManyReplicasAsWereWantedOnOtherServers) {
  for (uint32_t shards = 1; shards <= 9; ++shards) {
    for (uint32_t replicas = 0; replicas < shards; ++replicas) {
      std::map<ShardId, uint32_t> copies;
      for (ShardId server = 0; server < shards; ++server) {
        for (ShardId shard : ReplicatedBy({server}, shards, replicas)) {
          ASSERT_NE(shard, server);
          ++copies[shard];
        }
      }
      for (ShardId shard = 0; shard < shards; ++shard) ASSERT_EQ(copies[shard], replicas);
    }
  }
}

}  // namespace
}  // namespace millrace
