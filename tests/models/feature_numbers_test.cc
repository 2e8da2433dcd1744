#include "models/feature_numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "tests/models/random_rows.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<Row> RowsNaming(const std::vector<std::vector<uint32_t>>& indices) {
  std::vector<Row> rows;
  for (const std::vector<uint32_t>& index : indices) {
    rows.push_back({.numeric = {}, .index = index, .value = std::vector<float>(index.size(), 1)});
  }
  return rows;
}

TEST(NumberFeatures, NumbersThemAsTheyComeAndNamesEachRowsOneRowAfterTheOther) {
  const std::vector<Row> rows = RowsNaming({{7, 90}, {}, {3, 90, 4'294'967'294}});
  const FeatureNumbers features = NumberFeatures(Pointers(rows), 10);
  EXPECT_THAT(features.from, ElementsAre(7, 90, 3, 4'294'967'294));
  EXPECT_THAT(features.places, ElementsAre(10, 11, 12, 11, 13));
}

TEST(NumberFeatures, OfIdsItSaysTheirPlaces) {
  const std::vector<Row> rows = RowsNaming({{7, 90}, {}, {3, 90}});
  const std::vector<EmbeddingId> ids = {3, 7, 90};
  const FeatureNumbers features = NumberRows(Pointers(rows), {.features = true}, ids, 2);
  EXPECT_THAT(features.from, ElementsAre(0, 1, 2));
  EXPECT_THAT(features.places, ElementsAre(3, 4, 2, 4));
}

TEST(NumberFeatures, OfManyIdsThoseThatNoRowNamesGetNoNumber) {
  const std::vector<Row> rows = RowsNaming({{7, 90}});
  const std::vector<EmbeddingId> ids = {1, 3, 7, 12, 90, 91};
  const FeatureNumbers features = NumberRows(Pointers(rows), {.features = true}, ids, 0);
  EXPECT_THAT(features.from, ElementsAre(2, 4));
  EXPECT_THAT(features.places, ElementsAre(0, 1));
}

TEST(NumberFeatures, RowsWithoutFeaturesHaveNone) {
  const std::vector<Row> rows = RowsNaming({{}, {}});
  EXPECT_THAT(NumberFeatures(Pointers(rows), 5).from, IsEmpty());
  EXPECT_THAT(
      NumberRows(Pointers(rows), {.features = true}, std::vector<EmbeddingId>{1, 2}, 5).from,
      IsEmpty());
  EXPECT_THAT(NumberFeatures({}, 5).places, IsEmpty());
}

TEST(NumberFeatures, FeaturesAndIdsOfARowFollowEachOther) {
  std::vector<Row> rows = RowsNaming({{7}, {}, {3, 7}});
  rows[0].ids = {1ull << 40, 90};
  rows[2].ids = {90};
  const std::vector<EmbeddingId> both = {3, 7, 90, 1ull << 40};
  EXPECT_THAT(NumberRows(Pointers(rows), {.features = true, .ids = true}, both, 0).places,
              ElementsAre(1, 3, 2, 0, 1, 2));
  const std::vector<EmbeddingId> ids = {90, 1ull << 40};
  EXPECT_THAT(NumberRows(Pointers(rows), {.ids = true}, ids, 5).places, ElementsAre(6, 5, 5));
}

// Thousands of neighbours and of far ones fill a hash table differently.
TEST(NumberFeatures, AgreesWithAMapOnManyFeatures) {
  for (const uint32_t step : {1u, 64u, 65'536u}) {
    std::mt19937 random(step);
    std::vector<std::vector<uint32_t>> indices;
    std::set<uint32_t> named;
    for (int i = 0; i < 300; ++i) {
      std::set<uint32_t> index;
      while (index.size() < 20) index.insert(static_cast<uint32_t>(random() % 4000) * step);
      named.insert(index.begin(), index.end());
      indices.emplace_back(index.begin(), index.end());
    }
    std::map<uint32_t, uint32_t> numbers;
    for (const uint32_t feature : named) {
      numbers.emplace(feature, 100 + static_cast<uint32_t>(numbers.size()));
    }
    std::vector<uint32_t> expected;
    std::map<uint32_t, uint32_t> as_they_come;
    std::vector<uint32_t> expected_as_they_come;
    for (const std::vector<uint32_t>& index : indices) {
      for (const uint32_t feature : index) {
        expected.push_back(numbers.at(feature));
        const auto next = 100 + static_cast<uint32_t>(as_they_come.size());
        expected_as_they_come.push_back(as_they_come.emplace(feature, next).first->second);
      }
    }
    const std::vector<Row> rows = RowsNaming(indices);
    const std::vector<EmbeddingId> ids(named.begin(), named.end());
    EXPECT_EQ(NumberFeatures(Pointers(rows), 100).places, expected_as_they_come);
    EXPECT_EQ(NumberRows(Pointers(rows), {.features = true}, ids, 100).places, expected);
  }
}

}  // namespace
}  // namespace millrace
