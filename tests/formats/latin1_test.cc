#include "formats/latin1.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/utf8.h"

namespace millrace {
namespace {

std::string Converted(std::string_view text) {
  std::vector<char> out(text.size() * kMostUtf8OfLatin1);
  return {out.data(), Latin1ToUtf8(text, out)};
}

TEST(Latin1, IsConvertedToUtf8) {
  EXPECT_EQ(Converted("caf\xE9 noir, \xC0 la \xFF"), "café noir, À la ÿ");
  std::string text(100, 'a');
  const std::string expected = text + "äö";
  text += "\xE4\xF6";
  EXPECT_EQ(Converted(text), expected);
  EXPECT_EQ(Converted(""), "");
}

// What Windows programs write where ISO 8859-1 has control characters.
TEST(Latin1, HasTheCharactersOfWindows1252) {
  EXPECT_EQ(Converted("5 \x80, \x84q\x93 \x96 \x8A\x9F"), "5 €, „q“ – ŠŸ");
}

TEST(Latin1, EveryByteIsOneCharacter) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string converted = Converted(std::string(1, static_cast<char>(byte)));
    EXPECT_TRUE(IsValidUtf8(converted)) << byte;
    EXPECT_EQ(DecodeUtf8(converted).size, converted.size()) << byte;
  }
}

}  // namespace
}  // namespace millrace
