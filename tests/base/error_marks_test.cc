#include "base/error_marks.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(ErrorMarks, AreOnTheErrorThatWasMarkedAndOnNoOther) {
  const Status plain = absl::FailedPreconditionError("fenced, says its text only");
  EXPECT_FALSE(IsFenced(plain));
  EXPECT_FALSE(IsPermanent(plain));
  EXPECT_TRUE(IsFenced(MarkFenced(plain)));
  EXPECT_FALSE(IsPermanent(MarkFenced(plain)));
  EXPECT_TRUE(IsPermanent(MarkPermanent(plain)));
  EXPECT_TRUE(IsPending(MarkPending(plain)));
  EXPECT_FALSE(IsPending(plain));
  EXPECT_FALSE(IsFenced(absl::OkStatus()));
}

TEST(ErrorMarks, StayWhenAnErrorGetsAnotherText) {
  const Status other = WithText(MarkFenced(absl::AbortedError("short")), "longer");
  EXPECT_TRUE(IsFenced(other));
  EXPECT_TRUE(absl::IsAborted(other));
  EXPECT_EQ(other.message(), "longer");
}

}  // namespace
}  // namespace millrace
