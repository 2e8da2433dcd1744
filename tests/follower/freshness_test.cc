#include "follower/freshness.h"

#include <gtest/gtest.h>

#include <string>

namespace millrace {
namespace {

TEST(Freshness, IsTheTimeFromARowsRecordToTheFirstModelThatWasSentWithItOrLater) {
  Freshness freshness;
  freshness.Begin();
  freshness.AddRows(7, 3, 1000);
  freshness.NoteModel(1005, 1006);
  freshness.NoteCounted(9, 1010);  // rows 7 and 8
  EXPECT_EQ(freshness.rows(), 0u);
  freshness.NoteModel(1009, 1011);
  EXPECT_EQ(freshness.rows(), 0u);
  freshness.NoteModel(1012, 1015);
  EXPECT_EQ(freshness.rows(), 2u);
  EXPECT_TRUE(freshness.has_waiting());
  EXPECT_EQ(freshness.Json(), R"({"rows":2,"p50_ms":15,"p99_ms":15,"histogram":[[15,2]]})");
  freshness.NoteCounted(10, 1014);
  freshness.NoteModel(1030, 1040);
  EXPECT_FALSE(freshness.has_waiting());
  EXPECT_EQ(freshness.Json(), R"({"rows":3,"p50_ms":15,"p99_ms":41,"histogram":[[15,2],[41,1]]})");
}

// The answers are read by another thread than the weights.
TEST(Freshness, IsTheSameWhenTheModelIsKnownBeforeTheAnswer) {
  Freshness freshness;
  freshness.Begin();
  freshness.AddRows(0, 1, 1000);
  freshness.NoteModel(1003, 1004);
  freshness.NoteModel(1006, 1009);
  freshness.NoteModel(1020, 1030);
  freshness.NoteCounted(1, 1005);
  EXPECT_EQ(freshness.rows(), 1u);
  EXPECT_EQ(freshness.Quantile(0.5), 10);
}

TEST(Freshness, CountsARepeatedRowOnce) {
  Freshness freshness;
  freshness.Begin();
  freshness.AddRows(0, 4, 1000);
  freshness.AddRows(2, 4, 1001);
  freshness.AddRows(0, 3, 1002);
  freshness.NoteCounted(100, 1003);
  freshness.NoteModel(1003, 1004);
  EXPECT_EQ(freshness.rows(), 6u);
}

TEST(Freshness, ForgetsTheRowsOfTheWorkerBefore) {
  Freshness freshness;
  freshness.Begin();
  freshness.AddRows(0, 4, 1000);
  freshness.NoteCounted(4, 1001);
  freshness.Begin();
  EXPECT_FALSE(freshness.has_waiting());
  freshness.AddRows(0, 1, 1002);
  freshness.NoteModel(1002, 1003);
  EXPECT_EQ(freshness.rows(), 0u) << "counted by whom it is not";
}

TEST(Freshness, CountsRowsThatNobodyLearnsFromAsOfTheLongestTime) {
  Freshness freshness;
  freshness.Begin();
  freshness.AddRows(0, 1, 1000);
  freshness.GiveUp(1000 + Freshness::kMostMs);
  EXPECT_TRUE(freshness.has_waiting());
  freshness.GiveUp(1001 + Freshness::kMostMs);
  EXPECT_FALSE(freshness.has_waiting());
  EXPECT_EQ(freshness.Quantile(0.5), Freshness::kMostMs);
}

TEST(Freshness, HasQuantilesOfManyRowsAndNoneOfNone) {
  Freshness freshness;
  EXPECT_EQ(freshness.Json(), "null");
  EXPECT_EQ(freshness.Quantile(0.5), 0);
  freshness.Begin();
  freshness.NoteModel(1001, 1002);
  for (uint64_t row = 0; row < 100; ++row) {
    // (Clocks of two machines: a row may seem to come after it was used.)
    freshness.AddRows(RowNumber(row), 1, row < 98 ? 1005 : 502);
    freshness.NoteCounted(RowNumber(row + 1), 1000);
  }
  EXPECT_EQ(freshness.rows(), 100u);
  EXPECT_EQ(freshness.Quantile(0.5), 1);
  EXPECT_EQ(freshness.Quantile(0.98), 1);
  EXPECT_GE(freshness.Quantile(0.99), 500);
  EXPECT_LT(freshness.Quantile(0.99), 625);
}

}  // namespace
}  // namespace millrace
