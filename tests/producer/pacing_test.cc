#include "producer/pacing.h"

#include <gtest/gtest.h>

#include <chrono>

namespace millrace {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr Pacer::Time kStart{hours(1000)};

TEST(Pacer, UnpacedRowsAreDueAtOnce) {
  Pacer pacer = Pacer::Unpaced();
  EXPECT_TRUE(pacer.unpaced());
  EXPECT_EQ(pacer.Due(kStart, 0, {}), kStart);
}

TEST(Pacer, RowKIsDueKIntervalsAfterTheFirst) {
  Pacer pacer = Pacer::AtRate(500);
  EXPECT_FALSE(pacer.unpaced());
  for (int k = 0; k < 1000; ++k) {
    EXPECT_EQ(pacer.Due(kStart + milliseconds(2 * k), 0, {}), kStart + milliseconds(2 * k));
  }
}

TEST(Pacer, AScheduleAtAnOddRateDoesNotDrift) {
  Pacer pacer = Pacer::AtRate(70'000.0 / 3);
  Pacer::Time now = kStart;
  Pacer::Time due;
  constexpr int kRows = 700'001;
  for (int k = 0; k < kRows; ++k) {
    due = pacer.Due(now, 0, {});
    // Wakes late, as sleeps do; the schedule must not care.
    now = std::max(now, due) + microseconds(k % 7 == 0 ? 300 : 0);
    if (now - due > milliseconds(1)) now = due;
  }
  EXPECT_LT(std::chrono::abs(due - (kStart + seconds(30))), microseconds(1));
}

TEST(Pacer, ASenderABitLateCatchesUp) {
  Pacer pacer = Pacer::AtRate(10);
  EXPECT_EQ(pacer.Due(kStart, 0, {}), kStart);
  // 0.9 s late: rows 1 to 9 are due already.
  const Pacer::Time late = kStart + milliseconds(1000);
  for (int k = 1; k <= 10; ++k) EXPECT_EQ(pacer.Due(late, 0, {}), kStart + k * milliseconds(100));
}

TEST(Pacer, AnOutageIsNotMadeUpForBeyondOneSecond) {
  Pacer pacer = Pacer::AtRate(10);
  pacer.Due(kStart, 0, {});
  const Pacer::Time back = kStart + seconds(60);
  int at_once = 0;
  while (pacer.Due(back, 0, {}) <= back) ++at_once;
  EXPECT_EQ(at_once, 11);  // one second's rows, and the one that is due now
}

TEST(Pacer, AReplayKeepsTheDistancesOfItsTimes) {
  Pacer pacer = Pacer::Replay(60);
  const RecordedTime first = hours(24 * 365 * 40);
  EXPECT_EQ(pacer.Due(kStart, 0, first), kStart);
  EXPECT_EQ(pacer.Due(kStart, 0, first + seconds(60)), kStart + seconds(1));
  EXPECT_EQ(pacer.Due(kStart + seconds(1), 0, first + hours(1)), kStart + seconds(60));
}

TEST(Pacer, AReplayDoesNotWaitForTimesOutOfOrder) {
  Pacer pacer = Pacer::Replay(1);
  pacer.Due(kStart, 0, seconds(1000));
  const Pacer::Time now = kStart + seconds(5);
  EXPECT_EQ(pacer.Due(now, 0, seconds(1005)), now);
  EXPECT_LT(pacer.Due(now, 0, seconds(1001)), now);
  EXPECT_LT(pacer.Due(now, 0, seconds(3)), now);
  EXPECT_EQ(pacer.Due(now, 0, seconds(1006)), kStart + seconds(6));
}

TEST(Pacer, AReplayStartsAnewWithEachEpoch) {
  Pacer pacer = Pacer::Replay(2);
  pacer.Due(kStart, 0, seconds(10));
  EXPECT_EQ(pacer.Due(kStart, 0, seconds(20)), kStart + seconds(5));
  const Pacer::Time again = kStart + seconds(7);
  EXPECT_EQ(pacer.Due(again, 1, seconds(10)), again);
  EXPECT_EQ(pacer.Due(again, 1, seconds(20)), again + seconds(5));
}

TEST(Pacer, ATimeInTheFarFutureDoesNotOverflow) {
  Pacer pacer = Pacer::Replay(1e-6);
  pacer.Due(kStart, 0, seconds(0));
  EXPECT_GT(pacer.Due(kStart, 0, hours(24 * 365 * 5000)), kStart + hours(24 * 365));
}

}  // namespace
}  // namespace millrace
