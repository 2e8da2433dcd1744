// Which places of input-data a process reads.
#include "tasks/lease_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <vector>

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Wish = LeaseReader::Wish;
using Step = LeaseReader::Step;

Step Seek(uint32_t partition, Offset offset) { return {Step::Kind::kSeek, partition, offset}; }
Step GoOn(uint32_t partition, Offset offset) { return {Step::Kind::kGoOn, partition, offset}; }
Step HoldBack(uint32_t partition) { return {Step::Kind::kHold, partition, {}}; }

// One that goes where it is told at once.
std::vector<Step> FollowAndSeek(LeaseReader& reader, const std::vector<Wish>& wishes) {
  std::vector<Step> steps = reader.Follow(wishes);
  for (const Step& step : steps) {
    if (step.kind == Step::Kind::kSeek) reader.Sought(step.partition);
  }
  return steps;
}

TEST(LeaseReader, ReadsEachPartitionWhereAWorkerWantsIt) {
  LeaseReader reader;
  EXPECT_THAT(FollowAndSeek(reader, {{.worker = 4, .partition = 1, .offset = 7},
                                     {.worker = 2, .partition = 0, .offset = 3}}),
              ElementsAre(Seek(0, 3), Seek(1, 7)));
  EXPECT_EQ(reader.Take(0, 3), WorkerId(2));
  EXPECT_EQ(reader.Take(1, 9), WorkerId(4)) << "transactions leave offsets out";
  EXPECT_EQ(reader.Take(2, 0), std::nullopt);
  EXPECT_THAT(FollowAndSeek(reader, {{.worker = 4, .partition = 1, .offset = 10},
                                     {.worker = 2, .partition = 0, .offset = 4}}),
              IsEmpty());
}

TEST(LeaseReader, GoesOnWithoutASeekWhereLeasesFollowOneAnother) {
  LeaseReader reader;
  FollowAndSeek(reader, {{.worker = 0, .lease = 0, .offset = 0}});
  EXPECT_EQ(reader.Take(0, 0), WorkerId(0));
  EXPECT_THAT(FollowAndSeek(reader, {{.worker = 1, .lease = 5, .offset = 1}}), IsEmpty());
  EXPECT_EQ(reader.Take(0, 1), WorkerId(1));
}

TEST(LeaseReader, ReadsALeaseToItsEndAndThenWhatBeginsFirst) {
  LeaseReader reader;
  const Wish late = {.worker = 0, .lease = 0, .offset = 8};
  FollowAndSeek(reader, {late});
  const Wish early = {.worker = 1, .lease = 3, .offset = 2};
  EXPECT_THAT(FollowAndSeek(reader, {late, early}), IsEmpty());
  EXPECT_EQ(reader.Take(0, 8), WorkerId(0));
  // Its next lease is near; but the other one would wait for ever.
  EXPECT_THAT(FollowAndSeek(reader, {{.worker = 0, .lease = 1, .offset = 9}, early}),
              ElementsAre(Seek(0, 2)));
  EXPECT_EQ(reader.Take(0, 2), WorkerId(1));
}

TEST(LeaseReader, ServesOthersWhileAWorkerHasEnough) {
  LeaseReader reader;
  const Wish other = {.worker = 1, .lease = 3, .offset = 20};
  FollowAndSeek(reader, {{.worker = 0, .offset = 0}, other});
  EXPECT_EQ(reader.Take(0, 0), WorkerId(0));
  EXPECT_THAT(FollowAndSeek(reader, {other}), ElementsAre(Seek(0, 20)));
  EXPECT_THAT(FollowAndSeek(reader, {{.worker = 0, .offset = 1}, other}), IsEmpty());
  EXPECT_EQ(reader.Take(0, 20), WorkerId(1));
  EXPECT_THAT(FollowAndSeek(reader, {{.worker = 0, .offset = 1}}), ElementsAre(Seek(0, 1)));
}

TEST(LeaseReader, IsHeldBackWhileNobodyWantsRows) {
  LeaseReader reader;
  FollowAndSeek(reader, {{.offset = 0}});
  EXPECT_EQ(reader.Take(0, 0), WorkerId(0));
  EXPECT_THAT(FollowAndSeek(reader, {}), ElementsAre(HoldBack(0)));
  EXPECT_THAT(FollowAndSeek(reader, {}), IsEmpty());
  EXPECT_THAT(FollowAndSeek(reader, {{.offset = 1}}), ElementsAre(GoOn(0, 1)));
  EXPECT_EQ(reader.Take(0, 1), WorkerId(0));
}

TEST(LeaseReader, GoesBackForARecordThatNobodyTook) {
  LeaseReader reader;
  FollowAndSeek(reader, {{.offset = 0}});
  FollowAndSeek(reader, {});
  EXPECT_EQ(reader.Take(0, 0), std::nullopt);
  EXPECT_EQ(reader.Take(0, 1), std::nullopt);
  EXPECT_THAT(FollowAndSeek(reader, {{.offset = 0}}), ElementsAre(Seek(0, 0)));
  EXPECT_EQ(reader.Take(0, 0), WorkerId(0));
}

