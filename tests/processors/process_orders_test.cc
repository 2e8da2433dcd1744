// What a launcher is told to do, and what it is believed.
#include "processors/process_orders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/processors/master_fixture.h"
#include "topics/control_codec.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// "START worker-0", without the incarnation, which is compared where it matters.
std::vector<std::string> Texts(const std::vector<ProcessOrder>& orders) {
  std::vector<std::string> texts;
  for (const ProcessOrder& order : orders) {
    texts.push_back(ProcessOrder::Kind_Name(order.kind()) + " " + ToText(order.process()));
  }
  return texts;
}

std::vector<std::string> Texts(const std::vector<ProcessReport>& reports) {
  std::vector<std::string> texts;
  for (const ProcessReport& report : reports) {
    texts.push_back(ToText(report.process()) +
                    (report.has_end() ? ": " + ToText(report.end()) : " runs"));
  }
  return texts;
}

ProcessPlan Job() {
  return PlanOf({Group("producer", 1, 2), Group("server", 1, 3), Group("worker", 2, 1)});
}

// All incarnations 1 .. 4, in the order of priority.
std::vector<ProcessReport> AllRun() {
  return {Runs("server-0", 1), Runs("producer-0", 2), Runs("worker-0", 3), Runs("worker-1", 4)};
}

TEST(ProcessOrders, StartTheHigherPriorityFirst) {
  const TestedTable job(Job());
  const std::vector<ProcessOrder> orders = OrdersOf(job.table, {});
  EXPECT_THAT(Texts(orders), ElementsAre("START server-0", "START producer-0", "START worker-0",
                                         "START worker-1"));
  EXPECT_EQ(orders[3].incarnation(), 4u);
  EXPECT_THAT(orders[3].command(), ElementsAre("/bin/worker", "--rank=1"));
}

TEST(ProcessOrders, TellAProcessTheNumberOfItsStart) {
  ProcessGroup group = Group("worker", 1, 1);
  group.add_command("--self=worker-{rank}:{incarnation}");
  TestedTable job(PlanOf({group}));
  const auto told = [&job] { return OrdersOf(job.table, {}).at(0).command(2); };
  EXPECT_EQ(told(), "--self=worker-0:1");
  job.End("worker-0", Signal(9));
  job.Ticks(1);
  EXPECT_EQ(told(), "--self=worker-0:2");
  job.Apply(PlanOf({group}));
  EXPECT_EQ(told(), "--self=worker-0:2") << "its command is still that of the plan";
}

TEST(ProcessOrders, AreRepeatedUntilTheLauncherHasSeenThem) {
  const TestedTable job(Job());
  EXPECT_THAT(Texts(OrdersOf(job.table, {Runs("server-0", 1), Ends("worker-0", 3, Exit(0))})),
              ElementsAre("START producer-0", "START worker-1"));
  EXPECT_THAT(OrdersOf(job.table, AllRun()), IsEmpty());
}

TEST(ProcessOrders, StopUntilItHasEnded) {
  TestedTable job(Job());
  for (const ProcessReport& report : AllRun()) job.Report(report);
  job.Stop();
  std::vector<ProcessReport> seen = AllRun();
  EXPECT_THAT(Texts(OrdersOf(job.table, seen)), ElementsAre("STOP worker-0", "STOP worker-1"));
  seen[2] = Ends("worker-0", 3, Exit(130));
  EXPECT_THAT(Texts(OrdersOf(job.table, seen)), ElementsAre("STOP worker-1"));
}

TEST(ProcessOrders, StopWhatMayNotHaveBeenStartedYet) {
  TestedTable job(Job());
  job.Stop();
  EXPECT_THAT(Texts(OrdersOf(job.table, {})), ElementsAre("STOP worker-0", "STOP worker-1"));
}

TEST(ProcessOrders, StopTheLowestPriorityFirst) {
  TestedTable job(Job());
  job.Apply(PlanOf({Group("other", 1, 1)}));
  EXPECT_THAT(Texts(OrdersOf(job.table, {})),
              ElementsAre("STOP producer-0", "STOP server-0", "STOP worker-0", "STOP worker-1",
                          "START other-0"))
      << "of no priority any more: by name, before anything is started";
  ProcessGroup server = Group("server", 1, 3);
  ProcessGroup worker = Group("worker", 1, 1);
  TestedTable second(PlanOf({server, worker}));
  server.add_command("--other");
  worker.add_command("--other");
  second.Apply(PlanOf({server, worker}));
  EXPECT_THAT(Texts(OrdersOf(second.table, {})), ElementsAre("STOP worker-0", "STOP server-0"));
}

