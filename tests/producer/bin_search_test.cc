#include "producer/bin_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/producer/scratch_folder.h"

namespace millrace {
namespace {

using testing::HasSubstr;

BinScan Found(const std::vector<std::pair<std::string, int>>& columns) {
  BinScan scan;
  scan.rows = 10'000;
  for (const auto& [name, edges] : columns) {
    FeatureSpec::BinEdges& added = *scan.edges.Add();
    added.set_column(name);
    for (int i = 0; i < edges; ++i) added.add_edge(i);
  }
  return scan;
}

TEST(FoundBins, TellsHowManyBinsColumnsHave) {
  EXPECT_EQ(FoundBins(Found({{"temp", 15}, {"precip", 2}})),
            "bins by the first 10,000 rows: 16 of \"temp\", 3 of \"precip\"");
  EXPECT_THAT(FoundBins(Found(std::vector<std::pair<std::string, int>>(12, {"c", 1}))),
              testing::EndsWith("2 of \"c\" and 2 more columns"));
}

TEST(FoundBins, WarnsOfColumnsThatHaveOneBinOnly) {
  EXPECT_EQ(ColumnsOfOneBin(Found({{"temp", 1}})), "");
  EXPECT_THAT(ColumnsOfOneBin(Found({{"temp", 1}, {"gust", 0}, {"rain", 0}})),
              HasSubstr("one bin only, which tells nothing, for \"gust\", \"rain\": among the "
                        "first 10,000 rows"));
}

class SetBinEdgesTest : public testing::Test {
 protected:
  SetBinEdgesTest() {
    spec_.set_label("y");
    spec_.add_bins("n:4");
  }

  Status Set(const FeatureSpec* published, bool can_read_again = true) {
    return SetBinEdges(path_, {}, can_read_again, published, stop_, display_, spec_);
  }
  std::vector<double> Edges() const {
    return {spec_.bin_edges(0).edge().begin(), spec_.bin_edges(0).edge().end()};
  }

  const ScratchFolder folder_;
  const std::string path_ = folder_.Write("rows.csv", "y,n\na,1\nb,2\na,7\n");
  const std::atomic<bool> stop_ = false;
  ProgressDisplay display_{true};
  FeatureSpec spec_;
};

TEST_F(SetBinEdgesTest, TakesThemFromTheFileIfNoneArePublished) {
  ASSERT_TRUE(Set(nullptr).ok());
  EXPECT_EQ(Edges(), (std::vector<double>{2, 7}));
}

TEST_F(SetBinEdgesTest, TakesThoseThatArePublishedWhateverTheFile) {
  FeatureSpec published = spec_;
  published.add_bin_edges()->set_column("n");
  published.mutable_bin_edges(0)->add_edge(5);
  ASSERT_TRUE(Set(&published).ok());
  EXPECT_EQ(Edges(), std::vector<double>{5});
  spec_.clear_bin_edges();
  EXPECT_TRUE(Set(&published, false).ok()) << "a pipe";
}

TEST_F(SetBinEdgesTest, RefusesOtherBinsThanThoseThatArePublished) {
  FeatureSpec published = spec_;
  spec_.add_bins("m:2");
  EXPECT_THAT(
      std::string(Set(&published).message()),
      HasSubstr(
          "this job was started with --bins n:4, but --bins is n:4,m:2: give the same, or start"));
  published.clear_bins();
  EXPECT_THAT(std::string(Set(&published).message()),
              HasSubstr("this job was started with no --bins"));
}

TEST_F(SetBinEdgesTest, NeedsAFileThatCanBeReadTwice) {
  const Status refused = Set(nullptr, false);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--features-only"));
}

TEST_F(SetBinEdgesTest, LeavesWhatIsGivenAndWhatHasNoBins) {
  spec_.add_bin_edges()->set_column("n");
  spec_.mutable_bin_edges(0)->add_edge(3);
  ASSERT_TRUE(Set(nullptr, false).ok());
  EXPECT_EQ(Edges(), std::vector<double>{3});
  spec_.Clear();
  ASSERT_TRUE(Set(nullptr, false).ok());
  EXPECT_TRUE(spec_.bin_edges().empty());
}

}  // namespace
}  // namespace millrace
