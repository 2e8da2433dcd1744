// The table of processes has each shard hosted by one process, and moves it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "processors/master_processor.h"
#include "processors/process_table.h"
#include "tests/processors/master_fixture.h"
#include "topics/control_codec.h"
#include "topics/plan_codec.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ProcessPlan Job(uint32_t processes, uint32_t shards) {
  ProcessGroup group = Group("server", processes, 3);
  group.set_shards(shards);
  return PlanOf({group, Group("worker", 1, 1)});
}

std::vector<uint32_t> ShardsOf(const TestedTable& job, const char* name) {
  const auto& shards = job.Of(name).shards();
  return {shards.begin(), shards.end()};
}

ShardMove MoveOf(uint32_t shard, uint32_t rank) {
  ShardMove move;
  move.set_shard(shard);
  move.set_rank(rank);
  return move;
}

TEST(ProcessShards, AreDealtOutOverAllProcessesBeforeTheseRun) {
  const TestedTable job(Job(2, 5));
  EXPECT_THAT(ShardsOf(job, "server-0"), ElementsAre(0, 2, 4));
  EXPECT_THAT(ShardsOf(job, "server-1"), ElementsAre(1, 3));
  EXPECT_THAT(ShardsOf(job, "worker-0"), IsEmpty());
}

TEST(ProcessShards, StayWithAProcessThatDies) {
  TestedTable job(Job(2, 2));
  job.Run("server-1");
  job.End("server-1", Signal(9));
  EXPECT_THAT(ShardsOf(job, "server-0"), ElementsAre(0));
  EXPECT_THAT(ShardsOf(job, "server-1"), ElementsAre(1));
}

TEST(ProcessShards, MoveToTheProcessThatAUserNames) {
  TestedTable job(Job(2, 2));
  job.table.TakeChanged();
  EXPECT_EQ(job.table.MoveShard(MoveOf(0, 1)), absl::OkStatus());
  EXPECT_THAT(ShardsOf(job, "server-0"), IsEmpty());
  EXPECT_THAT(ShardsOf(job, "server-1"), ElementsAre(0, 1));
  EXPECT_THAT(job.table.TakeChanged(),
              ElementsAre(ProcessTable::Key("server", 0), ProcessTable::Key("server", 1)));
}

TEST(ProcessShards, AreNotMovedTwiceByAMoveThatIsRepeated) {
  TestedTable job(Job(2, 2));
  EXPECT_EQ(job.table.MoveShard(MoveOf(0, 1)), absl::OkStatus());
  job.table.TakeChanged();
  EXPECT_EQ(job.table.MoveShard(MoveOf(0, 1)), absl::OkStatus());
  EXPECT_THAT(job.table.TakeChanged(), IsEmpty());
}

TEST(ProcessShards, StayWhereTheyAreWhenAMoveMakesNoSense) {
  TestedTable job(Job(2, 2));
  const auto why_not = [&](const ShardMove& move) {
    return std::string(job.table.MoveShard(move).message());
  };
  EXPECT_THAT(why_not(MoveOf(2, 1)), HasSubstr("no shard 2"));
  EXPECT_THAT(why_not(MoveOf(0, 2)), HasSubstr("server-2, which is not in the plan"));
  job.Run("server-1");
  job.End("server-1", Exit(0));
  EXPECT_THAT(why_not(MoveOf(0, 1)), HasSubstr("server-1, which does not run any more"));
  EXPECT_THAT(ShardsOf(job, "server-0"), ElementsAre(0));
  job.Stop();
  EXPECT_THAT(why_not(MoveOf(1, 0)), HasSubstr("cannot be moved"));
}

TEST(ProcessShards, StayWhereTheyWereMovedWhenAnotherPlanHasTheSameProcesses) {
  TestedTable job(Job(2, 4));
  EXPECT_EQ(job.table.MoveShard(MoveOf(0, 1)), absl::OkStatus());
  ProcessPlan plan = Job(2, 4);
  plan.mutable_groups(0)->add_command("--other");
  job.Apply(plan);
  EXPECT_THAT(ShardsOf(job, "server-0"), ElementsAre(2));
  EXPECT_THAT(ShardsOf(job, "server-1"), ElementsAre(0, 1, 3));
}

TEST(ProcessShards, AreDealtOutAgainOverAnotherNumberOfProcesses) {
  TestedTable job(Job(1, 4));
  EXPECT_THAT(ShardsOf(job, "server-0"), ElementsAre(0, 1, 2, 3));
  job.Apply(Job(4, 4));
  EXPECT_THAT(ShardsOf(job, "server-0"), ElementsAre(0));
  EXPECT_THAT(ShardsOf(job, "server-3"), ElementsAre(3));
  for (const char* name : {"server-0", "server-1", "server-2", "server-3"}) job.Run(name);
  job.Apply(Job(2, 4));
  EXPECT_THAT(ShardsOf(job, "server-0"), ElementsAre(0, 2));
  EXPECT_THAT(ShardsOf(job, "server-1"), ElementsAre(1, 3));
  EXPECT_THAT(ShardsOf(job, "server-2"), IsEmpty());
}

TEST(ProcessShards, AreWhereTheyWereMovedForTheNextMaster) {
  const auto encoded = [](const auto& fill) {
    ControlRecord record;
    record.set_epoch(1);
    fill(record);
    return EncodeControl(record);
  };
  MasterProcessor master(1);
  EXPECT_EQ(master.Fold(Offset(0), encoded([](auto& r) { *r.mutable_plan() = Job(2, 2); })), "");
  EXPECT_EQ(master.Fold(Offset(1), encoded([](auto& r) { *r.mutable_move() = MoveOf(0, 1); })), "");
  std::map<std::string, std::string> plan;
  for (const auto& [key, value] : master.TakeChanges()) plan[key] = value.value();
  const StatusOr<MasterProcessor> next = MasterProcessor::Restore(1, plan);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_THAT(next->processes().at(1).shards(), ElementsAre(0, 1));
  // A plan that was damaged is not used.
  ProcessState server = next->processes().at(1);
  server.clear_shards();
  plan["process:server-1"] = EncodePlanValue(server);
  EXPECT_THAT(std::string(MasterProcessor::Restore(1, plan).status().message()),
              HasSubstr("a shard is hosted by nobody"));
}

}  // namespace
}  // namespace millrace
