#include "server/recovery_phases.h"

#include <gtest/gtest.h>

#include <chrono>

#include "server/recovery_report.h"

namespace millrace {
namespace {

RecoveryPhases Phases() {
  RecoveryPhases phases;
  phases.source = ShardCopy::Source::kPeer;
  phases.peer = "b:9000";
  phases.restored_bytes = 3 << 20;
  phases.restore_s = 0.41;
  phases.parameters_records = 412;
  phases.parameters_bytes = 1 << 19;
  phases.parameters_s = 0.12;
  phases.gradients_records = 512;
  phases.gradients_s = 0.3;
  phases.total_s = 0.84;
  phases.down_ms = 3240;
  return phases;
}

TEST(Recovery, IsSaidInOneLinePhaseByPhase) {
  RecoveryPhases phases = Phases();
  EXPECT_EQ(RecoveryText(phases),
            "recovered in 0.84 s, down for 3.2 s: 0.41 s to restore (replica of b:9000, 3.0 MiB), "
            "0.12 s for 412 records of parameters (0.5 MiB), 0.30 s for 512 gradients");
  phases.down_ms.reset();
  phases.source = ShardCopy::Source::kNothing;
  phases.restored_bytes = 0;
  EXPECT_TRUE(RecoveryText(phases).starts_with(
      "recovered in 0.84 s: 0.41 s to restore (no copy, all of parameters), 0.12 s"))
      << RecoveryText(phases);
}

TEST(Recovery, OfAJobThatBeginsIsNone) {
  EXPECT_FALSE(RecoveryPhases().recovered());
  EXPECT_TRUE(Phases().recovered());
  RecoveryPhases phases;
  phases.gradients_records = 1;
  EXPECT_FALSE(phases.recovered()) << "a worker's question";
  phases.down_ms = 100;
  EXPECT_TRUE(phases.recovered()) << "no checkpoint had been made, but somebody was there";
}

TEST(Recovery, GoesToDisplaysWithAllItsPhases) {
  const MetricPoint::ServerProgress::Recovery point = ToRecoveryPoint(Phases());
  EXPECT_EQ(point.source(), "replica of b:9000");
  EXPECT_EQ(point.down_ms(), 3240);
  EXPECT_EQ(point.restored_bytes(), 3u << 20);
  EXPECT_EQ(point.restore_s(), 0.41);
  EXPECT_EQ(point.parameters_records(), 412u);
  EXPECT_EQ(point.parameters_bytes(), 1u << 19);
  EXPECT_EQ(point.parameters_s(), 0.12);
  EXPECT_EQ(point.gradients_records(), 512u);
  EXPECT_EQ(point.gradients_s(), 0.3);
  EXPECT_EQ(point.total_s(), 0.84);
}

// The copy and `parameters` are timed by whoever reads them; the rest is between these calls.
TEST(RecoveryReport, SaysHowLongEachPhaseTook) {
  using std::chrono::milliseconds;
  const RecoveryReport::Time start{std::chrono::hours(1)};
  RecoveryReport report(start);
  RecoveryPhases phases = Phases();
  phases.gradients_s = phases.total_s = 0;
  phases.gradients_records = 0;
  EXPECT_DOUBLE_EQ(report.Restored(0, phases, start + milliseconds(640)), 0.64);
  RecoveryPhases later = phases;
  later.restore_s = 0.7;
  EXPECT_DOUBLE_EQ(report.Restored(1, later, start + milliseconds(900)), 0.9);
  report.Answered(0, 512, start + milliseconds(950));
  EXPECT_FALSE(report.point(0).has_value()) << "nobody has been told yet";
  report.Tick(start + milliseconds(960));
  report.Answered(1, 7, start + milliseconds(1400));
  report.Tick(start + milliseconds(1500));
  ASSERT_TRUE(report.point(0).has_value() && report.point(1).has_value());
  EXPECT_EQ(report.point(0)->restore_s(), 0.41);
  EXPECT_EQ(report.point(0)->parameters_s(), 0.12);
  EXPECT_EQ(report.point(0)->gradients_records(), 512u);
  EXPECT_DOUBLE_EQ(report.point(0)->gradients_s(), 0.31);
  EXPECT_DOUBLE_EQ(report.point(0)->total_s(), 0.95);
  EXPECT_EQ(report.point(1)->restore_s(), 0.7);
  EXPECT_EQ(report.point(1)->gradients_records(), 7u);
  EXPECT_DOUBLE_EQ(report.point(1)->gradients_s(), 0.5);
  EXPECT_DOUBLE_EQ(report.point(1)->total_s(), 1.4);
}

TEST(RecoveryReport, SaysNothingOfAJobThatBegins) {
  const RecoveryReport::Time start{std::chrono::hours(1)};
  RecoveryReport report(start);
  report.Restored(0, RecoveryPhases(), start);
  report.Answered(0, 0, start);
  report.Tick(start);
  EXPECT_FALSE(report.point(0).has_value());
}

}  // namespace
}  // namespace millrace
