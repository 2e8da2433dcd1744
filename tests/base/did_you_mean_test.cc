#include "base/did_you_mean.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

const std::vector<std::string> kKnown = {"sgd", "momentum", "adagrad", "adam", "ftrl"};

TEST(NearestWord, FindsWhatWasMistypedByAFewLetters) {
  EXPECT_EQ(NearestWord("adagard", kKnown), "adagrad");
  EXPECT_EQ(NearestWord("momentun", kKnown), "momentum");
  EXPECT_EQ(NearestWord("sdg", kKnown), "sgd");
}

TEST(NearestWord, FindsWhatWasBegunIfThatIsOneOnly) {
  EXPECT_EQ(NearestWord("mom", kKnown), "momentum");
  EXPECT_EQ(NearestWord("--bat", {"--batch-rows", "--brokers"}), "--batch-rows");
}

TEST(NearestWord, GuessesNothingFarAway) {
  EXPECT_EQ(NearestWord("newton", kKnown), std::nullopt);
  EXPECT_EQ(NearestWord("", kKnown), std::nullopt);
  EXPECT_EQ(NearestWord("x", kKnown), std::nullopt);
}

}  // namespace
}  // namespace millrace
