#include "base/backoff.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

using std::chrono::seconds;

TEST(Backoff, WaitsTwiceAsLongAfterEachFailureUpToItsBound) {
  Backoff backoff(seconds(1), seconds(5));
  Backoff::Time now;
  EXPECT_TRUE(backoff.Ready(now));
  for (const int wait : {1, 2, 4, 5, 5}) {
    backoff.Failed(now);
    EXPECT_EQ(backoff.wait(), seconds(wait));
    EXPECT_FALSE(backoff.Ready(now + seconds(wait) - std::chrono::milliseconds(1)));
    now += seconds(wait);
    EXPECT_TRUE(backoff.Ready(now));
  }
  EXPECT_EQ(backoff.failures(), 5u);
}

TEST(Backoff, BeginsAgainAfterASuccessAndAfterALongTimeWithoutFailure) {
  Backoff backoff(seconds(1), seconds(5));
  const Backoff::Time now;
  backoff.Failed(now);
  backoff.Failed(now);
  backoff.Succeeded();
  EXPECT_TRUE(backoff.Ready(now));
  EXPECT_EQ(backoff.failures(), 0u);
  backoff.Failed(now);
  EXPECT_EQ(backoff.wait(), seconds(1));
  backoff.Failed(now + seconds(60));
  EXPECT_EQ(backoff.wait(), seconds(1));
  EXPECT_EQ(backoff.failures(), 1u);
}

}  // namespace
}  // namespace millrace
