// Which rows make up the update of a clock, in one pass.
#include "processors/one_pass_batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tests/processors/batches_fixture.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

TEST(OnePassBatchesTest, ABatchIsCutByRowNumber) {
  OnePassBatches source({.batch_rows = 3});
  AddRows(source, 0, 6);
  Batch batch;
  ASSERT_EQ(Next(source, {.rows_end = 0}, batch), BatchState::kReady);
  EXPECT_THAT(batch.numbers, ElementsAreArray<RowNumber>({0, 1, 2}));
  EXPECT_EQ(batch.rows_end, 3u);
  EXPECT_EQ(batch.first_new, 0u);
  EXPECT_EQ(batch.first_trained, 0u);
  ExpectRowsFitNumbers(batch);
  ASSERT_EQ(Next(source, {.rows_end = 3}, batch), BatchState::kReady);
  EXPECT_THAT(batch.numbers, ElementsAreArray<RowNumber>({3, 4, 5}));
  EXPECT_EQ(batch.rows_end, 6u);
  ExpectRowsFitNumbers(batch);
}

TEST(OnePassBatchesTest, ABatchWaitsForItsLastRow) {
  OnePassBatches source({.batch_rows = 3});
  Batch batch;
  EXPECT_EQ(Next(source, {.rows_end = 0}, batch), BatchState::kWait);
  AddRows(source, 0, 2);
  EXPECT_EQ(Next(source, {.rows_end = 0}, batch), BatchState::kWait);
  AddRow(source, 2);
  EXPECT_EQ(Next(source, {.rows_end = 0}, batch), BatchState::kReady);
}

TEST(OnePassBatchesTest, TheLastBatchMayBeShort) {
  OnePassBatches source({.batch_rows = 3});
  AddRows(source, 0, 4);
  Batch batch;
  EXPECT_EQ(Next(source, {.rows_end = 3}, batch), BatchState::kWait);
  source.End(4);
  ASSERT_EQ(Next(source, {.rows_end = 3}, batch), BatchState::kReady);
  EXPECT_THAT(batch.numbers, ElementsAreArray<RowNumber>({3}));
  EXPECT_EQ(batch.rows_end, 4u);
  EXPECT_EQ(Next(source, {.rows_end = 6}, batch), BatchState::kLeave);
}

TEST(OnePassBatchesTest, TellsTheIdsOfABatchThatIsWholeAndOfNoOther) {
  OnePassBatches source({.batch_rows = 3});
  const auto add = [&](RowNumber number) {
    Row row;
    row.ids = {number + 100};
    source.Add(number, 0, &row);
  };
  const auto ids_of = [&](uint64_t begin, size_t batches_on = 0) {
    std::vector<EmbeddingId> ids;
    for (const Row* row : source.RowsOfBatchAt(RowNumber(begin), batches_on)) {
      ids.push_back(row->ids.front());
    }
    return ids;
  };
  for (RowNumber number = 0; number < 5; ++number) add(number);
  EXPECT_THAT(ids_of(0), ElementsAre(100, 101, 102));
  EXPECT_THAT(ids_of(3), IsEmpty()) << "its last row may still come";
  source.End(5);
  EXPECT_THAT(ids_of(3), ElementsAre(103, 104));
  EXPECT_THAT(ids_of(0, 1), ElementsAre(103, 104)) << "a batch on";
  EXPECT_THAT(ids_of(6), IsEmpty());
  EXPECT_THAT(ids_of(0, 2), IsEmpty());
  Batch batch;
  EXPECT_EQ(Next(source, {.rows_end = 3}, batch), BatchState::kReady);
  EXPECT_THAT(ids_of(0), ElementsAre(100, 101, 102)) << "it may be in flight";
  source.Forget({.rows_end = 3});
  EXPECT_THAT(ids_of(0), IsEmpty()) << "its rows have gone";
}

TEST(OnePassBatchesTest, LeavesWhenTheLastBatchWasFull) {
  OnePassBatches source({.batch_rows = 3});
  AddRows(source, 0, 6);
  source.End(6);
  Batch batch;
  EXPECT_EQ(Next(source, {.rows_end = 3}, batch), BatchState::kReady);
  EXPECT_EQ(Next(source, {.rows_end = 6}, batch), BatchState::kLeave);
}

TEST(OnePassBatchesTest, AnEmptyStreamLeavesAtOnce) {
  OnePassBatches source({.batch_rows = 3});
  source.End(0);
  Batch batch;
  EXPECT_EQ(Next(source, {.rows_end = 0}, batch), BatchState::kLeave);
}

