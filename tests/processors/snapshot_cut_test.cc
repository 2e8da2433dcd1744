// One cut through all shards, whatever order messages come in and whoever dies.
#include "tests/processors/topology.h"

namespace millrace {
namespace {

Training Eventual() {
  Training training = Sequential();
  training.mutable_consistency()->set_model(Training::Consistency::EVENTUAL);
  return training;
}

// Every shard that comes to a cut stands at the same clock of every worker as the others, and who
// is not at its cut has left.
void ExpectOneCut(const std::map<ShardId, TestedTopology::Cut>& cut) {
  for (const auto& [shard, part] : cut) {
    for (const auto& [worker, entry] : part.clocks) {
      EXPECT_EQ(entry.clock, cut.begin()->second.clocks.at(worker).clock)
          << "worker " << worker << ", shard " << shard;
    }
  }
}

TEST(SnapshotCut, AllShardsStandAtTheSameClockOfEveryWorker) {
  size_t whole = 0;
  for (uint32_t seed = 0; seed < 80; ++seed) {
    SCOPED_TRACE(seed);
    const TestJob job = {.workers = 1 + seed % 4,
                         .shards = 1 + seed % 3,
                         .training = seed % 2 == 0 ? Sequential() : Eventual(),
                         .rows_first = seed % 5 != 0};
    TestedTopology topology(job, seed);
    uint64_t asked = 0;
    topology.meanwhile = [&](std::mt19937& random) {
      if (random() % 20 == 0) topology.AskForSnapshot(++asked);
    };
    topology.Run(seed % 7 == 0 ? 0.05 : 0);
    for (const auto& [id, cut] : topology.cuts()) {
      ExpectOneCut(cut);
      if (cut.size() == job.shards) ++whole;
    }
  }
  EXPECT_GT(whole, 80u);
}

TEST(SnapshotCut, IsOneForPeriodicSnapshotsToo) {
  size_t whole = 0;
  for (uint32_t seed = 0; seed < 80; ++seed) {
    SCOPED_TRACE(seed);
    TestJob job = {.workers = 1 + seed % 4,
                   .shards = 1 + seed % 3,
                   .training = seed % 2 == 0 ? Sequential() : Eventual(),
                   .rows_first = seed % 5 != 0};
    TestedTopology undisturbed(job);
    if (seed % 2 == 0) undisturbed.Run();
    job.training.set_snapshot_every(1 + seed % 5);
    TestedTopology topology(job, seed);
    topology.Run(seed % 7 == 0 ? 0.05 : 0);
    for (const auto& [id, cut] : topology.cuts()) {
      ExpectOneCut(cut);
      if (cut.size() == job.shards) ++whole;
    }
    if (seed % 2 == 0) {
      EXPECT_EQ(topology.Parameters(), undisturbed.Parameters());
    }
  }
  EXPECT_GT(whole, 80u);
}

TEST(SnapshotCut, ChangesNoByteOfASequentialJob) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    const TestJob job = {.workers = 1 + seed % 3, .shards = 1 + seed % 3, .training = Sequential()};
    TestedTopology undisturbed(job);
    undisturbed.Run();
    TestedTopology topology(job, seed);
    uint64_t asked = 0;
    topology.meanwhile = [&](std::mt19937& random) {
      if (random() % 20 == 0) topology.AskForSnapshot(++asked);
    };
    topology.Run(seed % 2 == 0 ? 0.05 : 0);
    EXPECT_EQ(topology.Parameters(), undisturbed.Parameters());
    EXPECT_EQ(topology.Embeddings(), undisturbed.Embeddings());
  }
}

// The cuts are those of the one before, which the other shards would take for this one's.
TEST(SnapshotCut, OfOneThatIsCancelledBeforeItBeginsNothingIsTold) {
  SnapshotCut first(2, 1);
  ASSERT_TRUE(first.Begin(1, VectorClock(2)));
  first.Cancel(5);
  EXPECT_FALSE(first.open());
  EXPECT_EQ(first.newest(), 5u);
  ASSERT_TRUE(first.Mark(0));
  EXPECT_EQ(first.Mark(0)->snapshot(), 1u);
  SnapshotCut second(2, 1);
  second.Cancel(5);
  SnapshotMark mark;
  mark.set_snapshot(5);
  mark.set_cut(2);
  second.Note(0, mark);
  EXPECT_FALSE(second.open());
  mark.set_snapshot(6);
  second.Note(0, mark);
  EXPECT_EQ(second.open(), 6u);
}

TEST(SnapshotCut, WhatIsGivenUpHoldsNobodyBack) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    const TestJob job = {.workers = 1 + seed % 4, .shards = 1 + seed % 3, .training = Eventual()};
    TestedTopology topology(job, seed);
    uint64_t asked = 0;
    topology.meanwhile = [&](std::mt19937& random) {
      if (random() % 20 == 0) topology.AskForSnapshot(++asked);
      // Or one that is still to come.
      const uint64_t id = asked + random() % 3;
      if (random() % 10 == 0) topology.Cancel(static_cast<ShardId>(random() % job.shards), id);
    };
    topology.Run();  // expects that everybody leaves
    for (const auto& [id, cut] : topology.cuts()) ExpectOneCut(cut);
  }
}

