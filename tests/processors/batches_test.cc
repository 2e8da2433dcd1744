// Both schedules: which rows make up the update of a clock.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "processors/one_pass_batches.h"
#include "processors/sliding_buffer_batches.h"
#include "topics/row_codec.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

const RowShape kShape = {.numeric = 1, .features = 4, .classes = 2};

Row RowOf(RowNumber number) {
  return {static_cast<uint32_t>(number % 2), {static_cast<double>(number)}, {1, 3}, {0.5f, 1}};
}

void AddRow(BatchSource& source, RowNumber number) {
  Row row = RowOf(number);
  source.Add(number, static_cast<int64_t>(number), &row);
}

void AddRows(BatchSource& source, RowNumber begin, RowNumber end) {
  for (RowNumber number = begin; number < end; ++number) AddRow(source, number);
}

void AddDamaged(BatchSource& source, RowNumber number) {
  source.Add(number, static_cast<int64_t>(number), nullptr);
}

BatchState Next(BatchSource& source, const Progress& progress, Batch& batch) {
  const StatusOr<BatchState> state = source.Next(progress, batch);
  EXPECT_TRUE(state.ok()) << state.status();
  return state.value_or(BatchState::kWait);
}

// The numbers stand beside the rows that have them.
void ExpectRowsFitNumbers(const Batch& batch) {
  ASSERT_EQ(batch.rows.size(), batch.numbers.size());
  ASSERT_TRUE(std::is_sorted(batch.numbers.begin(), batch.numbers.end()));
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    ASSERT_EQ(*batch.rows[i], RowOf(batch.numbers[i]));
  }
}

// ---- one pass ----

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

// ---- sliding buffer ----

struct Sliding {
  explicit Sliding(const SlidingBufferOptions& options, size_t min_rows = 4)
      : buffer({.min_rows = min_rows, .max_rows = options.max_rows, .coefficient = 0}, "b"),
        source(options, kShape, buffer) {}

  TrainingBuffer buffer;
  SlidingBufferBatches source;
};

TEST(SlidingBufferBatchesTest, TheBatchIsWhatTheBufferHolds) {
  Sliding sliding({.max_rows = 8});
  Batch batch;
  AddRows(sliding.source, 0, 3);
  ASSERT_EQ(Next(sliding.source, {}, batch), BatchState::kReady);
  EXPECT_THAT(batch.numbers, ElementsAreArray<RowNumber>({0, 1, 2}));
  EXPECT_EQ(batch.rows_end, 3u);
  AddRows(sliding.source, 3, 9);
  ASSERT_EQ(Next(sliding.source, {.clock = 1, .rows_end = 3}, batch), BatchState::kReady);
  EXPECT_THAT(batch.numbers, ElementsAreArray<RowNumber>({5, 6, 7, 8}));
  EXPECT_EQ(batch.rows_end, 9u);
  EXPECT_EQ(batch.first_new, 0u);
  ExpectRowsFitNumbers(batch);
}

TEST(SlidingBufferBatchesTest, AnyClockHasABatchWhereverItsRowsBegin) {
  Sliding sliding({.max_rows = 8});
  AddRows(sliding.source, 100, 103);
  const std::optional<SourceBegin> begin = sliding.source.begin();
  ASSERT_TRUE(begin);
  EXPECT_EQ(begin->row, 0u);
  EXPECT_EQ(begin->clock, 0u);
}

TEST(SlidingBufferBatchesTest, WantsNoRowsWhileTheDeadOnesTakeTooMuchMemory) {
  constexpr size_t kMostBytes = size_t{64} << 20;
  Sliding sliding({.max_rows = 8});
  DeadLetter letter;
  letter.mutable_value()->resize(kMostBytes - 1);
  sliding.source.dead_letters().Add(0, true, letter);
  EXPECT_TRUE(sliding.source.WantsRows());
  letter.mutable_value()->resize(1);
  sliding.source.dead_letters().Add(1, true, letter);
  EXPECT_FALSE(sliding.source.WantsRows());
  sliding.source.dead_letters().Forget(1);
  EXPECT_TRUE(sliding.source.WantsRows());
}

