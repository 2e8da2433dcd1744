// The cut at which a job goes over to another number of shards, whatever order messages come in and
// whoever dies.
#include "processors/shard_seal.h"

#include "tests/processors/topology.h"

namespace millrace {
namespace {

Training TrainingOf(uint32_t kind) {
  Training training;
  *training.mutable_consistency() = {};
  if (kind == 0) return training;
  training.mutable_consistency()->set_model(Training::Consistency::EVENTUAL);
  return training;
}

std::string StateOf(const ServerProcessor& server) {
  ShardState state;
  server.SaveState(state);
  // What a worker has asked for last is for answers only.
  for (ShardState::Member& member : *state.mutable_members()) member.clear_wanted();
  state.clear_partial();
  state.mutable_counters()->clear_refused();
  return state.SerializeAsString();
}

// What each shard was when it was sealed.
struct Sealed {
  VectorClock clocks;
  std::vector<float> weights;
  std::string state;
};

void LookForSeals(const TestedTopology& topology, uint32_t shards,
                  std::map<ShardId, Sealed>& sealed) {
  for (ShardId shard = 0; shard < shards; ++shard) {
    const ServerProcessor& server = topology.server(shard);
    if (!server.seal().is_sealed() || sealed.contains(shard)) continue;
    const auto weights = server.shard().weights();
    sealed[shard] = {server.clocks(), {weights.begin(), weights.end()}, StateOf(server)};
  }
}

TEST(ShardSeal, SealsAllShardsAtTheSameClockOfEveryWorkerAndForGood) {
  size_t jobs = 0;
  size_t in_the_middle = 0;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const TestJob job = {.workers = 1 + seed % 4,
                         .shards = 1 + seed / 2 % 3,
                         .training = TrainingOf(seed % 2),
                         .rows_first = seed % 5 != 0};
    TestedTopology topology(job, seed);
    std::map<ShardId, Sealed> sealed;
    uint64_t asked = 0;
    topology.meanwhile = [&](std::mt19937& random) {
      if (random() % 20 == 0) topology.Reshard(job.shards + 1);
      if (random() % 50 == 0) topology.AskForSnapshot(++asked);
      LookForSeals(topology, job.shards, sealed);
    };
    topology.Run(seed % 7 == 0 ? 0.05 : 0);
    LookForSeals(topology, job.shards, sealed);
    if (sealed.empty()) continue;  // it has ended before
    ASSERT_EQ(sealed.size(), job.shards);
    ++jobs;
    for (const auto& [shard, was] : sealed) {
      EXPECT_EQ(was.clocks, sealed.at(ShardId(0)).clocks) << "shard " << shard;
      EXPECT_EQ(topology.server(shard).seal().next_shards(), job.shards + 1);
      EXPECT_EQ(StateOf(topology.server(shard)), was.state) << "shard " << shard;
      EXPECT_TRUE(std::ranges::equal(topology.server(shard).shard().weights(), was.weights));
      if (was.clocks.present() > 0) ++in_the_middle;
    }
  }
  EXPECT_GT(jobs, 66u);
  EXPECT_GT(in_the_middle, 66u);
}

TEST(ShardSeal, IsNotToBeHadWhereAllHaveLeftBeforeIt) {
  const TestJob job = {.workers = 2, .shards = 2, .training = TrainingOf(1)};
  TestedTopology topology(job);
  topology.Run();
  topology.Reshard(3);
  topology.meanwhile = nullptr;
  topology.Run();
  EXPECT_FALSE(topology.server(ShardId(0)).seal().has_begun());
  EXPECT_TRUE(topology.AllLeft());
}

TEST(ShardSeal, IsBegunByShard0OnlyAndInTheLayoutThatWasMeant) {
  const TestJob job = {.workers = 1, .shards = 2, .training = TrainingOf(0)};
  TestedTopology topology(job);
  topology.Reshard(3, 1);
  topology.Reshard(2);  // it has so many
  topology.Run();
  EXPECT_FALSE(topology.server(ShardId(0)).seal().has_begun());
  EXPECT_FALSE(topology.server(ShardId(1)).seal().has_begun());
}

VectorClock ClocksAt(uint64_t first, uint64_t second) {
  VectorClock clocks(2);
  clocks.Set(WorkerId(0), {.clock = Clock(first), .left = false});
  clocks.Set(WorkerId(1), {.clock = Clock(second), .left = false});
  return clocks;
}

TEST(ShardSeal, IsOneUpdateBehindThoseThatMayBeInFlight) {
  ShardSeal seal(3);
  ASSERT_TRUE(seal.Begin(5, ClocksAt(7, 2)));
  EXPECT_EQ(seal.Mark(WorkerId(0))->cut(), 11u);
  EXPECT_EQ(seal.Mark(WorkerId(1))->cut(), 6u);
  EXPECT_EQ(seal.Mark(WorkerId(1))->next_shards(), 5u);
  EXPECT_FALSE(seal.Begin(4, ClocksAt(7, 2))) << "there is one";
  EXPECT_FALSE(seal.Reach(ClocksAt(11, 5)));
  EXPECT_FALSE(seal.is_sealed());
  EXPECT_TRUE(seal.Reach(ClocksAt(11, 6)));
  EXPECT_FALSE(seal.Reach(ClocksAt(11, 6))) << "it is no news any more";
  EXPECT_TRUE(seal.is_sealed());
}

TEST(ShardSeal, IsWhatWasSaved) {
  ShardSeal seal(1);
  ASSERT_TRUE(seal.Begin(5, ClocksAt(7, 2)));
  ShardState state;
  seal.Save(state);
  ShardSeal loaded(1);
  ASSERT_TRUE(loaded.Load(state, 2).ok());
  EXPECT_FALSE(loaded.is_sealed());
  EXPECT_TRUE(loaded.Reach(ClocksAt(9, 4)));
  EXPECT_EQ(loaded.next_shards(), 5u);
  ShardState sealed;
  loaded.Save(sealed);
  ASSERT_TRUE(seal.Load(sealed, 2).ok());
  EXPECT_TRUE(seal.is_sealed());
  EXPECT_FALSE(seal.Load(sealed, 1).ok()) << "a worker that the job does not have";
  sealed.mutable_seal()->set_next_shards(0);
  EXPECT_FALSE(seal.Load(sealed, 2).ok());
  sealed.mutable_seal()->set_next_shards(1001);
  EXPECT_FALSE(seal.Load(sealed, 2).ok());
}

}  // namespace
}  // namespace millrace
