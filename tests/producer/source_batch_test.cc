#include "producer/source_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "formats/text_beginning.h"
#include "messages/records.pb.h"
#include "producer/resume_plan.h"
#include "producer/source_positions.h"
#include "topics/frame.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr RowShape kShape = {.numeric = 1, .features = 1, .classes = 2};
constexpr Dealing kDealing = {.workers = 3, .rows_per_turn = 2};

ConsumedRecord At(int32_t partition, Offset offset) {
  return {.partition = partition,
          .offset = offset,
          .timestamp_ms = 1000 + int64_t{offset},
          .key = "k",
          .value = "value"};
}

Row RowOf(double number) { return {1, {number}, {}, {}}; }

SourceState Begin(std::vector<Offset> next) { return FirstState("clicks", next); }

// What a worker reads of a transaction: its numbers, by its partition.
std::map<uint32_t, std::vector<double>> Numbers(const SourceBatch::Transaction& transaction) {
  std::map<uint32_t, std::vector<double>> numbers;
  for (const SourceBatch::InputDataRecord& each : transaction.rows) {
    InputRecord record;
    EXPECT_TRUE(DecodeInput(each.key, each.value, kShape, record).ok());
    if (!each.key.has_rows()) continue;
    RowBatchReader reader;
    reader.Begin(record.rows(), kShape);
    for (uint32_t i = 0; i < each.key.count; ++i) {
      Row row;
      EXPECT_TRUE(reader.Next(row).ok());
      numbers[each.worker].push_back(row.numeric[0]);
    }
  }
  return numbers;
}

SourceState StateIn(const SourceBatch::Transaction& transaction) {
  return *DecodeSourceState(transaction.rows.back().value).value();
}

TEST(SourceBatch, DealsRowsInTurnsInTheOrderInWhichTheyCome) {
  SourceBatch batch(Begin({0, 0}), kDealing, false);
  for (int i = 0; i < 8; ++i) batch.AddRow(At(i % 2, Offset(i / 2)), RowOf(i));
  EXPECT_EQ(batch.rows(), 8u);
  const SourceBatch::Transaction transaction = batch.Take();
  EXPECT_THAT(Numbers(transaction)[0], ElementsAre(0, 1, 6, 7));
  EXPECT_THAT(Numbers(transaction)[1], ElementsAre(2, 3));
  EXPECT_THAT(Numbers(transaction)[2], ElementsAre(4, 5));
  EXPECT_FALSE(transaction.state);
  EXPECT_EQ(batch.rows(), 0u);
}

TEST(SourceBatch, RowsHaveTheirOriginsAndTheLastRecordTheState) {
  SourceBatch batch(Begin({0, 40}), kDealing, false);
  batch.AddRow(At(1, 41), RowOf(0));
  batch.AddRow(At(0, 9), RowOf(1));
  const SourceBatch::Transaction transaction = batch.Take();
  ASSERT_EQ(transaction.rows.size(), 1u);
  InputRecord record;
  ASSERT_TRUE(DecodeInput(transaction.rows[0].key, transaction.rows[0].value, kShape, record).ok());
  EXPECT_THAT(record.rows().source_partition(), ElementsAre(1, 0));
  EXPECT_THAT(record.rows().source_offset(), ElementsAre(41, 9));
  EXPECT_THAT(record.rows().event_time_ms(), ElementsAre(1041, 1009));
  const SourceState state = StateIn(transaction);
  EXPECT_EQ(state.number(), 1u);
  EXPECT_EQ(state.rows(), 2u);
  EXPECT_EQ(state.bytes(), 10u);
  EXPECT_THAT(state.next_offset(), ElementsAre(10, 42));
}

// Of any transaction, whatever was in it, the tails say where the next one goes on.
TEST(SourceBatch, AnotherBatchGoesOnBehindTheTails) {
  SourceState state = Begin({0});
  std::vector<PartitionTail> tails(kDealing.workers);
  std::map<uint32_t, std::vector<double>> all;
  Offset offset = 0;
  for (const int rows : {1, 4, 1, 3000, 2, 7}) {
    SourceBatch batch(state, kDealing, false);
    for (int i = 0; i < rows; ++i, offset += 2) {
      batch.AddRow(At(0, offset), RowOf(static_cast<double>(offset) / 2));
    }
    const SourceBatch::Transaction transaction = batch.Take();
    for (const auto& [worker, numbers] : Numbers(transaction)) {
      all[worker].insert(all[worker].end(), numbers.begin(), numbers.end());
    }
    for (const SourceBatch::InputDataRecord& each : transaction.rows) {
      EXPECT_EQ(each.key.first, tails[each.worker].rows);
      tails[each.worker] = TailOfRecord(EncodeInputKey(each.key), each.value, kShape).value();
    }
    state = *NewestState(tails, std::nullopt, "clicks", kDealing, "input-data").value();
    EXPECT_EQ(NextOffset(state, 0), offset - 1);
  }
  EXPECT_EQ(state.rows(), 3015u);
  for (uint64_t row = 0; row < state.rows(); ++row) {
    const RowPlace place = PlaceOfRow(row, kDealing);
    EXPECT_EQ(all[place.worker][place.row], static_cast<double>(row));
  }
}

