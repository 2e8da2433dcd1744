#include "metrics/group_progress.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

MetricPoint::ServerProgress PointOf(uint32_t shard, uint64_t rounds, uint64_t updates,
                                    uint64_t exchanges, uint64_t deltas_taken = 0) {
  MetricPoint::ServerProgress point;
  point.set_shards(4);
  point.set_groups(2);
  point.set_shard(shard);
  point.set_group(shard / 2);
  point.set_rounds(rounds);
  point.set_updates(updates);
  point.set_exchanges(exchanges);
  point.set_deltas_taken(deltas_taken);
  return point;
}

TEST(GroupExchanges, AJobOfOneGroupHasNone) {
  GroupExchanges exchanges;
  MetricPoint::ServerProgress point = PointOf(0, 3, 9, 0);
  point.set_groups(1);
  exchanges.Fold(point);
  point.set_groups(0);  // of a version that knew no groups
  exchanges.Fold(point);
  EXPECT_TRUE(exchanges.groups().empty());
}

TEST(GroupExchanges, AGroupIsAsFarAsTheShardOfItThatIsFurthestBack) {
  GroupExchanges exchanges;
  exchanges.Fold(PointOf(0, 40, 80, 0, 7));
  exchanges.Fold(PointOf(1, 38, 76, 0, 6));
  exchanges.Fold(PointOf(2, 30, 60, 0));
  exchanges.Fold(PointOf(3, 31, 62, 0));
  exchanges.Fold(PointOf(2, 32, 64, 7));
  exchanges.Fold(PointOf(3, 33, 66, 6));
  exchanges.Fold(PointOf(2, 33, 67, 7));
  exchanges.Fold(PointOf(3, 34, 68, 6));
  const auto groups = exchanges.groups();
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].group, 0u);
  EXPECT_EQ(groups[0].rounds, 38u);
  EXPECT_EQ(groups[0].deltas_taken, 6u);
  EXPECT_EQ(groups[0].unshared_updates, 0u) << "the primary has nobody to send to";
  EXPECT_EQ(groups[1].group, 1u);
  EXPECT_EQ(groups[1].rounds, 33u);
  EXPECT_EQ(groups[1].exchanges, 6u);
  EXPECT_EQ(groups[1].unshared_updates, 3u);
}

TEST(GroupExchanges, UpdatesAreUnsharedUntilAnExchangeIsAnswered) {
  GroupExchanges exchanges;
  const auto unshared = [&](uint64_t updates, uint64_t number) {
    exchanges.Fold(PointOf(2, updates, updates, number));
    return exchanges.groups().at(0).unshared_updates;
  };
  EXPECT_EQ(unshared(5, 0), 5u) << "all, before the first";
  EXPECT_EQ(unshared(25, 0), 25u);
  EXPECT_EQ(unshared(30, 1), 0u);
  EXPECT_EQ(unshared(42, 1), 12u);
  EXPECT_EQ(unshared(44, 3), 0u);
  // A server that knows less, since it was started anew: it will be told.
  EXPECT_EQ(unshared(40, 3), 0u);
}

TEST(GroupExchanges, WhoLooksOnLateKnowsNothingOfTheUpdatesBefore) {
  GroupExchanges exchanges;
  exchanges.Fold(PointOf(2, 100, 100, 4));
  EXPECT_EQ(exchanges.groups().at(0).unshared_updates, 0u);
  exchanges.Fold(PointOf(2, 110, 110, 4));
  EXPECT_EQ(exchanges.groups().at(0).unshared_updates, 10u);
}

}  // namespace
}  // namespace millrace