TEST(SlidingBufferBatchesTest, RowsThatHaveBeenCountedAreNotNew) {
  Sliding sliding({.max_rows = 8});
  AddRows(sliding.source, 0, 6);
  Batch batch;
  ASSERT_EQ(Next(sliding.source, {.clock = 1, .rows_end = 4}, batch), BatchState::kReady);
  EXPECT_THAT(batch.numbers, ElementsAreArray<RowNumber>({2, 3, 4, 5}));
  EXPECT_EQ(batch.first_new, 2u);
  EXPECT_EQ(batch.first_trained, 0u);
}

TEST(SlidingBufferBatchesTest, WithoutNewRowsAWorkerIsSilent) {
  Sliding sliding({.max_rows = 8});
  Batch batch;
  EXPECT_EQ(Next(sliding.source, {}, batch), BatchState::kWait);
  AddRows(sliding.source, 0, 3);
  EXPECT_EQ(Next(sliding.source, {.clock = 1, .rows_end = 3}, batch), BatchState::kWait);
  EXPECT_EQ(Next(sliding.source, {.clock = 9, .rows_end = 7}, batch), BatchState::kWait)
      << "a task that reads back has no new rows before it is where the last one was";
  AddRow(sliding.source, 3);
  EXPECT_EQ(Next(sliding.source, {.clock = 1, .rows_end = 3}, batch), BatchState::kReady);
}

TEST(SlidingBufferBatchesTest, AfterTheEndItTrainsOnForTheRoundsAskedForAndLeaves) {
  for (uint64_t rounds : {0u, 1u, 3u}) {
    Sliding sliding({.max_rows = 8, .rounds_after_end = rounds});
    AddRows(sliding.source, 0, 3);
    sliding.source.End(3);
    Batch batch;
    Progress progress;
    ASSERT_EQ(Next(sliding.source, progress, batch), BatchState::kReady) << "the new rows first";
    progress.rows_end = 3;
    for (uint64_t round = 0; round < rounds; ++round) {
      progress.updates_without_rows = round;
      ASSERT_EQ(Next(sliding.source, progress, batch), BatchState::kReady) << round;
      EXPECT_THAT(batch.numbers, ElementsAreArray<RowNumber>({0, 1, 2}));
      EXPECT_EQ(batch.first_new, 3u);
      EXPECT_EQ(batch.rows_end, 3u);
    }
    progress.updates_without_rows = rounds;
    EXPECT_EQ(Next(sliding.source, progress, batch), BatchState::kLeave);
  }
}

TEST(SlidingBufferBatchesTest, AnEmptyStreamLeavesAtOnce) {
  Sliding sliding({.max_rows = 8, .rounds_after_end = 5});
  sliding.source.End(0);
  Batch batch;
  EXPECT_EQ(Next(sliding.source, {}, batch), BatchState::kLeave);
}

TEST(SlidingBufferBatchesTest, AMiniBatchIsTheNewestRows) {
  Sliding sliding({.max_rows = 8, .minibatch_rows = 2});
  AddRows(sliding.source, 0, 6);
  Batch batch;
  ASSERT_EQ(Next(sliding.source, {.clock = 2, .rows_end = 5}, batch), BatchState::kReady);
  EXPECT_THAT(batch.numbers, ElementsAreArray<RowNumber>({4, 5}));
  EXPECT_EQ(batch.first_new, 1u);
  EXPECT_EQ(batch.first_trained, 0u);
}

TEST(SlidingBufferBatchesTest, NewRowsOutsideTheMiniBatchAreTestedAndCountedButNotTrainedOn) {
  Sliding sliding({.max_rows = 8, .minibatch_rows = 1});
  AddRows(sliding.source, 0, 4);
  Batch batch;
  ASSERT_EQ(Next(sliding.source, {.clock = 1, .rows_end = 1}, batch), BatchState::kReady);
  EXPECT_THAT(batch.numbers, ElementsAreArray<RowNumber>({1, 2, 3}));
  EXPECT_EQ(batch.first_new, 0u);
  EXPECT_EQ(batch.first_trained, 2u);
}

TEST(SlidingBufferBatchesTest, AMiniBatchLargerThanTheBufferIsTheBuffer) {
  Sliding sliding({.max_rows = 8, .minibatch_rows = 100});
  AddRows(sliding.source, 0, 6);
  Batch batch;
  ASSERT_EQ(Next(sliding.source, {}, batch), BatchState::kReady);
  EXPECT_THAT(batch.numbers, ElementsAreArray<RowNumber>({2, 3, 4, 5}));
  EXPECT_EQ(batch.first_trained, 0u);
}

