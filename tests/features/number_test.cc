#include "features/number.h"

#include <gtest/gtest.h>

#include <limits>

namespace millrace {
namespace {

double Number(std::string_view text) {
  double value = -12345;
  EXPECT_EQ(ParseNumber(text, &value), NumberKind::kNumber) << text;
  return value;
}

NumberKind KindOf(std::string_view text) {
  double value = -12345;
  const NumberKind kind = ParseNumber(text, &value);
  EXPECT_TRUE(kind == NumberKind::kNumber || value == -12345) << text;
  return kind;
}

TEST(Number, ReadsTheUsualForms) {
  EXPECT_EQ(Number("0"), 0);
  EXPECT_EQ(Number("12"), 12);
  EXPECT_EQ(Number("+12"), 12);
  EXPECT_EQ(Number("-1.5"), -1.5);
  EXPECT_EQ(Number(".5"), 0.5);
  EXPECT_EQ(Number("-.5"), -0.5);
  EXPECT_EQ(Number("1."), 1);
  EXPECT_EQ(Number("007"), 7);
  EXPECT_EQ(Number("6.02e23"), 6.02e23);
  EXPECT_EQ(Number("1E-3"), 1e-3);
  EXPECT_EQ(Number("1e+3"), 1e3);
  EXPECT_EQ(Number("123456789012345678901234567890"), 123456789012345678901234567890.0);
  EXPECT_EQ(Number("1.7976931348623157e308"), std::numeric_limits<double>::max());
  EXPECT_EQ(Number("5e-324"), std::numeric_limits<double>::denorm_min());
}

TEST(Number, TakesNumbersTooSmallForADoubleAsZero) {
  EXPECT_EQ(Number("1e-400"), 0);
  EXPECT_EQ(Number("-1e-400"), 0);
}

TEST(Number, RefusesWhatIsNoDecimalNumber) {
  for (const char* text :
       {"",      "NA",   "NaN", "nan",  "abc",      "1x",   "x1",     "1 2",       "1,5",
        "1_000", "0x10", "inf", "-inf", "Infinity", "+-1",  "-+1",    "++1",       "--1",
        "+",     "-",    ".",   "e5",   "1e",       "-nan", "nan(1)", "\302\2401", "\xFF"}) {
    EXPECT_EQ(KindOf(text), NumberKind::kInvalid) << text;
  }
}

TEST(Number, TellsNumbersBeyondTheRangeOfADouble) {
  for (const char* text : {"1e400", "-1e400", "+1e309"}) {
    EXPECT_EQ(KindOf(text), NumberKind::kTooLarge) << text;
  }
}

TEST(Number, TrimsSpacesAndTabsOnly) {
  EXPECT_EQ(TrimSpaces(" \t a b\t "), "a b");
  EXPECT_EQ(TrimSpaces(" \t "), "");
  EXPECT_EQ(TrimSpaces("\na\n"), "\na\n");
}

}  // namespace
}  // namespace millrace
