// The table of processes has each shard hosted by one process, and moves it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

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

ShardLayout LayoutOf(uint32_t number, uint32_t shards) {
  ShardLayout layout;
  layout.set_number(number);
  layout.set_shards(shards);
  return layout;
}

TEST(ProcessShards, AreThoseOfTheNextLayoutFromTheMomentThatItIsInForce) {
  TestedTable job(Job(2, 2));
  EXPECT_EQ(job.table.MoveShard(MoveOf(0, 1)), absl::OkStatus());
  EXPECT_EQ(job.table.Reshard(LayoutOf(1, 5)), absl::OkStatus());
  EXPECT_EQ(job.table.next_shards(), 5u);
  EXPECT_THAT(ShardsOf(job, "server-1"), ElementsAre(0, 1));
  job.table.TakeChanged();
  EXPECT_EQ(job.table.HaveLayout(LayoutOf(1, 5)), absl::OkStatus());
  EXPECT_EQ(job.table.next_shards(), 0u);
  size_t shards = 0;
  for (const char* name : {"server-0", "server-1"}) {
    EXPECT_EQ(job.Of(name).layout(), 1u);
    EXPECT_GE(ShardsOf(job, name).size(), 2u) << name;
    shards += ShardsOf(job, name).size();
  }
  EXPECT_EQ(shards, 5u);
  EXPECT_THAT(job.table.TakeChanged(),
              ElementsAre(ProcessTable::Key("server", 0), ProcessTable::Key("server", 1)));
  EXPECT_EQ(job.table.HaveLayout(LayoutOf(1, 5)), absl::OkStatus());  // it is said again
  EXPECT_THAT(job.table.TakeChanged(), IsEmpty());
  // The plan of the job's beginning has the shards of then.
  ProcessPlan plan = Job(2, 2);
  plan.mutable_groups(0)->add_command("--other");
  job.Apply(plan);
  EXPECT_EQ(ShardsOf(job, "server-0").size() + ShardsOf(job, "server-1").size(), 5u);
  EXPECT_EQ(job.table.MoveShard(MoveOf(4, 0)), absl::OkStatus());
  EXPECT_FALSE(job.table.MoveShard(MoveOf(5, 0)).ok());
  EXPECT_EQ(job.table.Reshard(LayoutOf(2, 1)), absl::OkStatus());
  EXPECT_EQ(job.table.HaveLayout(LayoutOf(2, 1)), absl::OkStatus());
  EXPECT_EQ(ShardsOf(job, "server-0").size() + ShardsOf(job, "server-1").size(), 1u);
}

TEST(ProcessShards, AreChangedOnceByAnOrderThatIsRepeated) {
  TestedTable job(Job(2, 2));
  EXPECT_EQ(job.table.Reshard(LayoutOf(1, 5)), absl::OkStatus());
  EXPECT_EQ(job.table.Reshard(LayoutOf(1, 5)), absl::OkStatus());
  EXPECT_EQ(job.table.HaveLayout(LayoutOf(1, 5)), absl::OkStatus());
  EXPECT_EQ(job.table.Reshard(LayoutOf(1, 5)), absl::OkStatus());
  EXPECT_EQ(job.table.next_shards(), 0u);
}

TEST(ProcessShards, StayAsManyAsTheyAreWhenAnOrderMakesNoSense) {
  TestedTable job(Job(2, 2));
  const auto why_not = [&](const ShardLayout& next) {
    return std::string(job.table.Reshard(next).message());
  };
  EXPECT_THAT(why_not(LayoutOf(2, 5)), HasSubstr("cannot go over to layout 2"));
  EXPECT_THAT(why_not(LayoutOf(1, 2)), HasSubstr("has 2 shards already"));
  EXPECT_EQ(why_not(LayoutOf(1, 5)), "");
  EXPECT_THAT(why_not(LayoutOf(1, 4)), HasSubstr("is going over to 5 shards"));
  job.Stop();
  EXPECT_THAT(why_not(LayoutOf(1, 4)), HasSubstr("cannot be changed"));
  TestedTable nobody(PlanOf({Group("worker", 1, 1)}));
  EXPECT_FALSE(nobody.table.Reshard(LayoutOf(1, 2)).ok());
}

// A master, by the commands that it has folded.
class FoldedMaster {
 public:
  FoldedMaster() {
    EXPECT_EQ(Fold([](auto& r) { *r.mutable_plan() = Job(2, 2); }), "");
  }

  // `fill` makes the command of an empty record. Returns why it was refused.
  std::string Fold(const std::function<void(ControlRecord&)>& fill) {
    ControlRecord record;
    record.set_epoch(1);
    fill(record);
    return master_.Fold(Offset(offset_++), EncodeControl(record));
  }
  // What the topic has for the next one, by key.
  std::map<std::string, std::string> TakePlan() {
    std::map<std::string, std::string> plan;
    for (const auto& [key, value] : master_.TakeChanges()) plan[key] = value.value();
    return plan;
  }
  MasterState state() const { return master_.state(); }

 private:
  MasterProcessor master_{1};
  int64_t offset_ = 0;
};

TEST(ProcessShards, AndWorkersDoNotChangeAtTheSameTime) {
  FoldedMaster master;
  EXPECT_EQ(master.Fold([](auto& r) {
    LeaseCommand::Begin& begin = *r.mutable_lease()->mutable_begin();
    begin.set_workers(2);
    begin.set_partitions(2);
    begin.set_most_workers(8);
    begin.set_open_leases(3);
  }),
            "");
  EXPECT_EQ(master.Fold([](auto& r) { *r.mutable_reshard() = LayoutOf(1, 5); }), "");
  const auto resize = [](auto& r) { r.mutable_lease()->mutable_resize()->set_workers(4); };
  EXPECT_THAT(master.Fold(resize), HasSubstr("is still changing its shards"));
  EXPECT_EQ(master.Fold([](auto& r) { *r.mutable_layout() = LayoutOf(1, 5); }), "");
  EXPECT_EQ(master.Fold(resize), "");
  EXPECT_THAT(master.Fold([](auto& r) { *r.mutable_reshard() = LayoutOf(2, 1); }),
              HasSubstr("is still changing its workers"));
}

TEST(ProcessShards, AreOfTheSameLayoutForTheNextMaster) {
  FoldedMaster master;
  EXPECT_EQ(master.Fold([](auto& r) { *r.mutable_layout() = LayoutOf(1, 5); }), "");
  EXPECT_EQ(master.Fold([](auto& r) { *r.mutable_reshard() = LayoutOf(2, 3); }), "");
  std::map<std::string, std::string> plan = master.TakePlan();
  const StatusOr<MasterProcessor> next = MasterProcessor::Restore(1, plan);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->state().DebugString(), master.state().DebugString());
  EXPECT_EQ(next->state().layout().shards(), 5u);
  EXPECT_EQ(next->state().next_shards(), 3u);
  ProcessState server = next->processes().at(0);
  server.set_layout(0);
  plan["process:server-0"] = EncodePlanValue(server);
  EXPECT_THAT(std::string(MasterProcessor::Restore(1, plan).status().message()),
              HasSubstr("shards of another layout"));
}

TEST(ProcessShards, AreWhereTheyWereMovedForTheNextMaster) {
  FoldedMaster master;
  EXPECT_EQ(master.Fold([](auto& r) { *r.mutable_move() = MoveOf(0, 1); }), "");
  std::map<std::string, std::string> plan = master.TakePlan();
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
