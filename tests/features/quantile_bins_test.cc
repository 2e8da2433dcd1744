#include "features/quantile_bins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<double> Repeated(std::vector<double> values, double value, size_t count) {
  values.insert(values.end(), count, value);
  return values;
}

std::vector<size_t> CountsOf(const std::vector<double>& values, uint32_t bins) {
  const std::vector<double> edges = QuantileEdges(values, bins);
  std::vector<size_t> counts(edges.size() + 1);
  for (double value : values) ++counts[BinOf(edges, value)];
  return counts;
}

TEST(QuantileBins, SharesDistinctValuesEvenly) {
  std::vector<double> values(1000);
  std::iota(values.begin(), values.end(), -500);
  std::shuffle(values.begin(), values.end(), std::mt19937(1));
  EXPECT_THAT(QuantileEdges(values, 4), ElementsAre(-250, 0, 250));
  for (const size_t count : CountsOf(values, 16)) EXPECT_NEAR(static_cast<double>(count), 62.5, 1);
  EXPECT_EQ(CountsOf(values, 256).size(), 256u);
}

TEST(QuantileBins, GivesEachOfFewValuesItsOwn) {
  EXPECT_THAT(QuantileEdges({1, 1, 1, 1, 1, 1, 1, 2, 5, 5}, 16), ElementsAre(2, 5));
  EXPECT_THAT(QuantileEdges({3, 2, 1, 0}, 4), ElementsAre(1, 2, 3));
  EXPECT_THAT(QuantileEdges({1, 0, 0, 1}, 2), ElementsAre(1));
}

TEST(QuantileBins, HasOneBinWhereThereIsNoOtherValue) {
  EXPECT_TRUE(QuantileEdges({}, 16).empty());
  EXPECT_TRUE(QuantileEdges({7}, 16).empty());
  EXPECT_TRUE(QuantileEdges({7, 7, 7}, 2).empty());
  EXPECT_TRUE(QuantileEdges({0.0, -0.0}, 16).empty());
}

// 9 of 10 values are 0, as of rain: quantiles of all would spend nearly all bins on it.
TEST(QuantileBins, SpendsOneBinOnAFrequentValueAndTheOthersOnTheRest) {
  std::vector<double> values(100);
  std::iota(values.begin(), values.end(), -50);
  values = Repeated(std::move(values), 0.5, 900);
  const std::vector<size_t> counts = CountsOf(values, 11);
  EXPECT_GE(counts.size(), 10u);
  EXPECT_LE(counts.size(), 11u);
  for (const size_t count : counts) EXPECT_TRUE(count == 900 || count < 15) << count;
}

TEST(QuantileBins, HasNoMoreBinsThanWantedAndNoneThatIsEmptyWhateverTheValues) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 2000; ++trial) {
    const auto bins = static_cast<uint32_t>(2 + random() % 20);
    const auto distinct = static_cast<uint32_t>(1 + random() % 60);
    std::vector<double> values;
    for (uint32_t v = 0; v < distinct; ++v) {
      const size_t count = random() % 3 == 0 ? 1 + random() % 50 : 1;
      values = Repeated(std::move(values), static_cast<double>(v) / 7, count);
    }
    const std::vector<double> edges = QuantileEdges(values, bins);
    EXPECT_TRUE(std::is_sorted(edges.begin(), edges.end()));
    const std::vector<size_t> counts = CountsOf(values, bins);
    EXPECT_LE(counts.size(), bins);
    EXPECT_GE(counts.size(), std::min(2u, distinct));
    EXPECT_EQ(std::count(counts.begin(), counts.end(), 0u), 0);
    if (distinct <= bins) {
      EXPECT_EQ(counts.size(), distinct);
    }
  }
}

// Fifteen frequent values, each between two rare ones: there is no bin for all that is between.
TEST(QuantileBins, LetsRareValuesJoinTheFrequentOneBefore) {
  std::vector<double> values;
  for (int v = 0; v < 31; ++v) values = Repeated(std::move(values), v, v % 2 == 1 ? 100 : 1);
  const std::vector<double> edges = QuantileEdges(values, 16);
  EXPECT_LE(edges.size(), 15u);
  std::map<size_t, int> frequent_in;
  for (int v = 1; v < 31; v += 2) ++frequent_in[BinOf(edges, v)];
  for (const auto& [bin, count] : frequent_in) EXPECT_EQ(count, 1) << bin;
}

