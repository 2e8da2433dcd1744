#include "formats/text_beginning.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(WithBeginning, ShowsTheFirstBytesOfATextOnOneLine) {
  const Status error = absl::InvalidArgumentError("no JSON");
  EXPECT_EQ(WithBeginning(error, "<html>\n\x1b[2J\xff").message(),
            "no JSON; it begins with: <html>\\x0a\\x1b[2J\\xff");
  EXPECT_EQ(WithBeginning(error, "123456789 123456789 123456789 1").message(),
            "no JSON; it begins with: 123456789 123456789 123456789 ..");
  EXPECT_EQ(WithBeginning(error, "").message(), "no JSON; it is empty");
  EXPECT_TRUE(absl::IsInvalidArgument(WithBeginning(error, "x")));
}

TEST(WithBeginning, MayBeTakenBack) {
  const Status error = absl::InvalidArgumentError("no JSON");
  EXPECT_EQ(WithoutBeginning(TextOf(WithBeginning(error, "secret"))), "no JSON");
  EXPECT_EQ(WithoutBeginning("no JSON"), "no JSON");
}

}  // namespace
}  // namespace millrace
