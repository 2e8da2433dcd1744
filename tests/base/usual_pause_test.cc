#include "base/usual_pause.h"

#include <gtest/gtest.h>

#include <chrono>

namespace millrace {
namespace {

using std::chrono::milliseconds;

TEST(UsualPause, IsTheLongestOfTheLastWhichAreForgottenByHalfAtEach) {
  UsualPause<milliseconds> pause;
  EXPECT_FALSE(pause.IsOutage(milliseconds(99'999), milliseconds(0))) << "none is known";
  pause.NoteStepAfter(milliseconds(1'000));
  pause.NoteStepAfter(milliseconds(100));
  EXPECT_FALSE(pause.IsOutage(milliseconds(1'500), milliseconds(0)));
  EXPECT_TRUE(pause.IsOutage(milliseconds(1'501), milliseconds(0)));
  for (int i = 0; i < 9; ++i) pause.NoteStepAfter(milliseconds(100));
  EXPECT_FALSE(pause.IsOutage(milliseconds(300), milliseconds(0)));
  EXPECT_TRUE(pause.IsOutage(milliseconds(301), milliseconds(0)));
  EXPECT_FALSE(pause.IsOutage(milliseconds(301), milliseconds(400))) << "the least";
}

}  // namespace
}  // namespace millrace