TEST(SnapshotCut, WhoIsToldToCutWhereItIsHoldsNobodyBack) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    const TestJob job = {.workers = 1 + seed % 4, .shards = 1 + seed % 3, .training = Eventual()};
    TestedTopology topology(job, seed);
    uint64_t asked = 0;
    topology.meanwhile = [&](std::mt19937& random) {
      if (random() % 20 == 0) topology.AskForSnapshot(++asked);
      if (random() % 20 == 0) topology.CutHere(asked + random() % 2);
    };
    topology.Run();  // expects that everybody leaves
  }
}

TEST(SnapshotCut, OfShardsThatAreToldToCutWhereTheyAreChangesNoByteOfASequentialJob) {
  size_t cut = 0;
  for (uint32_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    const TestJob job = {.workers = 1 + seed % 3, .shards = 1 + seed % 3, .training = Sequential()};
    TestedTopology undisturbed(job);
    undisturbed.Run();
    TestedTopology topology(job, seed);
    uint64_t asked = 0;
    topology.meanwhile = [&](std::mt19937& random) {
      if (random() % 20 == 0) topology.AskForSnapshot(++asked);
      if (random() % 20 == 0) topology.CutHere(asked);
    };
    topology.Run(seed % 2 == 0 ? 0.05 : 0);
    cut += topology.cuts().size();
    EXPECT_EQ(topology.Parameters(), undisturbed.Parameters());
    EXPECT_EQ(topology.Embeddings(), undisturbed.Embeddings());
  }
  EXPECT_GT(cut, 30u);
}

TEST(SnapshotCut, OfOneShardIsWhereTheShardIsToldToCut) {
  SnapshotCut cut(2, 2);
  VectorClock clocks(2);
  ASSERT_TRUE(cut.Begin(1, clocks));
  clocks.Advance(0);
  EXPECT_EQ(cut.Reach(clocks), std::nullopt) << "worker 1 has nothing to say";
  EXPECT_TRUE(cut.CutHere(1));
  EXPECT_TRUE(cut.reached());
  EXPECT_FALSE(cut.open());
  EXPECT_FALSE(cut.Mark(0)) << "nobody is to know of it any more";
  cut.Leave();
  EXPECT_FALSE(cut.CutHere(1)) << "it comes twice";
  EXPECT_FALSE(cut.reached());
}

TEST(SnapshotCut, IsToldOnlyOfSnapshotsThatAreNotOver) {
  SnapshotCut cut(2, 1);
  ASSERT_TRUE(cut.Begin(3, VectorClock(2)));
  EXPECT_FALSE(cut.CutHere(2));
  EXPECT_EQ(cut.open(), 3u);
  cut.Cancel(3);
  cut.Leave();
  EXPECT_FALSE(cut.CutHere(3));
  // Of one that it has not heard of it hears by this.
  EXPECT_TRUE(cut.CutHere(4));
  EXPECT_EQ(cut.begun(), 4u);
}

TEST(SnapshotCut, OneThatIsCutWhereAllAreHasTheNextBeginAtOnce) {
  SnapshotCut cut(1, 1);
  VectorClock clocks(1);
  ASSERT_TRUE(cut.Begin(1, clocks));
  clocks.Advance(0);
  clocks.Advance(0);
  ASSERT_EQ(cut.Reach(clocks), 1u);
  cut.Leave();
  EXPECT_FALSE(cut.Begin(2, clocks)) << "the stream rests at the cut";
  EXPECT_EQ(cut.Mark(0)->snapshot(), 1u);
  EXPECT_TRUE(cut.CutHere(2));
  EXPECT_FALSE(cut.Mark(0));
  cut.Leave();
  ASSERT_TRUE(cut.Begin(3, clocks));
  EXPECT_EQ(cut.Mark(0)->cut(), 4u);
}

TEST(SnapshotCut, AShardStoppedAtTheCutGoesOnAsOneThatWasNot) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const TestJob job = {.workers = 3, .shards = 2, .training = Eventual()};
    TestedTopology topology(job, seed);
    topology.meanwhile = [&, asked = 0](std::mt19937& random) mutable {
      if (random() % 20 == 0) topology.AskForSnapshot(static_cast<uint64_t>(++asked));
    };
    topology.Run();
    for (const auto& [id, cut] : topology.cuts()) {
      for (const auto& [shard, part] : cut) {
        ShardState state;
        ASSERT_TRUE(state.ParseFromString(part.state));
        EXPECT_TRUE(state.at_cut());
        EXPECT_FALSE(state.snapshot_open());
        ServerProcessor restarted(MakeServerOptions(job, shard, topology.model()), nullptr);
        ASSERT_TRUE(restarted.LoadState(state).ok());
        EXPECT_TRUE(restarted.at_cut());
        ServerOutput output;
        ASSERT_TRUE(restarted.LeaveCut(output).ok());
        for (const ShardState::Member& member : state.members()) {
          const Clock folded(member.clock() + static_cast<uint64_t>(member.pending_size()));
          EXPECT_EQ(restarted.clocks().clock(WorkerId(member.worker())), folded);
        }
      }
    }
  }
}

}  // namespace
}  // namespace millrace
