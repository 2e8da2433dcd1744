#include "formats/json_text.h"

#include <gtest/gtest.h>

#include <string>

namespace millrace {
namespace {

TEST(FindJsonError, FindsNoneInWhatTheGrammarAllows) {
  for (const char* text : {
           "{}",
           " [ ] ",
           "0",
           "-0.50e+07",
           "1E400",
           "123456789012345678901234567890",
           "true",
           "null",
           "\"\\ud800 \\u00e9 \\\"\\\\\\/\\b\\f\\n\\r\\t\"",
           "\"\x7f\xff\"",
           "\t{\r\n\"a\" : [1, {}, [[]], \"x\"], \"a\": {\"\": false}, \"b\":null }\n",
       }) {
    EXPECT_EQ(FindJsonError(text), std::nullopt) << text;
  }
}

TEST(FindJsonError, NamesTheFirstByteThatCannotStandThere) {
  const struct {
    std::string_view text;
    size_t at;
  } wrong[] = {
      {"", 0},
      {" ", 1},
      {"{", 1},
      {"[1", 2},
      {"[1,]", 3},
      {"{\"a\":1,}", 7},
      {"{\"a\" 1}", 5},
      {"{a:1}", 1},
      {"{\"a\":}", 5},
      {"[1}", 2},
      {"{\"a\":1]", 6},
      {"{} {}", 3},
      {"[] ]", 3},
      {"tru", 3},
      {"trux", 3},
      {"nULL", 1},
      {"01", 1},
      {"-", 1},
      {"+1", 0},
      {"1.", 2},
      {".5", 0},
      {"1e", 2},
      {"1e+", 3},
      {"NaN", 0},
      {"\"a", 2},
      {"\"\n\"", 1},
      {"\"\\x\"", 2},
      {"\"\\u12G4\"", 5},
      {"\"\\u12", 5},
      {"'a'", 0},
      {"[1 2]", 3},
      {"\"a\" \"b\"", 4},
      {"{\"a\":1 \"b\":2}", 7},
  };
  for (const auto& [text, at] : wrong) EXPECT_EQ(FindJsonError(text), at) << text;
  EXPECT_EQ(FindJsonError(std::string_view("{}\0", 3)), 2u);
}

TEST(FindJsonError, TakesAnyDepth) {
  constexpr size_t kDepth = 1'000'000;
  const std::string open(kDepth, '[');
  EXPECT_EQ(FindJsonError(open), kDepth);
  EXPECT_EQ(FindJsonError(open + std::string(kDepth, ']')), std::nullopt);
}

}  // namespace
}  // namespace millrace
