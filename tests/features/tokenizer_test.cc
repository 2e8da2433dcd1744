#include "features/tokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "features/unicode_tables.h"

namespace millrace {
namespace {

using Tokens = std::vector<std::string>;

Tokens TokensOf(std::string_view text) {
  Tokenizer tokenizer;
  EXPECT_TRUE(tokenizer.Read(text));
  Tokens tokens;
  tokenizer.ForEachToken([&](const char* token, size_t size) { tokens.emplace_back(token, size); });
  EXPECT_LE(tokens.size(), tokenizer.MaxTokens());
  return tokens;
}

TEST(Tokenizer, TakesRunsOfTwoOrMoreWordCharactersInLowerCase) {
  EXPECT_EQ(TokensOf("The Cat's 2 e-mails, 10x a_b __ _"),
            (Tokens{"the", "cat", "mails", "10x", "a_b", "__"}));
}

TEST(Tokenizer, FindsNoTokensInNothing) {
  EXPECT_EQ(TokensOf(""), Tokens{});
  EXPECT_EQ(TokensOf("a . b"), Tokens{});
  Tokenizer unread;
  unread.ForEachToken([](const char*, size_t) { FAIL(); });
}

TEST(Tokenizer, CountsCharactersAndNotBytes) {
  EXPECT_EQ(TokensOf("\u00e9 \u00e9t\u00e9 \u65e5 \u65e5\u672c \U00010400 \U00010400\U00010401"),
            (Tokens{"\u00e9t\u00e9", "\u65e5\u672c", "\U00010428\U00010429"}));
}

TEST(Tokenizer, MakesACapitalSigmaFinalAtTheEndOfAWordOnly) {
  EXPECT_EQ(TokensOf("\u039f\u03a3 \u03a3\u039f \u039f\u03a3\u039f \u03a3\u03a3"),
            (Tokens{"\u03bf\u03c2", "\u03c3\u03bf", "\u03bf\u03c3\u03bf", "\u03c3\u03c2"}));
  // Case-ignorable characters such as the apostrophe do not end a word here.
  EXPECT_EQ(TokensOf("A\u03a3'b A\u03a3' 1\u03a3"), (Tokens{"a\u03c3", "a\u03c2", "1\u03c3"}));
}

TEST(Tokenizer, SplitsADottedCapitalIIntoALetterAndAMark) {
  EXPECT_EQ(TokensOf("\u0130stanbul D\u0130YAR"), (Tokens{"stanbul", "di", "yar"}));
}

TEST(Tokenizer, TakesLettersWhoseLowerCaseIsLongerOrShorter) {
  EXPECT_EQ(TokensOf("\u023a\u023a \u212a\u212a"), (Tokens{"\u2c65\u2c65", "kk"}));
}

TEST(Tokenizer, FindsWordsAtEveryPlaceOfABlock) {
  for (size_t size = 1; size < 140; ++size) {
    for (size_t before = 0; before < 140; ++before) {
      const std::string word(size, 'W');
      const Tokens expected = size < 2 ? Tokens{} : Tokens{std::string(size, 'w')};
      ASSERT_EQ(TokensOf(std::string(before, ' ') + word), expected);
      ASSERT_EQ(TokensOf(std::string(before, ' ') + word + "."), expected);
    }
  }
}

// All texts of up to a few blocks, against a tokenizer that goes character by character.
TEST(Tokenizer, EqualsASimpleTokenizerOnAscii) {
  uint64_t random = 1;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    const size_t size = round % 300;
    while (text.size() < size) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      text += "aZ_09 .\n@[`{/:xY"[random >> 60];
    }
    Tokens expected;
    std::string token;
    for (char c : text + " ") {
      if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') {
        token += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        continue;
      }
      if (token.size() > 1) expected.push_back(token);
      token.clear();
    }
    ASSERT_EQ(TokensOf(text), expected) << text;
  }
}

TEST(Tokenizer, RefusesInvalidUtf8AndHasNoTokensThen) {
  Tokenizer tokenizer;
  for (const char* text : {"word \xFF", "word \xC3", "\xED\xA0\x80", "A\u03a3\xFF"}) {
    EXPECT_FALSE(tokenizer.Read(text));
    tokenizer.ForEachToken([](const char*, size_t) { FAIL(); });
  }
  EXPECT_TRUE(tokenizer.Read("fine"));
}

TEST(Tokenizer, ForgetsTheTextBefore) {
  Tokenizer tokenizer;
  std::string longest(500, 'x');
  longest += "\u00e9";
  ASSERT_TRUE(tokenizer.Read(longest));
  for (size_t size = 0; size < 200; ++size) {
    ASSERT_TRUE(tokenizer.Read(std::string(size, '.')));
    tokenizer.ForEachToken([](const char*, size_t) { FAIL(); });
  }
}

TEST(UnicodeTables, SayTheirVersion) { EXPECT_EQ(UnicodeVersion(), "14.0.0"); }

}  // namespace
}  // namespace millrace