TEST(SlidingBufferBatchesTest, ADamagedRowTakesItsPlaceInTheBufferButNotInTheBatch) {
  Sliding sliding({.max_rows = 8});
  AddRow(sliding.source, 0);
  AddDamaged(sliding.source, 1);
  AddRow(sliding.source, 2);
  AddDamaged(sliding.source, 3);
  Batch batch;
  ASSERT_EQ(Next(sliding.source, {.clock = 1, .rows_end = 1}, batch), BatchState::kReady);
  EXPECT_THAT(batch.numbers, ElementsAreArray<RowNumber>({0, 2}));
  EXPECT_EQ(batch.first_new, 1u);
  EXPECT_EQ(batch.rows_end, 4u) << "a damaged row uses up its number";
  EXPECT_EQ(sliding.source.size(), 4u);
}

// Rows are decoded once and kept; whatever the buffer does, a batch's rows are those it holds.
TEST(SlidingBufferBatchesTest, EachRowOfABatchIsTheOneThatCameUnderItsNumber) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 100; ++trial) {
    const size_t max_rows = 4 + random() % 12;
    const size_t minibatch = random() % 6;
    TrainingBuffer buffer({.min_rows = 1 + random() % 4, .max_rows = max_rows, .coefficient = 0.1},
                          "b");
    SlidingBufferBatches source({.max_rows = max_rows, .minibatch_rows = minibatch}, kShape,
                                buffer);
    std::vector<bool> damaged;
    int64_t now = 0;
    Progress progress;
    Batch batch;
    for (int step = 0; step < 200; ++step) {
      for (uint64_t rows = random() % 5; rows > 0; --rows) {
        damaged.push_back(random() % 8 == 0);
        now += static_cast<int64_t>(random() % 2000);
        Row row = RowOf(RowNumber(damaged.size() - 1));
        source.Add(RowNumber(damaged.size() - 1), now, damaged.back() ? nullptr : &row);
      }
      if (Next(source, progress, batch) != BatchState::kReady) {
        ASSERT_EQ(progress.rows_end, damaged.size());
        continue;
      }
      ASSERT_EQ(batch.rows_end, damaged.size());
      ExpectRowsFitNumbers(batch);
      std::vector<RowNumber> held;
      buffer.ForEach([&](const TrainingBuffer::Slot& slot) {
        const bool in_minibatch = minibatch == 0 || slot.row + minibatch >= damaged.size();
        const bool is_new = slot.row >= progress.rows_end;
        if (!damaged[slot.row] && (in_minibatch || is_new)) held.push_back(slot.row);
      });
      ASSERT_EQ(batch.numbers, held);
      for (size_t i = 0; i < batch.numbers.size(); ++i) {
        ASSERT_EQ(i >= batch.first_new, batch.numbers[i] >= progress.rows_end);
        const bool in_minibatch = minibatch == 0 || batch.numbers[i] + minibatch >= damaged.size();
        ASSERT_EQ(i >= batch.first_trained, in_minibatch);
      }
      if (random() % 2 == 0) progress.rows_end = batch.rows_end;
    }
  }
}

// ---- sliding buffer of an online learner ----

TEST(SlidingBufferBatchesTest, AnOnlineLearnerTakesTheRowsThatHaveComeInTheirOrderAndEachOnce) {
  Sliding sliding({.max_rows = 8, .online_rows = 3}, 8);
  AddRows(sliding.source, 0, 5);
  Batch batch;
  ASSERT_EQ(Next(sliding.source, {}, batch), BatchState::kReady);
  EXPECT_THAT(batch.numbers, ElementsAreArray<RowNumber>({0, 1, 2}));
  EXPECT_EQ(batch.first_new, 0u);
  EXPECT_EQ(batch.rows_end, 3u);
  ASSERT_EQ(Next(sliding.source, {.clock = 1, .rows_end = 3}, batch), BatchState::kReady);
  EXPECT_THAT(batch.numbers, ElementsAreArray<RowNumber>({3, 4}));
  EXPECT_EQ(batch.rows_end, 5u);
  EXPECT_EQ(batch.repeated_end, 0u);
  ExpectRowsFitNumbers(batch);
}

