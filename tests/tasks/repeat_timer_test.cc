#include "tasks/repeat_timer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace millrace {
namespace {

using std::chrono::seconds;

class RepeatTimerTest : public ::testing::Test {
 protected:
  // Returns the second at which it is due next.
  int NextDue() {
    int second = now_;
    while (!timer_.Due(At(second))) ++second;
    return second;
  }
  void Repeat(bool said = true) {
    now_ = NextDue();
    timer_.Repeated(At(now_), said);
  }
  void Answer(int second) {
    now_ = second;
    timer_.Answered(At(second));
  }
  static RepeatTimer::Time At(int second) { return RepeatTimer::Time(seconds(second)); }

  RepeatTimer timer_{seconds(2), At(0)};
  int now_ = 0;
};

TEST_F(RepeatTimerTest, WaitsTwiceAsLongAfterEachRepetitionUpToAQuarterOfAMinute) {
  std::vector<int> waits;
  for (int i = 0; i < 8; ++i) {
    const int before = now_;
    Repeat();
    waits.push_back(now_ - before);
  }
  EXPECT_EQ(waits, (std::vector<int>{2, 4, 8, 15, 15, 15, 15, 15}));
}

TEST_F(RepeatTimerTest, StaysPatientWithRoundsThatTakeLong) {
  Repeat();
  Repeat();
  Answer(10);  // seven seconds after the update, though four after its last repetition
  EXPECT_EQ(NextDue(), 18);
  Answer(17);  // without a repetition
  EXPECT_EQ(NextDue(), 25);
}

TEST_F(RepeatTimerTest, AnAnswerSoonAfterARepetitionDoesNotShortenTheWait) {
  Repeat();
  Repeat();
  Answer(7);  // one second after the repetition: it answers the update of seven seconds ago
  EXPECT_EQ(NextDue(), 15);
}

TEST_F(RepeatTimerTest, ComesDownWithRoundsThatAreFast) {
  for (int i = 0; i < 5; ++i) Repeat();
  Answer(100);
  Answer(101);
  EXPECT_EQ(NextDue(), 103);
}

TEST_F(RepeatTimerTest, DoesNotCountTimesAtWhichNothingWasUnanswered) {
  for (int i = 0; i < 5; ++i) Repeat(false);
  EXPECT_EQ(NextDue(), now_ + 2);
}

TEST_F(RepeatTimerTest, IsNeverLessPatientThanItsUser) {
  timer_ = RepeatTimer(seconds(100), At(0));
  Repeat();
  EXPECT_EQ(now_, 100);
  EXPECT_EQ(NextDue(), 200);
}

}  // namespace
}  // namespace millrace