TEST(SourceBatch, TakesARecordOnceAndPassesOverHoles) {
  SourceBatch batch(Begin({5}), kDealing, false);
  EXPECT_FALSE(batch.IsNew(At(0, 4)));
  EXPECT_TRUE(batch.IsNew(At(0, 8)));
  batch.AddRow(At(0, 8), RowOf(0));
  EXPECT_FALSE(batch.IsNew(At(0, 8)));
  EXPECT_FALSE(batch.IsNew(At(0, 6)));
  EXPECT_TRUE(batch.IsNew(At(1, 0)));
  batch.Skip(0, 12);
  EXPECT_FALSE(batch.IsNew(At(0, 11)));
  batch.Skip(0, 3);
  EXPECT_EQ(NextOffset(batch.state(), 0), 12);
  EXPECT_EQ(batch.state().lost(), 0u);
}

TEST(SourceBatch, UnusableRecordsAreLettersAndWithoutRowsTheJobTopicGetsTheState) {
  SourceBatch batch(Begin({0}), kDealing, false);
  batch.AddUnusable(At(0, 3), absl::InvalidArgumentError("no JSON"));
  batch.AddTombstone(At(0, 4));
  const SourceBatch::Transaction transaction = batch.Take();
  EXPECT_THAT(transaction.rows, IsEmpty());
  ASSERT_EQ(transaction.letters.size(), 1u);
  DeadLetter letter;
  ASSERT_TRUE(letter.ParseFromString(std::string(ParseFrame(transaction.letters[0])->body)));
  EXPECT_EQ(letter.topic(), "clicks");
  EXPECT_EQ(letter.partition(), 0);
  EXPECT_EQ(letter.offset(), 3);
  EXPECT_EQ(letter.reason(), "no JSON");
  EXPECT_EQ(letter.key(), "k");
  EXPECT_EQ(letter.value(), "value");
  ASSERT_TRUE(transaction.state);
  const std::optional<SourceState> state = DecodeSourceState(*transaction.state).value();
  ASSERT_TRUE(state);
  EXPECT_EQ(state->dead_letters(), 1u);
  EXPECT_EQ(state->tombstones(), 1u);
  EXPECT_EQ(state->rows(), 0u);
  EXPECT_THAT(state->next_offset(), ElementsAre(5));
}

TEST(SourceBatch, LettersHoldNothingOfTheRecordWhereOnlyReasonsAreWanted) {
  SourceBatch batch(Begin({0}), kDealing, true);
  batch.AddUnusable(At(0, 3), WithBeginning(absl::InvalidArgumentError("no JSON"), "secret"));
  DeadLetter letter;
  const SourceBatch::Transaction transaction = batch.Take();
  ASSERT_TRUE(letter.ParseFromString(std::string(ParseFrame(transaction.letters[0])->body)));
  EXPECT_EQ(letter.reason(), "no JSON");
  EXPECT_EQ(letter.key() + letter.value(), "");
}

TEST(SourceBatch, KeepsWhenTheLastRecordOfEachPartitionWasWritten) {
  SourceBatch batch(Begin({0, 0}), kDealing, false);
  EXPECT_FALSE(LastRecordOf(batch.state(), 1));
  batch.AddRow(At(1, Offset(3)), RowOf(1));
  batch.AddUnusable(At(1, Offset(5)), absl::InvalidArgumentError("no row"));
  batch.Skip(1, Offset(9));  // a transaction's end is no record
  const auto last = LastRecordOf(StateIn(batch.Take()), 1);
  ASSERT_TRUE(last);
  EXPECT_EQ(last->offset, 5);
  EXPECT_EQ(last->timestamp_ms, 1005);
  EXPECT_FALSE(LastRecordOf(batch.state(), 0));
  EXPECT_FALSE(LastRecordOf(batch.state(), 2)) << "it was added";
}