TEST(SlidingBufferBatchesTest, WhileNoRowsComeAnOnlineLearnerLearnsFromEachOnceMoreAndIsSilent) {
  Sliding sliding({.max_rows = 8, .online_rows = 3}, 8);
  AddRows(sliding.source, 0, 5);
  Batch batch;
  Progress progress = {.clock = 2, .rows_end = 5};
  ASSERT_EQ(Next(sliding.source, progress, batch), BatchState::kReady);
  EXPECT_THAT(batch.numbers, ElementsAreArray<RowNumber>({0, 1, 2}));
  EXPECT_EQ(batch.first_new, 3u) << "none of them counts anew";
  EXPECT_EQ(batch.first_trained, 0u);
  EXPECT_EQ(batch.rows_end, 5u);
  EXPECT_EQ(batch.repeated_end, 3u);
  progress.repeated_end = 3;
  ASSERT_EQ(Next(sliding.source, progress, batch), BatchState::kReady);
  EXPECT_THAT(batch.numbers, ElementsAreArray<RowNumber>({3, 4}));
  EXPECT_EQ(batch.repeated_end, 5u);
  progress.repeated_end = 5;
  EXPECT_EQ(Next(sliding.source, progress, batch), BatchState::kWait) << "a job at rest";
  AddRow(sliding.source, 5);
  ASSERT_EQ(Next(sliding.source, progress, batch), BatchState::kReady);
  EXPECT_THAT(batch.numbers, ElementsAreArray<RowNumber>({5}));
  EXPECT_EQ(batch.first_new, 0u);
}

TEST(SlidingBufferBatchesTest, ARowThatComesIsNotKeptWaitingByWhatIsToBeRepeated) {
  Sliding sliding({.max_rows = 8, .online_rows = 2}, 8);
  AddRows(sliding.source, 0, 5);
  Batch batch;
  ASSERT_EQ(Next(sliding.source, {.rows_end = 5, .repeated_end = 2}, batch), BatchState::kReady);
  EXPECT_THAT(batch.numbers, ElementsAreArray<RowNumber>({2, 3}));
  AddRow(sliding.source, 5);
  ASSERT_EQ(Next(sliding.source, {.rows_end = 5, .repeated_end = 4}, batch), BatchState::kReady);
  EXPECT_THAT(batch.numbers, ElementsAreArray<RowNumber>({5}));
  EXPECT_EQ(batch.repeated_end, 4u);
}

TEST(SlidingBufferBatchesTest, WhatALongRecordReplacesIsKeptUntilItIsCounted) {
  Sliding sliding({.max_rows = 4, .online_rows = 3}, 4);
  AddRows(sliding.source, 0, 5);
  sliding.source.Told({.rows_end = 2}, false);
  EXPECT_FALSE(sliding.source.HoldsMore()) << "the only row that was replaced has been counted";
  AddRow(sliding.source, 5);
  AddDamaged(sliding.source, 6);
  AddRows(sliding.source, 7, 10);
  EXPECT_TRUE(sliding.source.HoldsMore());
  EXPECT_EQ(sliding.source.size(), 4u);
  Batch batch;
  Progress progress = {.rows_end = 2};
  std::vector<RowNumber> learnt;
  for (const RowNumber end : {RowNumber(5), RowNumber(8), RowNumber(10)}) {
    ASSERT_EQ(Next(sliding.source, progress, batch), BatchState::kReady);
    EXPECT_EQ(batch.rows_end, end);
    EXPECT_EQ(batch.first_new, 0u);
    ExpectRowsFitNumbers(batch);
    learnt.insert(learnt.end(), batch.numbers.begin(), batch.numbers.end());
    progress.rows_end = end;
    sliding.source.Told(progress, false);
  }
  EXPECT_THAT(learnt, ElementsAreArray<RowNumber>({2, 3, 4, 5, 7, 8, 9}));
  EXPECT_FALSE(sliding.source.HoldsMore());
}

TEST(SlidingBufferBatchesTest, WhatHasLeftTheBufferIsNeitherLearntNorRepeatedIfRowsAreSkipped) {
  Sliding sliding({.max_rows = 4, .online_rows = 3, .skips_rows = true}, 4);
  AddRows(sliding.source, 0, 10);
  Batch batch;
  ASSERT_EQ(Next(sliding.source, {.rows_end = 2}, batch), BatchState::kReady);
  EXPECT_THAT(batch.numbers, ElementsAreArray<RowNumber>({6, 7, 8}));
  EXPECT_EQ(batch.rows_end, 9u);
  ASSERT_EQ(Next(sliding.source, {.rows_end = 10, .repeated_end = 1}, batch), BatchState::kReady);
  EXPECT_THAT(batch.numbers, ElementsAreArray<RowNumber>({6, 7, 8}));
  EXPECT_EQ(batch.repeated_end, 9u);
}

