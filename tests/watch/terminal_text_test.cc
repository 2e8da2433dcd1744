#include "watch/terminal_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "metrics/job_state.h"

namespace millrace {
namespace {

constexpr Style kPlain{.color = false, .unicode = true};
constexpr Style kAscii{.color = false, .unicode = false};
constexpr Style kFull{.color = true, .unicode = true};

TEST(TerminalText, CountsColumnsAndNotBytesOrEscapes) {
  EXPECT_EQ(ColumnsOf(""), 0u);
  EXPECT_EQ(ColumnsOf("abc"), 3u);
  EXPECT_EQ(ColumnsOf("█▒░"), 3u);
  EXPECT_EQ(ColumnsOf(Inked(kFull, Ink::kBold, "abc")), 3u);
}

TEST(TerminalText, CutsBetweenCharactersAndResetsColoursThatWereOn) {
  EXPECT_EQ(Clipped("abc", 3), "abc");
  EXPECT_EQ(Clipped("abc", 2), "ab");
  EXPECT_EQ(Clipped("█▒░", 2), "█▒");
  EXPECT_EQ(Clipped("abc", 0), "");
  EXPECT_EQ(Clipped(Inked(kFull, Ink::kBold, "abc"), 2), "\033[1mab\033[0m");
  EXPECT_EQ(Clipped(Inked(kFull, Ink::kBold, "abc") + "def", 4), "\033[1mabc\033[0md");
  EXPECT_EQ(Clipped(Inked(kFull, Ink::kBold, "abc"), 3), "\033[1mabc\033[0m");
}

TEST(TerminalText, PadsByColumns) {
  EXPECT_EQ(PaddedLeft("█", 3), "  █");
  EXPECT_EQ(PaddedRight("█", 3), "█  ");
  EXPECT_EQ(PaddedLeft("abcd", 3), "abcd");
}

TEST(TerminalText, HasNoEscapesWithoutColour) {
  EXPECT_EQ(Inked(kPlain, Ink::kWarn, "abc"), "abc");
  EXPECT_EQ(Bar(kPlain, 0.5, 0.75, 8), "████▒▒░░");
  EXPECT_EQ(Bar(kAscii, 0.5, 0.75, 8), "####==..");
}

TEST(TerminalText, FillsABarOnlyAtTheEnd) {
  EXPECT_EQ(Bar(kPlain, 0.999, 0.999, 4), "███░");
  EXPECT_EQ(Bar(kPlain, 1, 1, 4), "████");
  EXPECT_EQ(Bar(kPlain, 0, 0, 4), "░░░░");
  EXPECT_EQ(Bar(kPlain, 0.5, 0.5, 0), "");
}

TEST(TerminalText, WritesNumbersForPeople) {
  EXPECT_EQ(GroupedNumber(0), "0");
  EXPECT_EQ(GroupedNumber(999), "999");
  EXPECT_EQ(GroupedNumber(1234567), "1,234,567");
  EXPECT_EQ(RateText(0), "0.0");
  EXPECT_EQ(RateText(0.42), "0.42");
  EXPECT_EQ(RateText(21.94), "21.9");
  EXPECT_EQ(RateText(10490.4), "10,490");
  EXPECT_EQ(RateText(std::numeric_limits<double>::quiet_NaN()), "-");
  EXPECT_EQ(ClockTime(7), "0:07");
  EXPECT_EQ(ClockTime(754), "12:34");
  EXPECT_EQ(ClockTime(3723), "1:02:03");
  EXPECT_EQ(ClockTime(INFINITY), "-");
  EXPECT_EQ(FigureText(0.70214), "0.7021");
  EXPECT_EQ(FigureText(INFINITY), "-");
}

TEST(TerminalText, DrawsASparklineFromTheLowestToTheHighestValue) {
  EXPECT_EQ(Sparkline(kPlain, {}), "");
  EXPECT_EQ(Sparkline(kPlain, {0, 1, 2, 3, 4, 5, 6, 7}), "▁▂▃▄▅▆▇█");
  EXPECT_EQ(Sparkline(kPlain, {5, 5}), "▅▅");
  EXPECT_EQ(Sparkline(kPlain, {0, std::nan(""), 1}), "▁ █");
  EXPECT_EQ(Sparkline(kAscii, {0, 1}), "_#");
}

TEST(TerminalText, WrapsBetweenWords) {
  EXPECT_EQ(Wrapped("one two  three", 7), (std::vector<std::string>{"one two", "three"}));
  EXPECT_EQ(Wrapped("one twelve", 4), (std::vector<std::string>{"one", "twel"})) << "cut";
  EXPECT_EQ(Wrapped("one two threefold", 7, 2), (std::vector<std::string>{"one two", "  three"}));
  EXPECT_TRUE(Wrapped("", 4).empty());
}

}  // namespace
}  // namespace millrace
