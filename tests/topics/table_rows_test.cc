#include "topics/table_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<NamedTable> kTables = {{.parameter = 1, .width = 1},
                                         {.parameter = 4, .width = 3}};

EmbeddingBlock Block(const std::vector<EmbeddingId>& rows, const std::vector<float>& values) {
  EmbeddingBlock block;
  block.mutable_id()->Assign(rows.begin(), rows.end());
  block.mutable_value()->Assign(values.begin(), values.end());
  return block;
}

TEST(TableRowsTest, ARowsIdHasItsTableAndTheTrainersId) {
  EXPECT_EQ(TableOf(RowIn(255, kMostRowId)), 255u);
  EXPECT_EQ(IdInTable(RowIn(255, kMostRowId)), kMostRowId);
  EXPECT_EQ(RowIn(0, 7), 7u);
  EXPECT_LT(RowIn(0, kMostRowId), RowIn(1, 0));
}

TEST(TableRowsTest, TheTablesAreCountedAmongThemselves) {
  JobFeatures features;
  for (const uint64_t extent : {5, 2, 7}) {
    NamedParameter& parameter = *features.add_parameters();
    parameter.add_shape(extent);
    if (extent != 2) parameter.mutable_table();
  }
  const std::vector<NamedTable> tables = TablesOf(features);
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_EQ(tables[1].parameter, 2u);
  EXPECT_EQ(tables[1].width, 7u);
  EXPECT_EQ(WidestRow(tables), 7u);
  EXPECT_EQ(WidestRow({}), 0u);
}

TEST(TableRowsTest, RowsAreExpandedToTheWidestAndTrimmedAgain) {
  const EmbeddingBlock sent = Block({5, RowIn(1, 0), RowIn(1, 5)}, {1, 2, 3, 4, 5, 6, 7});
  EmbeddingBlock block = sent;
  ASSERT_TRUE(ExpandRows(kTables, block).ok());
  EXPECT_THAT(block.value(), ElementsAre(1, 0, 0, 2, 3, 4, 5, 6, 7));
  TrimRows(kTables, block);
  EXPECT_EQ(block.SerializeAsString(), sent.SerializeAsString());
}

TEST(TableRowsTest, OfAnotherJobTheyStayAsTheyAre) {
  EmbeddingBlock block = Block({RowIn(9, 1)}, {1, 2});
  ASSERT_TRUE(ExpandRows({}, block).ok());
  TrimRows({}, block);
  EXPECT_THAT(block.value(), ElementsAre(1, 2));
}

TEST(TableRowsTest, WhatDoesNotFitTheTablesIsRefused) {
  EmbeddingBlock block = Block({5, RowIn(2, 0)}, {1, 2});
  EXPECT_THAT(ExpandRows(kTables, block).message(), HasSubstr("a row of table 2 of a job of 2"));
  block = Block({5, RowIn(1, 0)}, {1, 2});
  EXPECT_THAT(ExpandRows(kTables, block).message(), HasSubstr("2 values of 2 rows that have 4"));
  EXPECT_THAT(block.value(), ElementsAre(1, 2));
}

// A message that somebody has made up of many narrow rows.
TEST(TableRowsTest, RowsThatWouldTakeMoreMemoryThanThereIsAreRefused) {
  const std::vector<NamedTable> tables = {{.parameter = 0, .width = 1},
                                          {.parameter = 1, .width = kMostRowWidth}};
  EmbeddingBlock block;
  for (uint64_t id = 0; id <= 4096; ++id) {
    block.add_id(id);
    block.add_value(1);
  }
  EXPECT_THAT(ExpandRows(tables, block).message(), HasSubstr("more than there is memory for"));
}

}  // namespace
}  // namespace millrace