TEST(SlidingBufferBatchesTest, ATaskThatReadsRowsBackRepeatsNoneBeforeItHasThemAll) {
  Sliding sliding({.max_rows = 8, .online_rows = 3}, 8);
  AddRows(sliding.source, 0, 5);
  Batch batch;
  EXPECT_EQ(Next(sliding.source, {.clock = 9, .rows_end = 7}, batch), BatchState::kWait);
}

TEST(SlidingBufferBatchesTest, AnOnlineLearnerLeavesWhenAllIsRepeatedAndTheRoundsAreMade) {
  Sliding sliding({.max_rows = 8, .rounds_after_end = 4, .online_rows = 3}, 8);
  AddRows(sliding.source, 0, 5);
  sliding.source.End(5);
  Batch batch;
  Progress progress = {.rows_end = 5, .updates_without_rows = 9, .repeated_end = 3};
  ASSERT_EQ(Next(sliding.source, progress, batch), BatchState::kReady) << "two are left";
  progress.repeated_end = 5;
  EXPECT_EQ(Next(sliding.source, progress, batch), BatchState::kLeave);
  progress.updates_without_rows = 2;
  ASSERT_EQ(Next(sliding.source, progress, batch), BatchState::kReady);
  EXPECT_THAT(batch.numbers, ElementsAreArray<RowNumber>({0, 1, 2})) << "from the front again";
  EXPECT_EQ(batch.first_new, 3u);
  progress.updates_without_rows = 3;
  ASSERT_EQ(Next(sliding.source, progress, batch), BatchState::kReady);
  EXPECT_THAT(batch.numbers, ElementsAreArray<RowNumber>({3, 4}));
}

// ---- rows that no update has used ----

TEST(SlidingBufferBatchesTest, WantsNoRowsThatWouldReplaceThoseThatNoUpdateHasCounted) {
  Sliding sliding({.max_rows = 8}, 8);
  EXPECT_TRUE(sliding.source.WantsRows());
  AddRows(sliding.source, 0, 7);
  EXPECT_TRUE(sliding.source.WantsRows());
  AddRow(sliding.source, 7);
  EXPECT_FALSE(sliding.source.WantsRows());
  sliding.source.Told({.rows_end = 1}, false);
  EXPECT_TRUE(sliding.source.WantsRows());
  sliding.source.Told({.rows_end = 100}, true);
  EXPECT_TRUE(sliding.source.WantsRows()) << "it reads back what was counted";
  sliding.source.Told({.rows_end = 1}, false);
  AddRow(sliding.source, 8);
  EXPECT_FALSE(sliding.source.WantsRows());
}