TEST(OnePassBatchesTest, ARowThatCouldNotBeDecodedUsesUpItsPlaceInTheBatch) {
  OnePassBatches source({.batch_rows = 3});
  AddRow(source, 0);
  AddDamaged(source, 1);
  AddRow(source, 2);
  for (RowNumber number = 3; number < 6; ++number) AddDamaged(source, number);
  Batch batch;
  ASSERT_EQ(Next(source, {.rows_end = 0}, batch), BatchState::kReady);
  EXPECT_THAT(batch.numbers, ElementsAreArray<RowNumber>({0, 2}));
  EXPECT_EQ(batch.rows_end, 3u);
  ExpectRowsFitNumbers(batch);
  ASSERT_EQ(Next(source, {.rows_end = 3}, batch), BatchState::kReady);
  EXPECT_THAT(batch.rows, IsEmpty());
  EXPECT_EQ(batch.rows_end, 6u);
}

TEST(OnePassBatchesTest, BatchesGrowFastToSixtyFourRowsAndThenSlowly) {
  constexpr std::pair<uint64_t, uint64_t> kRowsOfBatchAt[] = {
      {0, 1},     {63, 1},    {64, 2},       {2047, 63},    {2048, 64},
      {8319, 64}, {8320, 65}, {12'800, 100}, {16'384, 128}, {1'000'000, 128}};
  for (const auto& [begin, rows] : kRowsOfBatchAt) {
    OnePassBatches source({.batch_rows = 128, .first_rows = 1}, RowNumber(begin));
    for (uint64_t row = begin; row < begin + rows; ++row) {
      Batch batch;
      EXPECT_EQ(Next(source, {.rows_end = RowNumber(begin)}, batch), BatchState::kWait);
      AddRow(source, RowNumber(row));
    }
    Batch batch;
    EXPECT_EQ(Next(source, {.rows_end = RowNumber(begin)}, batch), BatchState::kReady) << begin;
    EXPECT_EQ(batch.rows_end, begin + rows);
  }
}

// So that a repeated update is the same bytes, wherever it is computed and from whichever row on
// the task began to read.
TEST(OnePassBatchesTest, ABatchIsAFunctionOfTheRowWhereItBegins) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 300; ++trial) {
    const size_t batch_rows = 1 + random() % 9;
    const bool grow = trial % 3 == 0;
    const size_t first_rows = grow ? 1 + random() % batch_rows : 0;
    const RowNumber rows(1 + random() % (grow ? 400 : 100));
    std::vector<bool> damaged(rows);
    std::vector<bool> flushed(rows);  // before the row
    for (size_t i = 0; i < rows; ++i) {
      damaged[i] = random() % 6 == 0;
      flushed[i] = trial % 4 == 0 && random() % 5 == 0;
    }
    RowNumber begin(random() % (rows + 1));
    const RowNumber first_row(begin - std::min<uint64_t>(begin, random() % 20));
    OnePassBatches source(
        {.batch_rows = batch_rows, .first_rows = first_rows, .ends_at_flushes = true});
    RowNumber added = first_row;
    Batch batch;
    for (int step = 0; step < 8000; ++step) {
      if (added < rows) {
        if (flushed[added]) source.Flush(added);
        damaged[added] ? AddDamaged(source, added) : AddRow(source, added);
        ++added;
      } else {
        source.End(rows);
      }
      if (random() % 3 != 0) continue;
      const BatchState state = Next(source, {.rows_end = begin}, batch);
      if (state == BatchState::kLeave) break;
      const size_t rows_of_batch =
          grow ? std::clamp<size_t>(uint64_t{begin} / 32, first_rows, batch_rows) : batch_rows;
      RowNumber end = std::min<RowNumber>(begin + rows_of_batch, rows);
      for (uint64_t row = begin + 1; row < end; ++row) {
        if (flushed[row]) end = RowNumber(row);
      }
      if (state == BatchState::kWait) {
        const bool flush_is_to_come = added == end && end < rows && flushed[end];
        ASSERT_TRUE(added < end || added == rows || flush_is_to_come);
        continue;
      }
      std::vector<RowNumber> expected;
      for (RowNumber number = begin; number < end; ++number) {
        if (!damaged[number]) expected.push_back(number);
      }
      ASSERT_EQ(batch.numbers, expected);
      ASSERT_EQ(batch.rows_end, end);
      ExpectRowsFitNumbers(batch);
      if (random() % 2 == 0) begin = end;  // else the same batch is asked for again
    }
    ASSERT_EQ(begin, rows);
  }
}

TEST(OnePassBatchesTest, RowsThatAreNeededButNoLongerThereAreAnError) {
  OnePassBatches source({.batch_rows = 3});
  AddRows(source, 6, 12);
  Batch batch;
  const StatusOr<BatchState> state = source.Next({.rows_end = 3}, batch);
  EXPECT_TRUE(absl::IsOutOfRange(state.status())) << state.status();
  EXPECT_EQ(Next(source, {.rows_end = 6}, batch), BatchState::kReady);
}

