#include "members/same_job.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace {
namespace {

using About = std::vector<std::string>;

TEST(SameJob, HoldsWhereAllSayTheSame) {
  EXPECT_EQ(CheckSameJob(About{"job a", "job a"}, 1), absl::OkStatus());
}

TEST(SameJob, LetsTheOneThatDiffersLeaveAndTheOthersComeTogetherAgain) {
  const About about = {"job b", "job a", "job a"};
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckSameJob(about, 0)));
  EXPECT_TRUE(absl::IsUnavailable(CheckSameJob(about, 1)));
  EXPECT_TRUE(absl::IsUnavailable(CheckSameJob(about, 2)));
}

TEST(SameJob, OfTwoTheFirstStays) {
  const About about = {"job b", "job a"};
  EXPECT_TRUE(absl::IsUnavailable(CheckSameJob(about, 0)));
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckSameJob(about, 1)));
}

}  // namespace
}  // namespace millrace