// A record of the topic may have been made up.
TEST(SlidingBufferBatchesTest, ACountOfRowsThatHaveNotComeCostsNoRowBeforeItIsConfirmed) {
  Sliding sliding({.max_rows = 4, .online_rows = 3}, 4);
  AddRows(sliding.source, 0, 7);
  sliding.source.dead_letters().Add(6, true, DeadLetter());
  const Progress truth = {.clock = 1, .rows_end = 2};
  sliding.source.Told(truth, false);
  const Progress forged = {.clock = 9, .rows_end = 1'000'000};
  sliding.source.Told(forged, false);
  sliding.source.Forget(forged);
  EXPECT_FALSE(sliding.source.WantsRows());
  Batch batch;
  EXPECT_EQ(Next(sliding.source, forged, batch), BatchState::kWait);
  AddRow(sliding.source, 7);  // of the record that was being read
  sliding.source.Told(truth, false);
  std::vector<RowNumber> learnt;
  Progress progress = truth;
  for (; progress.rows_end < 8; progress.rows_end = batch.rows_end) {
    ASSERT_EQ(Next(sliding.source, progress, batch), BatchState::kReady);
    learnt.insert(learnt.end(), batch.numbers.begin(), batch.numbers.end());
  }
  EXPECT_THAT(learnt, ElementsAreArray<RowNumber>({2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(batch.dead_letters.size() + sliding.source.dead_letters().Between(0, 8).size(), 2u);
}

TEST(SlidingBufferBatchesTest, ReadsBackRowsThatTheServerSaysAreCountedAndKeepsNone) {
  Sliding sliding({.max_rows = 4, .online_rows = 3}, 4);
  sliding.source.Told({.clock = 9, .rows_end = 50}, true);
  for (RowNumber row = 0; row < 50; ++row) {
    ASSERT_TRUE(sliding.source.WantsRows());
    AddRow(sliding.source, row);
    ASSERT_FALSE(sliding.source.HoldsMore());
  }
}

TEST(SlidingBufferBatchesTest, ACountIsBelievedWhenItsRowsHaveCome) {
  Sliding sliding({.max_rows = 4, .online_rows = 3}, 4);
  AddRows(sliding.source, 0, 4);
  const Progress told = {.clock = 9, .rows_end = 5};
  sliding.source.Told(told, false);
  EXPECT_FALSE(sliding.source.WantsRows());
  AddRow(sliding.source, 4);
  sliding.source.Told(told, false);
  EXPECT_TRUE(sliding.source.WantsRows());
}

TEST(SlidingBufferBatchesTest, NobodyLeavesForACountBeyondTheEndBeforeItIsConfirmed) {
  Sliding sliding({.max_rows = 4, .online_rows = 3}, 4);
  AddRows(sliding.source, 0, 3);
  sliding.source.End(3);
  Batch batch;
  const Progress told = {.clock = 9, .rows_end = 4};
  sliding.source.Told(told, false);
  EXPECT_EQ(Next(sliding.source, told, batch), BatchState::kWait);
  sliding.source.Told(told, true);
  EXPECT_EQ(Next(sliding.source, told, batch), BatchState::kLeave);
}

TEST(SlidingBufferBatchesTest, ExpectsTheNextRecordToBeAsLongAsTheLastOnes) {
  Sliding sliding({.max_rows = 8}, 8);
  AddRows(sliding.source, 0, 5);
  sliding.source.EndRecord(5);
  EXPECT_FALSE(sliding.source.WantsRows()) << "five and five are more than eight";
  sliding.source.Told({.rows_end = 2}, false);
  EXPECT_TRUE(sliding.source.WantsRows());
  AddRow(sliding.source, 5);
  sliding.source.EndRecord(1);
  EXPECT_TRUE(sliding.source.WantsRows()) << "four and four";
  AddRow(sliding.source, 6);
  EXPECT_FALSE(sliding.source.WantsRows()) << "one short record says nothing of the next";
  sliding.source.Told({.rows_end = 7}, false);
  EXPECT_TRUE(sliding.source.WantsRows()) << "whatever comes, it can only be read";
}

TEST(SlidingBufferBatchesTest, MaySkipRowsInsteadOfWaiting) {
  Sliding sliding({.max_rows = 8, .skips_rows = true}, 8);
  AddRows(sliding.source, 0, 100);
  EXPECT_TRUE(sliding.source.WantsRows());
}

TEST(SlidingBufferBatchesTest, NeedsAsManyRowsAsTheBufferFollowsFrom) {
  Sliding sliding({.max_rows = 8});
  EXPECT_EQ(sliding.source.NeededFrom({}).row, 0u);
  AddRows(sliding.source, 0, 100);
  EXPECT_EQ(sliding.source.NeededFrom({}).row, 0u);
  AddRows(sliding.source, 100, 1000);
  const Progress counted = {.rows_end = 1000};
  EXPECT_LE(sliding.source.NeededFrom(counted).row, 1000u - 8 - ArrivalRate::kWindow);
  EXPECT_GE(sliding.source.NeededFrom(counted).row, 1000u - 8 - ArrivalRate::kWindow - 1);
  // Who starts again with the rows from there on may make the update of the next row that counts.
  EXPECT_EQ(sliding.source.NeededFrom({.rows_end = 100}).row, 0u);
  EXPECT_LE(sliding.source.NeededFrom({.rows_end = 700}).row, 700u - 8 - ArrivalRate::kWindow);
  EXPECT_EQ(sliding.source.NeededFrom({.rows_end = 1001}).row, 0u) << "a row that has not come";
}

}  // namespace
}  // namespace millrace
