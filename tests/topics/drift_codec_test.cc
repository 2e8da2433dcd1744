#include "topics/drift_codec.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(DriftCodec, KeepsAllThatADetectorHolds) {
  DriftDetector detector({.block_rows = 2, .first_blocks = 3});
  uint64_t rows = 0;
  const auto send = [&](double loss) {
    ++rows;
    return detector.Add(1, loss, rows, rows / 3);
  };
  for (int i = 0; i < 30; ++i) send(i % 4 < 2 ? 0.5 : 0.6);
  while (!send(5)) continue;
  for (int i = 0; i < 20; ++i) send(i % 4 < 2 ? 0.5 : 0.6);
  send(0.9);
  send(0.9);
  send(0.4);
  ASSERT_GT(detector.state().excess, 0);
  ASSERT_EQ(detector.state().open_rows, 1u);
  ASSERT_EQ(detector.last().count, 1u);
  ASSERT_GT(detector.last().clock, 0u);
  ShardState::DriftWatch message;
  ToProto(detector, message);
  EXPECT_EQ(FromProto(message), detector.state());
  EXPECT_EQ(FromProto(ShardState::DriftWatch()), DriftDetector::State()) << "of an older version";
}

TEST(DriftText, SaysFromWhereToWhereTheLossRoseAndWhen) {
  Drift drift;
  drift.set_count(1);
  drift.set_row(20'096);
  drift.set_found_at(20'480);
  drift.set_before(0.1);
  drift.set_after(0.25);
  EXPECT_EQ(DriftText(drift, false),
            "the stream has changed: the log loss rose from 0.1000 to 0.2500 at row 20,096 "
            "(noticed at row 20,480)");
  drift.set_count(3);
  EXPECT_EQ(DriftText(drift, true),
            "the stream has changed (change 3 so far): the absolute error rose from 0.1000 to "
            "0.2500 standard deviations of the targets at row 20,096 (noticed at row 20,480)");
}

}  // namespace
}  // namespace millrace
