#include "producer/row_fingerprint.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace millrace {
namespace {

uint64_t Of(const std::vector<Row>& rows) {
  RowFingerprint fingerprint;
  for (const Row& row : rows) fingerprint.Add(row);
  return fingerprint.value();
}

Row SomeRow() {
  Row row = {1, {2, -0.5}, {7, 9}, {1, 0.25}};
  row.ids = {3, 4};
  return row;
}

TEST(RowFingerprint, TellsEveryPartOfARowAndTheirOrder) {
  std::set<uint64_t> seen = {Of({}), Of({SomeRow()}), Of({SomeRow(), SomeRow()})};
  std::vector<Row> others(8, SomeRow());
  others[0].label = 0;
  others[1].target = 1;
  others[2].numeric = {-0.5, 2};
  others[3].index = {7, 10};
  others[4].value = {1, 0.5};
  others[5].ids = {4, 3};
  others[6].index.pop_back();
  others[6].value.pop_back();
  others[7].index.clear();
  others[7].value.clear();
  for (const Row& other : others) {
    seen.insert(Of({other}));
    seen.insert(Of({other, SomeRow()}));
    seen.insert(Of({SomeRow(), other}));
  }
  EXPECT_EQ(seen.size(), 3 + 3 * others.size());
}

TEST(RowFingerprint, IsNeverThatOfAnEndWithoutOne) { EXPECT_NE(Of({}), 0u); }

// Ends of partitions carry it from version to version. By a second implementation (Python).
TEST(RowFingerprint, StaysTheSameFromVersionToVersion) {
  EXPECT_EQ(Of({SomeRow(), {0, {1}, {}, {}}}), 0x2a734f17d82e0816u);
}

}  // namespace
}  // namespace millrace