TEST(ProcessOrders, StopWhatRunsThoughItsEndIsKnownAndStartNothingBesideIt) {
  TestedTable job(PlanOf({Group("worker", 1, 1)}));
  job.Run("worker-0");
  job.Ticks(1);
  job.End("worker-0", EndBy(ProcessEnd::UNKNOWN));
  ASSERT_EQ(job.Of("worker-0").incarnation(), 2u);
  EXPECT_THAT(Texts(OrdersOf(job.table, {Runs("worker-0", 1)})), ElementsAre("STOP worker-0"));
  EXPECT_EQ(OrdersOf(job.table, {Runs("worker-0", 1)})[0].incarnation(), 1u);
  EXPECT_THAT(Texts(OrdersOf(job.table, {Ends("worker-0", 1, Exit(0))})),
              ElementsAre("START worker-0"));
}

TEST(ProcessOrders, LeaveWhatANewerMasterHasStartedAlone) {
  TestedTable job(PlanOf({Group("worker", 1, 1)}));
  job.Run("worker-0");
  const std::vector<ProcessReport> seen = {Ends("worker-0", 1, Exit(1)), Runs("worker-0", 2),
                                           Runs("server-0", 3)};
  EXPECT_THAT(OrdersOf(job.table, seen), IsEmpty());
  EXPECT_THAT(Texts(ReportsOf(job.table, seen)), ElementsAre("worker-0: exit code 1"));
  EXPECT_THAT(OverIn(job.table, {Ends("worker-0", 2, Exit(1))}), IsEmpty());
}

TEST(ProcessReports, SayOnlyWhatIsNotKnown) {
  TestedTable job(Job());
  job.Run("server-0");
  job.Run("worker-0");
  const std::vector<ProcessReport> seen = {Runs("server-0", 1), Runs("producer-0", 2),
                                           Ends("worker-0", 3, Signal(9)),
                                           Ends("worker-1", 4, Exit(0))};
  EXPECT_THAT(
      Texts(ReportsOf(job.table, seen)),
      ElementsAre("producer-0 runs", "worker-0: signal 9 (SIGKILL)", "worker-1: exit code 0"));
  for (const ProcessReport& report : ReportsOf(job.table, seen)) job.Report(report);
  EXPECT_THAT(ReportsOf(job.table, seen), IsEmpty());
}

TEST(ProcessReports, TakeWhatRanAndIsNotSeenAnyMoreForEnded) {
  TestedTable job(Job());
  job.Run("worker-0");
  const std::vector<ProcessReport> reports = ReportsOf(job.table, {});
  ASSERT_EQ(reports.size(), 1u) << "what was not seen yet may still be started";
  EXPECT_EQ(ToText(reports[0].process()), "worker-0");
  EXPECT_EQ(reports[0].end().cause(), ProcessEnd::UNKNOWN);
}

TEST(ProcessReports, SayOfWhatIsBeingStoppedOnlyThatItHasEnded) {
  TestedTable job(Job());
  job.Stop();
  EXPECT_THAT(ReportsOf(job.table, {}), IsEmpty()) << "an older master may still start it";
  EXPECT_THAT(ReportsOf(job.table, {Runs("worker-0", 3)}), IsEmpty());
  EXPECT_THAT(Texts(ReportsOf(job.table, {Ends("worker-0", 3, Signal(15))})),
              ElementsAre("worker-0: signal 15 (SIGTERM)"));
}

TEST(ProcessReports, HaveADetailThatCanBeWrittenWhateverItsBytes) {
  TestedTable job(Job());
  ProcessEnd end = EndBy(ProcessEnd::NOT_STARTED);
  end.set_detail("\xff\x1b[2J" + std::string(100'000, '\x01'));
  const std::vector<ProcessReport> reports = ReportsOf(job.table, {Ends("worker-0", 3, end)});
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_LE(reports[0].end().detail().size(), kMostEndDetailBytes);
  EXPECT_THAT(reports[0].end().detail(), testing::StartsWith("\\xff\\x1b[2J\\x01"));
  ProcessReport again;
  EXPECT_TRUE(again.ParseFromString(reports[0].SerializeAsString()));
}

TEST(ProcessOrders, ForgetWhatIsKnownToHaveEnded) {
  TestedTable job(Job());
  const std::vector<ProcessReport> seen = {Ends("worker-0", 3, Exit(0)), Runs("worker-1", 4)};
  EXPECT_THAT(OverIn(job.table, seen), IsEmpty()) << "its end is not in the state yet";
  for (const ProcessReport& report : seen) job.Report(report);
  EXPECT_THAT(Texts(OverIn(job.table, seen)), ElementsAre("worker-0: exit code 0"));
  EXPECT_THAT(Texts(OverIn(job.table, {Ends("stranger-0", 1, Exit(0))})),
              ElementsAre("stranger-0: exit code 0"))
      << "of a process that has gone from the plan";
}

}  // namespace
}  // namespace millrace
