#include "kafka/outcome_wait.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace millrace {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Of a broker that gives so many calls no answer.
class OutcomeWaitTest : public testing::Test {
 protected:
  Status Run(int unanswered, Status then, milliseconds first, double timeout_s = 0) {
    const OutcomeWait wait(BrokerRetry(stop_, timeout_s),
                           {.topic = "answers",
                            .program = "Predictor",
                            .timeout_s = timeout_s,
                            .warn = [this](const std::string& line) { lines_.push_back(line); },
                            .first = first});
    return wait.Run([&]() -> Status {
      if (calls_++ >= unanswered) return then;
      return absl::UnavailableError("committing a transaction: timed out");
    });
  }

  std::atomic<bool> stop_ = false;
  int calls_ = 0;
  std::vector<std::string> lines_;
};

TEST_F(OutcomeWaitTest, SaysNothingOfAnOutcomeThatComesSoon) {
  EXPECT_TRUE(Run(0, absl::OkStatus(), milliseconds(0)).ok());
  EXPECT_TRUE(Run(3, absl::OkStatus(), std::chrono::hours(1)).ok());
  EXPECT_EQ(calls_, 4);
  EXPECT_THAT(lines_, IsEmpty());
}

TEST_F(OutcomeWaitTest, WarnsLessAndLessOftenAndSaysWhenTheOutcomeIsKnown) {
  // (The retry pauses for 50 ms, so there are some thirty calls, and lines at .1 s, .3 s, .7 s, 1.5
  // s.)
  EXPECT_TRUE(absl::IsAborted(Run(30, absl::AbortedError("no"), milliseconds(100))));
  ASSERT_GE(lines_.size(), 3u);
  EXPECT_LE(lines_.size(), 6u);
  EXPECT_THAT(lines_[0], AllOf(HasSubstr("whether a transaction of answers was written"),
                               HasSubstr("committing a transaction: timed out"),
                               HasSubstr("Predictor asks again without limit (--broker-timeout"),
                               HasSubstr("check the brokers")));
  EXPECT_THAT(lines_.back(), HasSubstr("Kafka answers again"));
}

TEST_F(OutcomeWaitTest, EndsWhenTheBrokerTimeoutSaysSo) {
  const Status status = Run(1'000'000, absl::OkStatus(), milliseconds(0), 0.2);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("a transaction of answers"), HasSubstr("--broker-timeout is 0.2 s"),
                    HasSubstr("start Predictor again")));
  EXPECT_THAT(lines_.at(0), HasSubstr("until --broker-timeout, 0.2 s"));
}

TEST_F(OutcomeWaitTest, EndsWhenItIsStopped) {
  stop_ = true;
  EXPECT_TRUE(absl::IsCancelled(Run(1'000'000, absl::OkStatus(), milliseconds(0))));
  EXPECT_EQ(calls_, 1);
}

}  // namespace
}  // namespace millrace
