// Which rows make up the update of a clock, on a sliding buffer.
#include "processors/sliding_buffer_batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include "tests/processors/batches_fixture.h"

namespace millrace {
namespace {

using ::testing::ElementsAreArray;

struct Sliding {
  explicit Sliding(const SlidingBufferOptions& options, size_t min_rows = 4)
      : buffer({.min_rows = min_rows, .max_rows = options.max_rows, .coefficient = 0}, "b"),
        source(options, kBatchesShape, buffer) {}

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
    SlidingBufferBatches source({.max_rows = max_rows, .minibatch_rows = minibatch}, kBatchesShape,
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