// A task that begins at the end of its stream gets no row that could tell.
TEST(OnePassBatchesTest, RowsBeforeTheBeginAreMissingAlsoWhenNoneComes) {
  OnePassBatches source({.batch_rows = 3}, RowNumber(6), Clock(2));
  source.End(6);
  Batch batch;
  EXPECT_TRUE(absl::IsOutOfRange(source.Next({.clock = 1, .rows_end = 3}, batch).status()));
  EXPECT_EQ(Next(source, {.clock = 2, .rows_end = 6}, batch), BatchState::kLeave);
}

TEST(OnePassBatchesTest, RowsThatHaveBeenCountedAreReadOverWithoutBeingKept) {
  OnePassBatches source({.batch_rows = 3});
  AddRows(source, 0, 4);
  Batch batch;
  EXPECT_EQ(Next(source, {.rows_end = 15}, batch), BatchState::kWait);
  source.Forget({.rows_end = 15});
  EXPECT_EQ(source.size(), 0u);
  AddRows(source, 4, 18);
  source.Forget({.rows_end = 15});
  ASSERT_EQ(Next(source, {.rows_end = 15}, batch), BatchState::kReady);
  EXPECT_THAT(batch.numbers, ElementsAreArray<RowNumber>({15, 16, 17}));
  ExpectRowsFitNumbers(batch);
}

TEST(OnePassBatchesTest, WantsNoRowsWhileEnoughWaitButAlwaysAWholeBatch) {
  for (size_t batch_rows : {1u, 32u, 1000u}) {
    OnePassBatches source({.batch_rows = batch_rows});
    RowNumber rows = 0;
    while (source.WantsRows()) AddRow(source, rows++);
    EXPECT_GE(rows, batch_rows);
    EXPECT_LE(rows, std::max<size_t>(512, 8 * batch_rows));
    Batch batch;
    const RowNumber begin(rows - batch_rows);
    EXPECT_EQ(Next(source, {.rows_end = begin}, batch), BatchState::kReady);
    source.Forget({.rows_end = begin});
    EXPECT_TRUE(source.WantsRows()) << "used rows make room";
  }
}

TEST(OnePassBatchesTest, ABatchThatHasBegunEndsAtAFlush) {
  OnePassBatches source({.batch_rows = 4, .ends_at_flushes = true});
  source.Flush(0);
  AddRows(source, 0, 2);
  Batch batch;
  EXPECT_EQ(Next(source, {.rows_end = 0}, batch), BatchState::kWait);
  source.Flush(2);
  source.Flush(2);  // as a producer repeats it that starts again
  ASSERT_EQ(Next(source, {.rows_end = 0}, batch), BatchState::kReady);
  EXPECT_EQ(batch.rows_end, 2u);
  EXPECT_EQ(Next(source, {.rows_end = 2}, batch), BatchState::kWait) << "none has begun there";
  source.Forget({.rows_end = 2});
  AddRows(source, 2, 8);
  ASSERT_EQ(Next(source, {.rows_end = 2}, batch), BatchState::kReady);
  EXPECT_EQ(batch.rows_end, 6u);
}

TEST(OnePassBatchesTest, WhoDoesNotEndAtFlushesHasFullBatches) {
  OnePassBatches source({.batch_rows = 4});
  AddRows(source, 0, 2);
  source.Flush(2);
  AddRows(source, 2, 4);
  Batch batch;
  ASSERT_EQ(Next(source, {.rows_end = 0}, batch), BatchState::kReady);
  EXPECT_EQ(batch.rows_end, 4u);
}

TEST(OnePassBatchesTest, NeedsTheRowsThatHaveNotBeenCounted) {
  OnePassBatches source({.batch_rows = 32});
  AddRows(source, 0, 193);
  EXPECT_EQ(source.NeededFrom({.clock = 0}), (SourceBegin{0, 0}));
  EXPECT_EQ(source.NeededFrom({.clock = 7, .rows_end = 193}), (SourceBegin{193, 7}));
}

TEST(OnePassBatchesTest, CountsOfRowsThatHaveNotComeFreeNoRows) {
  OnePassBatches source({.batch_rows = 32});
  EXPECT_EQ(source.NeededFrom({.clock = 7, .rows_end = 193}), SourceBegin());
  AddRows(source, 0, 192);
  EXPECT_EQ(source.NeededFrom({.clock = 7, .rows_end = 193}), SourceBegin());
}

TEST(OnePassBatchesTest, KeepsTheClockAtWhichTheRowsBeforeItsBeginHadBeenCounted) {
  const OnePassBatches source({.batch_rows = 3}, RowNumber(7), Clock(4));
  EXPECT_EQ(source.begin(), (SourceBegin{7, 4}));
}

}  // namespace
}  // namespace millrace
