#include "processors/row_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace {
namespace {

std::vector<uint64_t> EndsOf(const RowHistory& rows) {
  std::vector<uint64_t> ends = {rows.now().end()};
  for (const RowProgress& before : rows.before()) ends.push_back(before.end());
  return ends;
}

TEST(RowHistory, RemembersAsManyClocksAsItIsDeep) {
  RowHistory rows(2);
  for (const uint64_t end : {4, 8, 12}) rows.Count(end);
  EXPECT_THAT(EndsOf(rows), testing::ElementsAre(12, 8, 4));
  EXPECT_EQ(rows.Ago(0).end(), 12u);
  EXPECT_EQ(rows.Ago(2).end(), 4u);
  EXPECT_EQ(rows.Ago(9).end(), 4u) << "the oldest that is remembered";
  EXPECT_THAT(EndsOf(rows.AsOf(1)), testing::ElementsAre(8, 4, 4));
}

TEST(RowHistory, CountsTheUpdatesThatBringNoRowsAndNeverUncountsOne) {
  RowHistory rows(1);
  rows.Count(4);
  rows.Count(4);
  rows.Count(2);
  EXPECT_EQ(rows.now().end(), 4u);
  EXPECT_EQ(rows.now().updates_without_rows(), 2u);
  rows.Count(5);
  EXPECT_EQ(rows.now().updates_without_rows(), 0u);
}

TEST(RowHistory, CountsWhatWasLearntFromTwiceAtItsClock) {
  RowHistory rows(1);
  rows.Count(4, 0);
  rows.Count(4, 3);
  EXPECT_EQ(rows.now().repeated_end(), 3u);
  EXPECT_EQ(rows.Ago(1).repeated_end(), 0u);
  rows.Count(6, 2);
  EXPECT_EQ(rows.now().repeated_end(), 3u) << "never less";
}

TEST(RowHistory, NoRowThatIsGoneIsNeededAtAnyClock) {
  RowHistory rows(3);
  for (const uint64_t end : {4, 8, 12}) rows.Count(end);
  rows.RaiseTo(7);
  EXPECT_THAT(EndsOf(rows), testing::ElementsAre(12, 8, 7, 7));
}

TEST(RowHistory, TakesWhatAMessageDoesNotHaveToBeAsItsOldest) {
  RowHistory rows(2);
  rows.Count(4);
  rows.Count(8);
  Weights message;
  rows.SaveTo(message);
  EXPECT_THAT(EndsOf(RowHistory::Of(message, 2)), testing::ElementsAre(8, 4, 0));
  EXPECT_THAT(EndsOf(RowHistory::Of(message, 1)), testing::ElementsAre(8, 4));
  EXPECT_THAT(EndsOf(RowHistory::Of(message, 3)), testing::ElementsAre(8, 4, 0, 0));
  message.clear_rows_before();
  EXPECT_THAT(EndsOf(RowHistory::Of(message, 1)), testing::ElementsAre(8, 0));
}

}  // namespace
}  // namespace millrace
