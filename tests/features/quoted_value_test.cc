#include "features/quoted_value.h"

#include <gtest/gtest.h>

#include "base/utf8.h"

namespace millrace {
namespace {

TEST(QuotedValue, IsOneLineOfValidUtf8) {
  EXPECT_EQ(QuotedValue("a b"), "\"a b\"");
  EXPECT_EQ(QuotedValue("a\n\"b\""), "\"a\\n\\\"b\\\"\"");
  EXPECT_EQ(QuotedValue("\xC3\xA9"), "\"\xC3\xA9\"");
  EXPECT_EQ(QuotedValue("\xE9"), "\"\\351\"");
}

TEST(QuotedValue, IsCutBetweenCharacters) {
  for (size_t before = 0; before < 70; ++before) {
    std::string text(before, 'x');
    for (int i = 0; i < 30; ++i) text += "\xF0\x9F\x98\x80";
    const std::string quoted = QuotedValue(text);
    EXPECT_TRUE(IsValidUtf8(quoted));
    EXPECT_EQ(quoted.find('\\'), std::string::npos);
    EXPECT_LE(quoted.size(), 65u);
    EXPECT_TRUE(quoted.ends_with("...\""));
  }
  EXPECT_EQ(QuotedValue(std::string(60, 'x')), '"' + std::string(60, 'x') + '"');
}

}  // namespace
}  // namespace millrace