TEST(QuantileBins, FindsTheBinByTheEdgesThatANumberHasReached) {
  const std::vector<double> edges = {-1, 0, 2.5};
  EXPECT_EQ(BinOf(edges, -1e308), 0u);
  EXPECT_EQ(BinOf(edges, -1), 1u);
  EXPECT_EQ(BinOf(edges, -0.0), 2u);
  EXPECT_EQ(BinOf(edges, 2.4999), 2u);
  EXPECT_EQ(BinOf(edges, 2.5), 3u);
  EXPECT_EQ(BinOf(edges, 1e308), 3u);
  EXPECT_EQ(BinOf({}, 7), 0u);
}

FeatureSpec Spec(const std::vector<std::string>& bins) {
  FeatureSpec spec;
  spec.add_numeric("a");
  spec.add_numeric("b");
  for (const std::string& item : bins) spec.add_bins(item);
  return spec;
}

std::string ErrorOf(const std::vector<std::string>& bins) {
  return std::string(BinnedColumns(Spec(bins)).status().message());
}

TEST(BinnedColumns, NamesColumnsAndNumbersOfBins) {
  const auto of = [](const std::vector<std::string>& bins) {
    return BinnedColumns(Spec(bins)).value();
  };
  using Columns = std::vector<BinnedColumn>;
  EXPECT_EQ(of({}), Columns());
  EXPECT_EQ(of({"c", " b : 8", "at 10:30:2", "x:y"}),
            (Columns{{"c", 16}, {"b", 8}, {"at 10:30", 2}, {"x:y", 16}}));
  EXPECT_EQ(of({"all"}), (Columns{{"a", 16}, {"b", 16}}));
  EXPECT_EQ(of({"b:4", "all:256", "c"}), (Columns{{"a", 256}, {"b", 4}, {"c", 16}}));
}

TEST(BinnedColumns, RefusesWhatNamesNoBins) {
  EXPECT_EQ(ErrorOf({"b:1"}), "bins (--bins) asks for 1 bins of \"b\": give 2 to 256");
  EXPECT_THAT(ErrorOf({"all:257"}), HasSubstr("asks for 257 bins of \"all\""));
  EXPECT_THAT(ErrorOf({"b:99999999999999999999"}), HasSubstr("give 2 to 256"));
  EXPECT_EQ(ErrorOf({"b", "b:8"}), "bins (--bins) names \"b\" twice");
  EXPECT_THAT(ErrorOf({""}), HasSubstr("an empty column"));
  EXPECT_THAT(ErrorOf({":8"}), HasSubstr("an empty column"));
  FeatureSpec no_numbers;
  no_numbers.add_bins("all");
  EXPECT_THAT(std::string(BinnedColumns(no_numbers).status().message()),
              HasSubstr("name them in --numeric"));
}

TEST(BinEdges, AreThoseOfEachColumnFiniteAscendingAndFewerThanBins) {
  const std::vector<BinnedColumn> columns = {{"a", 3}, {"b", 2}};
  const auto check = [&](const std::vector<std::vector<double>>& edges,
                         const std::vector<std::string>& names = {"a", "b"}) {
    FeatureSpec spec;
    for (size_t i = 0; i < edges.size(); ++i) {
      FeatureSpec::BinEdges& added = *spec.add_bin_edges();
      added.set_column(names[i]);
      for (double edge : edges[i]) added.add_edge(edge);
    }
    return std::string(CheckBinEdges(spec, columns).message());
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(check({{1, 2}, {}}), "");
  EXPECT_THAT(check({{1, 2}}), HasSubstr("has 1 columns, but --bins names 2"));
  EXPECT_THAT(check({{1}, {}}, {"b", "a"}), HasSubstr("names \"b\" where --bins has \"a\""));
  EXPECT_THAT(check({{1, 2, 3}, {}}), HasSubstr("give fewer edges than bins"));
  EXPECT_THAT(check({{2, 1}, {}}), HasSubstr("\"a\" must be finite and ascending"));
  EXPECT_THAT(check({{1, 1}, {}}), HasSubstr("must be finite and ascending"));
  EXPECT_THAT(check({{1}, {std::nan("")}}), HasSubstr("\"b\" must be finite"));
  EXPECT_THAT(check({{-kInfinity}, {}}), HasSubstr("must be finite"));
}

}  // namespace
}  // namespace millrace
