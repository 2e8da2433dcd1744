#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace millrace {
namespace {

TEST(Utf8, EncodesAndDecodesEveryCodePoint) {
  for (uint32_t c = 0; c <= 0x10FFFF; ++c) {
    char bytes[4];
    const size_t size = EncodeUtf8(c, bytes);
    const Utf8Char decoded = DecodeUtf8({bytes, size});
    if (c >= 0xD800 && c < 0xE000) {
      ASSERT_EQ(decoded.size, 0u) << c;
      continue;
    }
    ASSERT_EQ(decoded.size, size) << c;
    ASSERT_EQ(decoded.code_point, c);
    for (size_t cut = 0; cut < size; ++cut) ASSERT_EQ(DecodeUtf8({bytes, cut}).size, 0u) << c;
  }
}

TEST(Utf8, RefusesWhatTheStandardForbids) {
  for (const char* text : {"\x80",
                           "\xBF",
                           "\xC0\x80",
                           "\xC1\xBF",
                           "\xE0\x80\x80",
                           "\xE0\x9F\xBF",
                           "\xED\xA0\x80",
                           "\xED\xBF\xBF",
                           "\xF0\x80\x80\x80",
                           "\xF0\x8F\xBF\xBF",
                           "\xF4\x90\x80\x80",
                           "\xF5\x80\x80\x80",
                           "\xFF",
                           "\xC3",
                           "\xE2\x82",
                           "\xF0\x9F\x98",
                           "\xC3(",
                           "\xE2(\xA1",
                           "\xE2\x82(",
                           "\xF0\x9F\x98("}) {
    EXPECT_FALSE(IsValidUtf8(text)) << text;
  }
}

TEST(Utf8, FindsAnInvalidByteAtAnyPlace) {
  for (size_t size = 1; size < 200; ++size) {
    std::string text(size, 'x');
    ASSERT_TRUE(IsValidUtf8(text));
    ASSERT_EQ(AsciiPrefix(text), size);
    for (size_t i = 0; i < size; ++i) {
      text[i] = '\xE9';
      ASSERT_FALSE(IsValidUtf8(text));
      ASSERT_EQ(AsciiPrefix(text), i);
      text[i] = 'x';
    }
  }
}

TEST(Utf8, AcceptsMixesOfScripts) {
  std::string text;
  for (int i = 0; i < 100; ++i) {
    text +=
        "\xC3\xA9"
        "abc\xE6\x97\xA5\xF0\x9F\x98\x80";
    text.append(static_cast<size_t>(i), 'x');
    ASSERT_TRUE(IsValidUtf8(text));
    ASSERT_FALSE(IsValidUtf8(text + "\xF0\x9F\x98"));
  }
}

}  // namespace
}  // namespace millrace