TEST(SourceBatch, CountsWhatWasLost) {
  SourceBatch batch(Begin({5}), kDealing, false);
  EXPECT_FALSE(batch.has_moved());
  batch.Lose(0, 25);
  EXPECT_TRUE(batch.has_moved());
  EXPECT_EQ(batch.state().lost(), 20u);
  EXPECT_FALSE(batch.IsNew(At(0, 24)));
  batch.Take();
  EXPECT_FALSE(batch.has_moved());
  EXPECT_EQ(batch.state().lost(), 20u);
}

TEST(SourceBatch, PassesOverRowsWithoutALabelAndKeepsTheStateOfLabels) {
  SourceBatch batch(Begin({0}), kDealing, false);
  SourceState::Labels labels;
  labels.set_topic("clicked");
  labels.set_unmatched(1);
  batch.SetLabels(labels);
  EXPECT_TRUE(batch.has_moved());
  batch.AddUnlabelled({.partition = 0, .offset = 4, .timestamp_ms = 7, .bytes = 100});
  batch.AddRow({.partition = 0, .offset = 6, .timestamp_ms = 8, .bytes = 10}, RowOf(1));
  batch.AddUnusableLabel(At(2, 5), absl::InvalidArgumentError("no JSON"));
  const SourceBatch::Transaction transaction = batch.Take();
  ASSERT_EQ(transaction.letters.size(), 1u);
  DeadLetter letter;
  ASSERT_TRUE(letter.ParseFromString(std::string(ParseFrame(transaction.letters[0])->body)));
  EXPECT_EQ(letter.topic(), "clicked");
  EXPECT_EQ(letter.offset(), 5);
  const SourceState state = StateIn(transaction);
  EXPECT_EQ(state.rows(), 1u);
  EXPECT_EQ(state.dead_letters(), 0u);
  EXPECT_EQ(state.bytes(), 110u);
  EXPECT_THAT(state.next_offset(), ElementsAre(7));
  EXPECT_EQ(state.labels().unmatched(), 1u);
}

TEST(SourceBatch, EndsAllPartitionsInOneTransaction) {
  SourceBatch batch(Begin({0}), kDealing, false);
  for (int i = 0; i < 3; ++i) batch.AddRow(At(0, Offset(i)), RowOf(i));
  batch.End();
  const SourceBatch::Transaction transaction = batch.Take();
  std::vector<PartitionTail> tails(kDealing.workers);
  for (const SourceBatch::InputDataRecord& each : transaction.rows) {
    tails[each.worker] = TailOfRecord(EncodeInputKey(each.key), each.value, kShape).value();
  }
  EXPECT_TRUE(tails[0].ended && tails[1].ended && tails[2].ended);
  EXPECT_EQ(tails[0].rows, 2u);
  EXPECT_EQ(tails[1].rows, 1u);
  EXPECT_EQ(tails[2].rows, 0u);
  EXPECT_EQ(NewestState(tails, std::nullopt, "clicks", kDealing, "").value()->rows(), 3u);
}

TEST(SourceBatch, EndsThePartitionsOfWorkersThatGetNoRowsInTheFirstTransaction) {
  constexpr Dealing kOne = {.workers = 1, .rows_per_turn = 2};
  SourceBatch batch(Begin({0}), kOne, false);
  batch.EndOthers(3);
  std::vector<PartitionTail> tails(3);
  const auto write = [&] {
    for (const SourceBatch::InputDataRecord& each : batch.Take().rows) {
      EXPECT_FALSE(tails[each.worker].ended);
      tails[each.worker] = TailOfRecord(EncodeInputKey(each.key), each.value, kShape).value();
    }
    return *NewestState(tails, std::nullopt, "clicks", kOne, "").value();
  };
  EXPECT_EQ(write().rows(), 0u);
  EXPECT_FALSE(tails[0].ended);
  EXPECT_TRUE(tails[1].ended && tails[2].ended);
  for (int i = 0; i < 7; ++i) batch.AddRow(At(0, Offset(i)), RowOf(i));
  EXPECT_EQ(write().rows(), 7u);
  EXPECT_EQ(tails[0].rows, 7u);
  batch.End();
  EXPECT_EQ(write().rows(), 7u);
  EXPECT_TRUE(tails[0].ended);
}

}  // namespace
}  // namespace millrace
