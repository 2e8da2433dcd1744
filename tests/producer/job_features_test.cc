#include "producer/job_features.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
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

TEST(RowsPerTurnOf, IsLongWhereRowsComeAsFastAsTheyAreTaken) {
  Producer settings;
  EXPECT_EQ(RowsPerTurnOf(settings, false), 256u);
  EXPECT_EQ(RowsPerTurnOf(settings, true), 1u);
  for (const auto& [rate, rows] : {std::pair(0.5, 1U), {100.0, 10U}, {320.0, 32U}, {1e9, 32U}}) {
    settings.set_rate(rate);
    EXPECT_EQ(RowsPerTurnOf(settings, false), rows);
    EXPECT_EQ(RowsPerTurnOf(settings, true), rows);
  }
  settings.clear_rate();
  settings.set_time_column("t");
  EXPECT_EQ(RowsPerTurnOf(settings, false), 1u);
  settings.set_rows_per_turn(7);
  EXPECT_EQ(RowsPerTurnOf(settings, false), 7u);
  EXPECT_EQ(RowsPerTurnOf(settings, true), 7u);
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

TEST(JobFeatures, WritesOutWhichColumnsHaveHowManyBins) {
  FeatureSpec spec;
  for (const char* column : {"a", "b"}) spec.add_numeric(column);
  for (const char* item : {"b:4", "all", "c"}) spec.add_bins(item);
  const FeatureSpec complete = CompleteSpec(spec);
  EXPECT_EQ((std::vector<std::string>{complete.bins().begin(), complete.bins().end()}),
            (std::vector<std::string>{"a:16", "b:4", "c:16"}));
  EXPECT_EQ(CompleteSpec(complete).SerializeAsString(), complete.SerializeAsString());
  spec.add_bins("b");  // for ValidateColumns() to refuse
  EXPECT_EQ(CompleteSpec(spec).bins_size(), 4);
}

TEST(JobFeatures, ColumnsOfBinsHaveCellsThatMeanMissingToo) {
  FeatureSpec spec;
  spec.add_bins("a");
  EXPECT_FALSE(TokensOf(spec).empty());
}

}  // namespace
}  // namespace millrace
