#include "topics/control_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "topics/frame.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ProcessPlan GoodPlan() {
  ProcessPlan plan;
  for (const char* name : {"server", "worker"}) {
    ProcessGroup& group = *plan.add_groups();
    group.set_name(name);
    group.set_count(2);
    group.add_command("/bin/true");
    group.set_least(1);
  }
  return plan;
}

ControlRecord RecordOf(const ProcessPlan& plan) {
  ControlRecord record;
  record.set_epoch(1);
  *record.mutable_plan() = plan;
  return record;
}

template <class Change>
std::string WhyNot(const Change& change) {
  ProcessPlan plan = GoodPlan();
  change(plan, *plan.mutable_groups(1));
  const Status status = CheckPlan(plan);
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  return std::string(TextOf(status));
}

TEST(ProcessPlan, IsCheckedBeforeItIsUsed) {
  using P = ProcessPlan;
  using G = ProcessGroup;
  EXPECT_EQ(CheckPlan(GoodPlan()), absl::OkStatus());
  EXPECT_THAT(WhyNot([](P& p, G&) { p.clear_groups(); }), HasSubstr("without a process"));
  ProcessPlan tasks_alone;
  tasks_alone.set_run_dir("/run");
  EXPECT_EQ(CheckPlan(tasks_alone), absl::OkStatus());
  EXPECT_THAT(WhyNot([](P&, G& g) { g.set_name("server"); }), HasSubstr("the group server twice"));
  EXPECT_THAT(WhyNot([](P&, G& g) { g.set_name("../x"); }), HasSubstr("\"../x\""));
  EXPECT_THAT(WhyNot([](P&, G& g) { g.set_count(0); }), HasSubstr("worker has no processes"));
  EXPECT_THAT(WhyNot([](P&, G& g) { g.set_count(1001); }), HasSubstr("1001 is out of range"));
  EXPECT_THAT(WhyNot([](P&, G& g) { g.set_count(999); }), HasSubstr("processes: 1001"));
  EXPECT_THAT(WhyNot([](P&, G& g) { g.set_least(3); }), HasSubstr("needs 3 processes (least)"));
  EXPECT_THAT(WhyNot([](P&, G& g) { g.set_most_failures(0); }), HasSubstr("most_failures 0"));
  EXPECT_THAT(WhyNot([](P&, G& g) { g.set_logical_workers(10'001); }),
              HasSubstr("logical workers of the group worker: 10001"));
  EXPECT_THAT(WhyNot([](P& p, G& g) {
                p.mutable_groups(0)->set_logical_workers(1);
                g.set_logical_workers(1);
              }),
              HasSubstr("logical workers to two groups, server and worker"));
  EXPECT_THAT(WhyNot([](P&, G& g) { g.set_shards(1'001); }),
              HasSubstr("shards of the group worker: 1001"));
  EXPECT_THAT(WhyNot([](P& p, G& g) {
                p.mutable_groups(0)->set_shards(1);
                g.set_shards(1);
              }),
              HasSubstr("shards to two groups, server and worker"));
  EXPECT_THAT(WhyNot([](P&, G& g) { g.clear_command(); }), HasSubstr("worker is empty"));
  EXPECT_THAT(WhyNot([](P&, G& g) { g.set_command(0, ""); }), HasSubstr("worker is empty"));
  EXPECT_THAT(WhyNot([](P&, G& g) { g.add_command(std::string(1, '\0')); }), HasSubstr("byte 0"));
  EXPECT_THAT(WhyNot([](P&, G& g) { g.add_command(std::string(kMostCommandBytes, 'x')); }),
              HasSubstr("bytes of the command of the group worker"));
  EXPECT_THAT(WhyNot([](P& p, G&) { p.set_slots(1); }),
              HasSubstr("so many processes are needed at a time: 2"));
}

TEST(ProcessPlan, LeavesNoGroupThatTheJobNeedsWaitingForEverForASlot) {
  ProcessPlan plan = GoodPlan();
  plan.mutable_groups(0)->set_priority(3);
  plan.set_slots(3);
  EXPECT_EQ(CheckPlan(plan), absl::OkStatus());
  plan.set_slots(2);  // so many are needed at a time, but both are the servers'
  EXPECT_EQ(std::string(TextOf(CheckPlan(plan))),
            "the group worker would wait for ever: of the 2 slots (--slots) 2 go to the processes "
            "of higher groups (server), and the job needs 1 of this one; give at least 3 slots, or "
            "0: no limit");
  plan.set_slots(0);
  EXPECT_EQ(CheckPlan(plan), absl::OkStatus());
  plan.set_slots(2);
  plan.mutable_groups(1)->set_priority(4);  // it comes first
  EXPECT_THAT(std::string(TextOf(CheckPlan(plan))), HasSubstr("the group server would wait"));
  plan.mutable_groups(0)->set_least(0);
  EXPECT_EQ(CheckPlan(plan), absl::OkStatus()) << "the job can do without it";
}

TEST(ProcessPlan, OfTheSamePriorityTheFirstByNameHasItsSlotsFirst) {
  ProcessPlan plan = GoodPlan();
  std::swap(*plan.mutable_groups(0), *plan.mutable_groups(1));
  plan.set_slots(2);
  EXPECT_THAT(std::string(TextOf(CheckPlan(plan))),
              HasSubstr("the group worker would wait for ever: of the 2 slots (--slots) 2 go to "
                        "the processes of higher groups (server)"));
}

TEST(ProcessPlan, IsNotLargerThanAStateThatMustFitIntoARecord) {
  ProcessPlan plan = GoodPlan();
  for (int i = 0; i < 20; ++i) {
    ProcessGroup& group = *plan.add_groups();
    group = plan.groups(0);
    group.set_name("group-" + std::to_string(i));
    group.add_command(std::string(kMostCommandBytes - 100, 'x'));
  }
  EXPECT_THAT(std::string(TextOf(CheckPlan(plan))), HasSubstr("bytes of the plan"));
}

TEST(ProcessPlan, GivesEachProcessACommandWithItsRank) {
  ProcessGroup group;
  for (const char* argument : {"/bin/{rank}", "--data=run/{rank}/{rank}", "{ran", "{rank"}) {
    group.add_command(argument);
  }
  EXPECT_THAT(CommandOf(group, 17), ElementsAre("/bin/17", "--data=run/17/17", "{ran", "{rank"));
}

TEST(ControlRecord, IsReadAsItWasWritten) {
  ProcessPlan plan = GoodPlan();
  plan.mutable_groups(0)->add_command("\xff\xfe is no UTF-8");
  const StatusOr<ControlRecord> record = DecodeControl(EncodeControl(RecordOf(plan)), 1);
  ASSERT_TRUE(record.ok());
  EXPECT_EQ(record->SerializeAsString(), RecordOf(plan).SerializeAsString());
}

TEST(ControlRecord, IsRefusedWithTheReason) {
  const auto why_not = [](const std::string& value, uint64_t epoch = 1) {
    const StatusOr<ControlRecord> record = DecodeControl(value, epoch);
    EXPECT_TRUE(absl::IsInvalidArgument(record.status()));
    return std::string(TextOf(record.status()));
  };
  const std::string good = EncodeControl(RecordOf(GoodPlan()));
  EXPECT_THAT(why_not(good, 2), HasSubstr("a command of job epoch 1, not 2"));
  EXPECT_NE(why_not(""), "");
  EXPECT_THAT(why_not(good + "\x07"), HasSubstr("not a millrace.ControlRecord"));
  EXPECT_THAT(why_not(MakeFrames(std::string(100, 'x'), 1, 60).front()),
              HasSubstr("a part of a message"));
  ControlRecord record;
  record.set_epoch(1);
  EXPECT_THAT(why_not(EncodeControl(record)), HasSubstr("an unknown kind"));
  ProcessReport& report = *record.mutable_report();
  report.mutable_process()->set_group("worker");
  EXPECT_THAT(why_not(EncodeControl(record)), HasSubstr("incarnation 0"));
  report.set_incarnation(1);
  EXPECT_TRUE(DecodeControl(EncodeControl(record), 1).ok());
  report.mutable_end()->set_detail(std::string(kMostEndDetailBytes + 1, 'x'));
  EXPECT_THAT(why_not(EncodeControl(record)), HasSubstr("bytes of an end's detail"));
  report.mutable_end()->clear_detail();
  report.mutable_end()->set_cause(static_cast<ProcessEnd::Cause>(9));
  EXPECT_THAT(why_not(EncodeControl(record)), HasSubstr("a cause that is not known: 9"));
  report.mutable_process()->set_rank(kMostProcesses);
  EXPECT_THAT(why_not(EncodeControl(record)), HasSubstr("rank 1000"));
}

}  // namespace
}  // namespace millrace
