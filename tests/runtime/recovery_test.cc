#include "runtime/recovery.h"

#include <gtest/gtest.h>

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
  const MetricPoint::ServerProgress::Recovery point = RecoveryOf(Phases());
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

}  // namespace
}  // namespace millrace
