// What a process reads in `plan` of the workers that it hosts.
#include "topics/planned_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>

#include "topics/plan_codec.h"
#include "topics/process_name.h"
#include "topics/topics.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

void Take(PlannedHosts& hosts, const char* name, uint64_t incarnation,
          std::initializer_list<uint32_t> workers) {
  ProcessState process;
  *process.mutable_process() = ParseProcessName(name).value();
  process.set_incarnation(incarnation);
  for (const uint32_t worker : workers) process.add_workers(worker);
  hosts.Take(ProcessPlanKey(process.process()), EncodePlanValue(process));
}

TEST(PlannedHosts, AreToldByTheNewestRecordOfAProcess) {
  PlannedHosts hosts;
  Take(hosts, "worker-0", 3, {0, 1});
  Take(hosts, "worker-1", 4, {2});
  EXPECT_THAT(hosts.WorkersOf({"worker-0", 3}), ElementsAre(0, 1));
  Take(hosts, "worker-0", 3, {1, 3});
  EXPECT_THAT(hosts.WorkersOf({"worker-0", 3}), ElementsAre(1, 3));
  EXPECT_THAT(hosts.WorkersOf({"worker-1", 4}), ElementsAre(2));
  EXPECT_THAT(hosts.Names(), ElementsAre("worker-0", "worker-1"));
}

TEST(PlannedHosts, SayOfWhichLayoutTheShardsAre) {
  PlannedHosts hosts;
  EXPECT_EQ(hosts.LayoutOf({"server-0", 1}), 0u);
  ProcessState process;
  *process.mutable_process() = ParseProcessName("server-0").value();
  process.set_incarnation(1);
  process.add_shards(2);
  process.set_layout(3);
  hosts.Take(ProcessPlanKey(process.process()), EncodePlanValue(process));
  EXPECT_EQ(hosts.LayoutOf({"server-0", 1}), 3u);
  EXPECT_THAT(hosts.ShardsOf({"server-0", 1}), ElementsAre(2));
}

TEST(PlannedHosts, AreNotAnotherIncarnationOfTheProcess) {
  PlannedHosts hosts;
  Take(hosts, "worker-0", 3, {0, 1});
  EXPECT_THAT(hosts.WorkersOf({"worker-0", 2}), IsEmpty());
  EXPECT_TRUE(hosts.IsReplaced({"worker-0", 2}));
  EXPECT_THAT(hosts.WorkersOf({"worker-0", 4}), IsEmpty()) << "its record is still to come";
  EXPECT_FALSE(hosts.IsReplaced({"worker-0", 4}));
}

TEST(PlannedHosts, AreNotWhatIsNotInThePlanAnyMore) {
  PlannedHosts hosts;
  Take(hosts, "worker-0", 3, {0, 1});
  hosts.Take("process:worker-0", {});
  EXPECT_THAT(hosts.WorkersOf({"worker-0", 3}), IsEmpty());
  EXPECT_THAT(hosts.Names(), IsEmpty());
  Take(hosts, "worker-0", 5, {});
  EXPECT_THAT(hosts.Names(), IsEmpty());
}

TEST(PlannedHosts, AreNotToldByOtherRecordsAndDamage) {
  PlannedHosts hosts;
  Take(hosts, "worker-0", 3, {0, 1});
  Take(hosts, "worker-0", 3, {kMostWorkers});
  ProcessState other;
  *other.mutable_process() = ParseProcessName("worker-1").value();
  hosts.Take("process:worker-0", EncodePlanValue(other));
  hosts.Take("process:worker-0", "damage");
  hosts.Take("state", "anything");
  hosts.Take("", {});
  EXPECT_THAT(hosts.WorkersOf({"worker-0", 3}), ElementsAre(0, 1));
}

void TakeShards(PlannedHosts& hosts, uint64_t incarnation, std::initializer_list<uint32_t> shards) {
  ProcessState process;
  *process.mutable_process() = ParseProcessName("server-1").value();
  process.set_incarnation(incarnation);
  for (const uint32_t shard : shards) process.add_shards(shard);
  hosts.Take(ProcessPlanKey(process.process()), EncodePlanValue(process));
}

TEST(PlannedHosts, HostShardsAsTheNewestRecordOfTheirIncarnationSays) {
  PlannedHosts hosts;
  EXPECT_THAT(hosts.ShardsOf({"server-1", 3}), IsEmpty());
  TakeShards(hosts, 3, {0, 2});
  EXPECT_THAT(hosts.ShardsOf({"server-1", 3}), ElementsAre(0, 2));
  EXPECT_THAT(hosts.Names(), IsEmpty()) << "those of workers";
  TakeShards(hosts, 3, {2});
  EXPECT_THAT(hosts.ShardsOf({"server-1", 3}), ElementsAre(2));
  EXPECT_EQ(hosts.HostOf(2), "server-1");
  EXPECT_EQ(hosts.HostOf(0), "");
  TakeShards(hosts, 4, {2, 3});
  EXPECT_THAT(hosts.ShardsOf({"server-1", 3}), IsEmpty()) << "another has taken its place";
  EXPECT_THAT(hosts.ShardsOf({"server-1", 4}), ElementsAre(2, 3));
  hosts.Take("process:server-1", {});
  EXPECT_THAT(hosts.ShardsOf({"server-1", 4}), IsEmpty());
}

TEST(PlannedHosts, HostNoShardsThatNoJobHas) {
  PlannedHosts hosts;
  TakeShards(hosts, 3, {0, 2});
  TakeShards(hosts, 3, {0, kMostShards});
  TakeShards(hosts, 3, {2, 1});
  EXPECT_THAT(hosts.ShardsOf({"server-1", 3}), ElementsAre(0, 2));
}

TEST(Incarnation, IsANameAndANumber) {
  const StatusOr<Incarnation> incarnation = Incarnation::Parse("worker-12:345");
  ASSERT_EQ(incarnation.status(), absl::OkStatus());
  EXPECT_EQ(incarnation->process, "worker-12");
  EXPECT_EQ(incarnation->number, 345u);
}

TEST(Incarnation, IsNothingElse) {
  for (const char* text :
       {"", "worker-1", "worker:1", "worker-1:", "worker-1:0", "worker-1:x", "worker-1:1x",
        "worker-1:-1", "Worker-1:1", "worker-1:1:2", "worker-1:99999999999999999999"}) {
    const Status refused = Incarnation::Parse(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << text;
    EXPECT_THAT(std::string(TextOf(refused)), HasSubstr("for example worker-0:1")) << text;
  }
}

}  // namespace
}  // namespace millrace
