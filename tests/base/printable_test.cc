#include "base/printable.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(Printable, LeavesTextAsItIsAndShowsControlCharactersByTheirNumbers) {
  EXPECT_EQ(Printable("ipv4:10.0.0.1:40 ~"), "ipv4:10.0.0.1:40 ~");
  EXPECT_EQ(Printable("a\x1b[2Jb\nc\r"), "a\\x1b[2Jb\\x0ac\\x0d");
  EXPECT_EQ(Printable("\xc3\xa9\x7f"), "\\xc3\\xa9\\x7f");
  EXPECT_EQ(Printable("abcdef", 3), "abc..");
}

TEST(HasControls, KnowsThoseOfAsciiAndNoLetters) {
  EXPECT_FALSE(HasControls("a ~ \xc3\xa9"));
  EXPECT_TRUE(HasControls("a\tb"));
  EXPECT_TRUE(HasControls("\x7f"));
  EXPECT_TRUE(HasControls(std::string_view("\0", 1)));
}

}  // namespace
}  // namespace millrace
