#include "producer/delivery_watch.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr DeliveryWatch::Time kStart{hours(1000)};

TEST(DeliveryWatch, IsSilentWhileRecordsAreDelivered) {
  DeliveryWatch watch;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(watch.Observe(kStart + seconds(i), static_cast<uint64_t>(i), 10), std::nullopt);
  }
}

TEST(DeliveryWatch, IsSilentWhileNothingIsOutstanding) {
  DeliveryWatch watch;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(watch.Observe(kStart + seconds(i), 5, 0), std::nullopt);
    EXPECT_EQ(watch.stalled(), seconds(0));
  }
}

TEST(DeliveryWatch, ReportsEveryFiveSecondsOfAStall) {
  DeliveryWatch watch;
  watch.Observe(kStart, 5, 0);
  int reports = 0;
  for (int i = 1; i <= 170; ++i) {
    if (const auto stalled = watch.Observe(kStart + milliseconds(100 * i), 5, 3)) {
      ++reports;
      EXPECT_EQ(*stalled, seconds(5 * reports));
    }
  }
  EXPECT_EQ(reports, 3);
  EXPECT_EQ(watch.stalled(), seconds(17));
  EXPECT_EQ(watch.Observe(kStart + seconds(18), 6, 2), std::nullopt);
  EXPECT_EQ(watch.stalled(), seconds(0));
}

}  // namespace
}  // namespace millrace
