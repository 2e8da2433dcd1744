#include "features/missing_tokens.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "features/number.h"

namespace millrace {
namespace {

MissingTokens Tokens(const std::vector<std::string>& tokens) { return MissingTokens(tokens); }

TEST(MissingTokens, KnowsTheCommonOnesInAnyCase) {
  const MissingTokens tokens = Tokens({});
  for (const char* cell : {"", "NA", "na", "n/a", "#N/A", "NaN", "nan", "NULL", "None", "?", "-"}) {
    EXPECT_TRUE(tokens.IsText(cell)) << cell;
  }
  for (const char* cell : {"--", "nil", "unknown", "0", "inf", "N A", "."}) {
    EXPECT_FALSE(tokens.IsText(cell)) << cell;
  }
  EXPECT_FALSE(tokens.IsNumber(0));
}

TEST(MissingTokens, NoCommonOneIsANumber) {
  for (const std::string_view token : CommonMissingTokens()) {
    double value;
    EXPECT_EQ(ParseNumber(token, &value), NumberKind::kInvalid) << token;
  }
}

TEST(MissingTokens, NamedOnesReplaceTheCommonOnesButTheEmptyCell) {
  const MissingTokens tokens = Tokens({" Unknown ", "."});
  EXPECT_TRUE(tokens.IsText("UNKNOWN"));
  EXPECT_TRUE(tokens.IsText("."));
  EXPECT_TRUE(tokens.IsText(""));
  EXPECT_FALSE(tokens.IsText("NA"));
}

TEST(MissingTokens, ATokenThatIsANumberMeansThatNumberInAnyNotation) {
  const MissingTokens tokens = Tokens({"-999", "9e3", "x"});
  EXPECT_TRUE(tokens.IsNumber(-999));
  EXPECT_TRUE(tokens.IsNumber(9000));
  EXPECT_FALSE(tokens.IsNumber(999));
  EXPECT_TRUE(tokens.IsText("X"));
}

}  // namespace
}  // namespace millrace
