// Rows of tables in a trainer's step, against plain maps.
#include "processors/step_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <ranges>
#include <vector>

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using RowMap = std::map<EmbeddingId, std::vector<float>>;

// Tables of one, two and three numbers.
const std::vector<NamedTable> kTables = {{0, 1}, {2, 2}, {3, 3}};

StepRows FlatOf(const RowMap& map) {
  StepRows rows;
  for (const auto& [id, values] : map) {
    rows.ids.push_back(id);
    rows.values.insert(rows.values.end(), values.begin(), values.end());
  }
  return rows;
}

void ExpectEqual(const StepRows& rows, const RowMap& expected) {
  EXPECT_EQ(rows.ids, FlatOf(expected).ids);
  EXPECT_EQ(rows.values, FlatOf(expected).values);
}

RowMap SomeRows(std::mt19937& random) {
  RowMap rows;
  const auto below = [&](size_t limit) { return static_cast<uint32_t>(random() % limit); };
  const uint32_t first = below(kTables.size());
  const uint32_t tables = 1 + below(kTables.size() - first);
  for (size_t i = random() % 12; i > 0; --i) {
    const uint32_t table = first + below(tables);
    std::vector<float>& values = rows[RowIn(table, random() % 8)];
    values.clear();
    for (size_t k = 0; k < kTables[table].width; ++k) {
      values.push_back(static_cast<float>(random() % 100));
    }
  }
  return rows;
}

TEST(StepRows, AreSummedById) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 2000; ++trial) {
    RowMap expected = SomeRows(random);
    StepRows rows = FlatOf(expected);
    for (int times = 0; times < 3; ++times) {
      const RowMap more = SomeRows(random);
      AddRows(FlatOf(more), kTables, rows);
      for (const auto& [id, values] : more) {
        std::vector<float>& sum = expected[id];
        sum.resize(values.size());
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
      }
      ASSERT_NO_FATAL_FAILURE(ExpectEqual(rows, expected)) << trial;
    }
  }
}

TEST(AskedRows, AreSpreadToWhereTheyWereAskedForAndSummedFromThere) {
  const AskedRows asked({7, 2, 9, 2, 2});
  EXPECT_EQ(asked.size(), 5u);
  EXPECT_THAT(asked.distinct(), ElementsAre(2, 7, 9));
  std::vector<float> rows(10);
  asked.Spread(std::vector<float>{20, 21, 0, 70, 71, 0, 90, 91, 0}, 3, 2, rows);
  EXPECT_THAT(rows, ElementsAre(70, 71, 20, 21, 90, 91, 20, 21, 20, 21));
  const StepRows sums = asked.SumsOf(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 2);
  EXPECT_THAT(sums.ids, ElementsAre(2, 7, 9));
  EXPECT_THAT(sums.values, ElementsAre(19, 22, 1, 2, 5, 6));
}

TEST(AskedRows, AreSortedHoweverManyTheyAre) {
  std::mt19937_64 random(2);
  for (const size_t count : {1, 255, 256, 257, 3000}) {
    for (const int bits : {1, 5, 11, 12, 33, 56}) {
      std::vector<EmbeddingId> ids;
      std::map<EmbeddingId, float> sums;
      std::vector<float> values;
      for (size_t i = 0; i < count; ++i) {
        ids.push_back(random() >> (64 - bits));
        values.push_back(static_cast<float>(random() % 8));
        sums[ids.back()] += values.back();
      }
      const AskedRows asked(ids);
      const StepRows summed = asked.SumsOf(values, 1);
      ASSERT_EQ(summed.ids.size(), sums.size());
      EXPECT_TRUE(std::ranges::equal(summed.ids, sums | std::views::keys));
      EXPECT_TRUE(std::ranges::equal(summed.values, sums | std::views::values));
      EXPECT_TRUE(std::ranges::equal(asked.distinct(), summed.ids));
      std::vector<float> spread(count);
      asked.Spread(summed.values, 1, 1, spread);
      for (size_t i = 0; i < count; ++i) ASSERT_EQ(spread[i], sums[ids[i]]) << i;
    }
  }
}

// Floats depend on the order in which they are added.
TEST(AskedRows, RowsThatWereAskedForTwiceAreSummedInTheirOrder) {
  const AskedRows asked({1, 1, 1});
  EXPECT_THAT(asked.SumsOf(std::vector<float>{1e8f, -1e8f, 1}, 1).values, ElementsAre(1));
  EXPECT_THAT(asked.SumsOf(std::vector<float>{1, 1e8f, -1e8f}, 1).values, ElementsAre(0));
}

TEST(AskedRows, MayBeNone) {
  const AskedRows asked({});
  EXPECT_THAT(asked.distinct(), IsEmpty());
  asked.Spread({}, 3, 2, {});
  EXPECT_THAT(asked.SumsOf({}, 2).ids, IsEmpty());
}

}  // namespace
}  // namespace millrace
