#include "job/silence.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Silence, IsLookedIntoAfterASecondAndThenMoreRarely) {
  const Silence::Time begin{};
  Silence silence(begin);
  EXPECT_FALSE(silence.IsLookDue(begin + milliseconds(999)));
  EXPECT_TRUE(silence.IsLookDue(begin + seconds(1)));
  EXPECT_FALSE(silence.IsLookDue(begin + milliseconds(2999)));
  EXPECT_TRUE(silence.IsLookDue(begin + seconds(3)));
  EXPECT_TRUE(silence.IsLookDue(begin + seconds(7)));
  EXPECT_TRUE(silence.IsLookDue(begin + seconds(15)));
  EXPECT_FALSE(silence.IsLookDue(begin + milliseconds(22'999)));
  EXPECT_TRUE(silence.IsLookDue(begin + seconds(23))) << "never more rarely than that";
}

TEST(Silence, EndsWithAnyProgress) {
  const Silence::Time begin{};
  Silence silence(begin);
  EXPECT_TRUE(silence.IsLookDue(begin + seconds(5)));
  silence.End(begin + seconds(6));
  EXPECT_FALSE(silence.IsLookDue(begin + milliseconds(6999)));
  EXPECT_TRUE(silence.IsLookDue(begin + seconds(7)));
}

TEST(Silence, IsNotTheTimeInWhichNobodyWaits) {
  const Silence::Time begin{};
  Silence silence(begin);
  silence.Skip(seconds(60));
  EXPECT_FALSE(silence.IsLookDue(begin + seconds(60) + milliseconds(999)));
  EXPECT_TRUE(silence.IsLookDue(begin + seconds(61)));
  silence.Skip(milliseconds(500));
  EXPECT_FALSE(silence.IsLookDue(begin + seconds(63)));
  EXPECT_TRUE(silence.IsLookDue(begin + seconds(63) + milliseconds(500)));
}

}  // namespace
}  // namespace millrace
