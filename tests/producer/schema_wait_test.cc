#include "producer/schema_wait.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "base/error_marks.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SchemaWaitTest : public testing::Test {
 protected:
  // Of a registry that is away for so many calls.
  Status Run(int away, const Status& then) {
    return wait_.Run(
        [&] { return calls_++ < away ? absl::UnavailableError("the registry is away") : then; },
        [&] {
          ++meanwhile_;
          return error_;
        });
  }

  std::atomic<bool> stop_ = false;
  int calls_ = 0;
  int meanwhile_ = 0;
  Status error_;
  std::vector<std::string> said_;
  SchemaWait wait_{[this](const std::string& line) { said_.push_back(line); }, stop_,
                   std::chrono::milliseconds(1)};
};

TEST_F(SchemaWaitTest, DoesNotWaitForARegistryThatAnswers) {
  EXPECT_TRUE(Run(0, absl::OkStatus()).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(Run(0, absl::InvalidArgumentError("no such schema"))));
  EXPECT_TRUE(absl::IsPermissionDenied(Run(0, absl::PermissionDeniedError("who are you?"))));
  EXPECT_EQ(calls_, 3);
  EXPECT_EQ(meanwhile_, 0);
  EXPECT_THAT(said_, ElementsAre());
}

TEST_F(SchemaWaitTest, SaysOnceThatARegistryIsAwayAndOnceThatItIsBack) {
  EXPECT_TRUE(Run(5, absl::OkStatus()).ok());
  EXPECT_EQ(calls_, 6);
  EXPECT_GE(meanwhile_, 5);
  EXPECT_THAT(said_, ElementsAre("the registry is away; records wait until it does",
                                 HasSubstr("answers again")));
}

TEST_F(SchemaWaitTest, GoesOnWithTheRestWhileTheRegistryIsAskedAndSaysNothing) {
  int calls = 0;
  const Status decoded = wait_.Run(
      [&]() -> Status {
        if (++calls > 5) return absl::OkStatus();
        return MarkPending(absl::UnavailableError("not yet"));
      },
      [&] {
        ++meanwhile_;
        return error_;
      });
  EXPECT_TRUE(decoded.ok()) << decoded;
  EXPECT_EQ(meanwhile_, 5);
  EXPECT_THAT(said_, ElementsAre());
}

TEST_F(SchemaWaitTest, EndsWithTheErrorOfWhatIsDoneMeanwhile) {
  error_ = absl::AbortedError("the transaction was aborted");
  EXPECT_TRUE(absl::IsAborted(Run(5, absl::OkStatus())));
  EXPECT_EQ(calls_, 1);
}

TEST_F(SchemaWaitTest, EndsWhenItIsStopped) {
  stop_ = true;
  EXPECT_TRUE(absl::IsCancelled(Run(1'000'000, absl::OkStatus())));
  EXPECT_EQ(calls_, 1);
}

}  // namespace
}  // namespace millrace
