#include "producer/job_features.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace {
namespace {

std::vector<std::string> TokensOf(const FeatureSpec& spec) {
  const FeatureSpec complete = CompleteSpec(spec);
  return {complete.missing_tokens().begin(), complete.missing_tokens().end()};
}

TEST(JobFeatures, PublishesTheCellsThatMeanMissing) {
  FeatureSpec spec;
  spec.add_numeric("a");
  EXPECT_TRUE(CompleteSpec(spec).has_missing());
  EXPECT_EQ(TokensOf(spec),
            (std::vector<std::string>{"NA", "N/A", "#N/A", "NaN", "null", "none", "?", "-"}));
  spec.add_missing_tokens("-999");
  EXPECT_EQ(TokensOf(spec), (std::vector<std::string>{"-999"}));
}

TEST(JobFeatures, WhereNoCellCanBeMissingTheTokensAreNoDifference) {
  FeatureSpec spec;
  spec.set_text("t");
  spec.add_missing_tokens("x");
  EXPECT_TRUE(TokensOf(spec).empty());
  spec.add_numeric("a");
  spec.set_missing(FeatureSpec::REJECT);
  EXPECT_TRUE(TokensOf(spec).empty());
}

}  // namespace
}  // namespace millrace