TEST(LeaseReader, TakesNothingBeforeItIsWhereItIsToBe) {
  LeaseReader reader;
  FollowAndSeek(reader, {{.offset = 50}});
  EXPECT_THAT(reader.Follow({{.lease = 1, .offset = 10}}), ElementsAre(Seek(0, 10)));
  EXPECT_EQ(reader.Take(0, 50), std::nullopt) << "it was read before the seek";
  EXPECT_THAT(reader.Follow({{.lease = 1, .offset = 10}}), IsEmpty()) << "it has been told";
  reader.Sought(0);
  EXPECT_EQ(reader.Take(0, 9), std::nullopt);
  EXPECT_EQ(reader.Take(0, 10), WorkerId(0));
}

TEST(LeaseReader, IsToldAgainWhereToGoWhenItIsLost) {
  LeaseReader reader;
  FollowAndSeek(reader, {{.offset = 5}});
  reader.Lose(0);
  reader.Lose(3);
  EXPECT_EQ(reader.Take(0, 5), std::nullopt);
  EXPECT_THAT(FollowAndSeek(reader, {{.offset = 5}}), ElementsAre(Seek(0, 5)));
  reader.Follow({{.lease = 1, .offset = 9}});
  reader.Lose(0);
  reader.Sought(0);
  EXPECT_EQ(reader.Take(0, 9), std::nullopt) << "lost while it went there";
}

// Workers with leases anywhere, which have enough now and then; a reader whose seeks take a while.
// Each worker gets all records of its leases, each once and in order.
TEST(LeaseReader, GivesEachWorkerAllThatItWants) {
  struct Leased {
    uint32_t partition;
    Offset begin;
    Offset end;
  };
  for (uint32_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const uint32_t workers = 1 + static_cast<uint32_t>(random() % 4);
    const uint32_t partitions = 1 + static_cast<uint32_t>(random() % 3);
    std::map<uint32_t, Offset> ends;
    std::vector<std::vector<Leased>> leases(workers);
    for (uint64_t count = random() % 20; count > 0; --count) {
      const auto partition = static_cast<uint32_t>(random() % partitions);
      const Offset begin = ends[partition];
      ends[partition] += 1 + random() % 6;
      leases[random() % workers].push_back({partition, begin, ends[partition]});
    }
    struct At {
      size_t lease = 0;
      Offset next = 0;
      bool has_enough = false;
    };
    std::vector<At> at(workers);
    for (uint32_t i = 0; i < workers; ++i) {
      if (!leases[i].empty()) at[i].next = leases[i][0].begin;
    }
    struct Position {
      Offset next = 0;
      bool is_held = true;
      std::optional<Offset> seeks;
    };
    std::map<uint32_t, Position> positions;
    LeaseReader reader;
    const auto follow = [&] {
      std::vector<Wish> wishes;
      for (uint32_t i = 0; i < workers; ++i) {
        if (at[i].has_enough || at[i].lease == leases[i].size()) continue;
        wishes.push_back({WorkerId(i), at[i].lease, leases[i][at[i].lease].partition, at[i].next});
      }
      for (const Step& step : reader.Follow(wishes)) {
        Position& position = positions[step.partition];
        position.is_held = step.kind == Step::Kind::kHold;
        if (step.kind == Step::Kind::kSeek) position.seeks = step.offset;
      }
    };
    const auto is_done = [&] {
      for (uint32_t i = 0; i < workers; ++i) {
        if (at[i].lease < leases[i].size()) return false;
      }
      return true;
    };
    int turns = 0;
    for (; turns < 20'000 && !is_done(); ++turns) {
      At& some = at[random() % workers];
      some.has_enough = random() % 2 == 0;
      if (random() % 3 > 0) follow();  // told late
      const auto partition = static_cast<uint32_t>(random() % partitions);
      Position& position = positions[partition];
      if (position.seeks && random() % 2 == 0) {
        position.next = *position.seeks;
        position.seeks.reset();
        reader.Sought(partition);
      }
      if (random() % 50 == 0) {
        reader.Lose(partition);
        position.next = 0;
        position.seeks.reset();
      }
      const bool is_careless = random() % 10 == 0;  // hands out what it should hold
      if ((position.is_held && !is_careless) || position.next >= ends[partition]) continue;
      const Offset offset = position.next++;
      const std::optional<WorkerId> taker = reader.Take(partition, offset);
      if (!taker) continue;
      At& worker = at[*taker];
      ASSERT_LT(worker.lease, leases[*taker].size());
      const Leased& lease = leases[*taker][worker.lease];
      ASSERT_EQ(lease.partition, partition);
      ASSERT_EQ(worker.next, offset);
      ++worker.next;
      if (worker.next == lease.end && ++worker.lease < leases[*taker].size()) {
        worker.next = leases[*taker][worker.lease].begin;
      }
      follow();
    }
    ASSERT_TRUE(is_done());
  }
}

}  // namespace
}  // namespace millrace
