#include "processors/input_data_processor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/processors/input_fixture.h"
#include "topics/frame.h"
#include "topics/row_codec.h"

namespace millrace {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class InputDataProcessorTest : public ::testing::Test {
 protected:
  Status Send(const std::string& key, const std::string& value) {
    const Offset offset = offset_++;
    return input_.Process({offset, offset + 1000, key, value});
  }
  Status SendRow(RowNumber number) { return Send(InputKeyOf(number), EncodeRow(RowOf(number))); }
  Status SendDamaged(RowNumber number) { return Send(InputKeyOf(number), "damaged"); }
  Status SendEnd(RowNumber row_count) {
    return Send(EncodeInputKey({row_count, 0}), EncodeEnd(row_count));
  }
  Status SendRows(RowNumber begin, RowNumber end) {
    return Send(InputKeyOf(begin, static_cast<uint32_t>(end - begin)), InputValueOf(begin, end));
  }
  std::vector<Offset> LetterOffsets(RowNumber begin, RowNumber end) const {
    std::vector<Offset> offsets;
    for (const DeadLetter& letter : source_.dead_letters().Between(begin, end)) {
      offsets.push_back(Offset(letter.offset()));
    }
    return offsets;
  }

  RecordingSource source_;
  InputDataProcessor input_{3, kBatchesShape, source_, 0};
  Offset offset_ = 0;
};

TEST_F(InputDataProcessorTest, HandsOverEachRowDecodedWithItsNumberAndTime) {
  for (RowNumber number = 0; number < 3; ++number) ASSERT_TRUE(SendRow(number).ok());
  ASSERT_EQ(source_.added.size(), 3u);
  for (RowNumber number = 0; number < 3; ++number) {
    const RecordingSource::Added& added = source_.added[number];
    EXPECT_EQ(added.number, number);
    EXPECT_EQ(added.timestamp_ms, 1000 + static_cast<int64_t>(number));
    EXPECT_EQ(added.row, RowOf(number));
  }
  EXPECT_EQ(input_.next_row(), 3u);
}

TEST_F(InputDataProcessorTest, DropsARowNumberThatItHas) {
  for (const RowNumber number : std::vector<RowNumber>{0, 1, 0, 1, 2, 1})
    ASSERT_TRUE(SendRow(number).ok());
  EXPECT_THAT(source_.numbers(), ElementsAreArray<RowNumber>({0, 1, 2}));
  EXPECT_EQ(input_.repeated_rows(), 3u);
}

TEST_F(InputDataProcessorTest, AGapIsAnErrorThatNamesThePlaceAndBothRows) {
  ASSERT_TRUE(SendRow(0).ok());
  const Status status = SendRow(2);
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("partition 3, offset 1: found row 2 where row 1 was expected"));
  EXPECT_THAT(source_.numbers(), ElementsAreArray<RowNumber>({0}));
  EXPECT_TRUE(SendRow(1).ok()) << "nothing has changed";
}

TEST_F(InputDataProcessorTest, AGapInFrontOfTheEndIsAnErrorToo) {
  ASSERT_TRUE(SendRow(0).ok());
  EXPECT_TRUE(absl::IsDataLoss(SendEnd(2)));
  EXPECT_FALSE(input_.ended());
}

TEST_F(InputDataProcessorTest, WithoutAnExpectationTheFirstRecordSaysWhereItBegins) {
  InputDataProcessor input(3, kBatchesShape, source_, std::nullopt);
  EXPECT_EQ(input.next_row(), std::nullopt);
  const std::string row = EncodeRow(RowOf(7));
  ASSERT_TRUE(input.Process({0, 0, InputKeyOf(7), row}).ok());
  EXPECT_EQ(input.next_row(), 8u);
  EXPECT_TRUE(absl::IsDataLoss(input.Process({1, 0, InputKeyOf(9), row})));
  EXPECT_THAT(source_.numbers(), ElementsAreArray<RowNumber>({7}));
}

TEST_F(InputDataProcessorTest, WhatCannotBeDecodedUsesUpItsNumberAsAnEmptyRow) {
  ASSERT_TRUE(SendRow(0).ok());
  ASSERT_TRUE(SendDamaged(1).ok());
  ASSERT_TRUE(SendRow(2).ok());
  ASSERT_EQ(source_.added.size(), 3u);
  EXPECT_FALSE(source_.added[1].row.has_value());
  EXPECT_EQ(source_.added[1].number, 1u);
  EXPECT_EQ(source_.added[2].row, RowOf(2));
}

TEST_F(InputDataProcessorTest, ARowOfAnotherShapeIsOneThatCannotBeDecoded) {
  Row row = RowOf(0);
  row.index = {1, 4};
  ASSERT_TRUE(Send(InputKeyOf(0), EncodeRow(row)).ok());
  EXPECT_FALSE(source_.added[0].row.has_value());
  EXPECT_THAT(source_.dead_letters().Between(0, 1)[0].reason(), HasSubstr("feature 4"));
}

TEST_F(InputDataProcessorTest, ADeadLetterNamesThePlaceAndTheReasonAndKeepsTheBytes) {
  ASSERT_TRUE(SendRow(0).ok());
  ASSERT_TRUE(SendDamaged(1).ok());
  const std::vector<DeadLetter> letters = source_.dead_letters().Between(0, 10);
  ASSERT_EQ(letters.size(), 1u);
  EXPECT_EQ(letters[0].topic(), "input-data");
  EXPECT_EQ(letters[0].partition(), 3);
  EXPECT_EQ(letters[0].offset(), 1);
  EXPECT_EQ(letters[0].key(), InputKeyOf(1));
  EXPECT_EQ(letters[0].rows(), 1u);
  EXPECT_EQ(letters[0].value(), "damaged");
  EXPECT_THAT(letters[0].reason(), HasSubstr("format version"));
}

TEST_F(InputDataProcessorTest, DeadLettersAreThoseOfTheRowsAskedForUntilTheyAreForgotten) {
  for (RowNumber number = 0; number < 6; ++number) {
    ASSERT_TRUE((number % 2 == 0 ? SendDamaged(number) : SendRow(number)).ok());
  }
  EXPECT_THAT(LetterOffsets(0, 6), ElementsAreArray<Offset>({0, 2, 4}));
  EXPECT_THAT(LetterOffsets(0, 2), ElementsAreArray<Offset>({0}));
  EXPECT_THAT(LetterOffsets(2, 4), ElementsAreArray<Offset>({2}));
  EXPECT_THAT(LetterOffsets(1, 2), IsEmpty());
  EXPECT_EQ(source_.dead_letters().First(), 0u);
  source_.dead_letters().Forget(2);
  EXPECT_EQ(source_.dead_letters().First(), 2u);
  EXPECT_THAT(LetterOffsets(0, 6), ElementsAreArray<Offset>({2, 4}));
  source_.dead_letters().Forget(6);
  EXPECT_EQ(source_.dead_letters().First(), std::nullopt);
  EXPECT_THAT(LetterOffsets(0, 6), IsEmpty());
}

TEST_F(InputDataProcessorTest, ADamagedRowThatIsRepeatedIsOneDeadLetter) {
  ASSERT_TRUE(SendDamaged(0).ok());
  ASSERT_TRUE(SendDamaged(0).ok());
  EXPECT_THAT(LetterOffsets(0, 1), ElementsAreArray<Offset>({0}));
  EXPECT_EQ(input_.repeated_rows(), 1u);
}

TEST_F(InputDataProcessorTest, ARecordWhoseKeyIsNotThatOfRowsUsesUpNoNumber) {
  ASSERT_TRUE(SendRow(0).ok());
  ASSERT_TRUE(Send("key", EncodeRow(RowOf(1))).ok());
  ASSERT_TRUE(Send("", EncodeRow(RowOf(1))).ok());
  ASSERT_TRUE(SendRow(1).ok());
  EXPECT_THAT(source_.numbers(), ElementsAreArray<RowNumber>({0, 1}));
  EXPECT_THAT(LetterOffsets(0, 2), ElementsAreArray<Offset>({1, 2}));
  EXPECT_THAT(source_.dead_letters().Between(1, 2)[0].reason(), HasSubstr("not that of rows"));
}

TEST_F(InputDataProcessorTest, AKeyOfTwelveBytesByChanceUsesUpNoNumberEither) {
  ASSERT_TRUE(SendRow(0).ok());
  ASSERT_TRUE(Send(std::string("abcdefgh\0\0\0\1", 12), "garbage").ok());
  ASSERT_TRUE(SendRow(1).ok());
  EXPECT_THAT(source_.numbers(), ElementsAreArray<RowNumber>({0, 1}));
  EXPECT_THAT(LetterOffsets(0, 2), ElementsAreArray<Offset>({1}));
}

TEST_F(InputDataProcessorTest, TheEndIsHandedOverOnce) {
  ASSERT_TRUE(SendRow(0).ok());
  EXPECT_FALSE(input_.ended());
  ASSERT_TRUE(SendEnd(1).ok());
  EXPECT_TRUE(input_.ended());
  ASSERT_TRUE(SendEnd(1).ok());
  EXPECT_THAT(source_.ends, ElementsAreArray<RowNumber>({1}));
  EXPECT_EQ(input_.next_row(), 1u);
  EXPECT_EQ(input_.repeated_rows(), 0u);
}

TEST_F(InputDataProcessorTest, AnEmptyPartitionEndsAtRowZero) {
  ASSERT_TRUE(SendEnd(0).ok());
  EXPECT_THAT(source_.ends, ElementsAreArray<RowNumber>({0}));
  EXPECT_THAT(source_.added, IsEmpty());
}

TEST_F(InputDataProcessorTest, SavedDeadLettersComeBackWithTheirRows) {
  ASSERT_TRUE(SendDamaged(0).ok());
  ASSERT_TRUE(SendRow(1).ok());
  ASSERT_TRUE(SendDamaged(2).ok());
  BufferPosition saved;
  source_.dead_letters().Save(*input_.next_row(), saved);
  BufferPosition read;
  ASSERT_TRUE(read.ParseFromString(saved.SerializeAsString()));
  RecordingSource other;
  other.dead_letters().Restore(read);
  EXPECT_EQ(other.dead_letters().First(), 0u);
  for (const auto& [begin, end] : std::vector<std::pair<RowNumber, RowNumber>>{{0, 1}, {1, 3}}) {
    const std::vector<DeadLetter> before = source_.dead_letters().Between(begin, end);
    const std::vector<DeadLetter> after = other.dead_letters().Between(begin, end);
    ASSERT_EQ(after.size(), 1u);
    EXPECT_EQ(after[0].SerializeAsString(), before[0].SerializeAsString());
  }
}

TEST_F(InputDataProcessorTest, KeepsNothingOfAnUnusableRowWhenOnlyReasonsAreWanted) {
  RecordingSource source;
  InputDataProcessor input(3, kBatchesShape, source, 0, /*reasons_only=*/true);
  ASSERT_TRUE(input.Process({5, 0, InputKeyOf(0), "damaged"}).ok());
  const std::vector<DeadLetter> letters = source.dead_letters().Between(0, 1);
  ASSERT_EQ(letters.size(), 1u);
  EXPECT_EQ(letters[0].offset(), 5);
  EXPECT_NE(letters[0].reason(), "");
  EXPECT_EQ(letters[0].key() + letters[0].value(), "");
}

TEST_F(InputDataProcessorTest, TheRowsOfARecordComeOneByOne) {
  ASSERT_TRUE(SendRows(0, 3).ok());
  ASSERT_TRUE(SendRows(3, 4).ok());
  ASSERT_EQ(source_.added.size(), 4u);
  for (RowNumber number = 0; number < 4; ++number) {
    EXPECT_EQ(source_.added[number].number, number);
    EXPECT_EQ(source_.added[number].timestamp_ms, number < 3 ? 1000 : 1001);
    EXPECT_EQ(source_.added[number].row, RowOf(number));
  }
}

TEST_F(InputDataProcessorTest, OfARecordThatOverlapsOnlyTheNewRowsCount) {
  ASSERT_TRUE(SendRows(0, 4).ok());
  ASSERT_TRUE(SendRows(2, 7).ok());
  ASSERT_TRUE(SendRows(1, 6).ok());
  ASSERT_EQ(source_.added.size(), 7u);
  for (RowNumber number = 0; number < 7; ++number) {
    EXPECT_EQ(source_.added[number].row, RowOf(number));
  }
  EXPECT_EQ(input_.repeated_rows(), 2u + 5u);
}

TEST_F(InputDataProcessorTest, ARecordThatCannotBeDecodedUsesUpTheNumbersThatItsKeySays) {
  ASSERT_TRUE(SendRows(0, 2).ok());
  ASSERT_TRUE(Send(InputKeyOf(2, 3), "damaged").ok());
  ASSERT_TRUE(Send(InputKeyOf(5, 3), InputValueOf(5, 7)).ok());
  ASSERT_TRUE(SendRows(8, 9).ok());
  EXPECT_THAT(source_.numbers(), ElementsAreArray<RowNumber>({0, 1, 2, 3, 4, 5, 6, 7, 8}));
  for (RowNumber number = 2; number < 8; ++number) EXPECT_FALSE(source_.added[number].row);
  const std::vector<DeadLetter> letters = source_.dead_letters().Between(0, 9);
  ASSERT_EQ(letters.size(), 2u);
  EXPECT_EQ(letters[0].offset(), 1);
  EXPECT_EQ(letters[0].rows(), 3u);
  EXPECT_EQ(letters[0].key(), InputKeyOf(2, 3));
  EXPECT_EQ(letters[0].value(), "damaged");
  EXPECT_EQ(letters[1].rows(), 3u);
  EXPECT_THAT(letters[1].reason(), HasSubstr("2 rows, but the key says 3"));
}

// A worker may begin between its rows again: what was counted once must not be again.
TEST_F(InputDataProcessorTest, ADamagedRecordIsCountedWithItsLastRow) {
  ASSERT_TRUE(Send(InputKeyOf(0, 3), "damaged").ok());
  EXPECT_THAT(LetterOffsets(0, 2), IsEmpty());
  EXPECT_THAT(LetterOffsets(2, 3), ElementsAreArray<Offset>({0}));
  RecordingSource source;
  InputDataProcessor input(3, kBatchesShape, source, 1);
  ASSERT_TRUE(input.Process({0, 0, InputKeyOf(0, 3), "damaged"}).ok());
  EXPECT_THAT(source.numbers(), ElementsAreArray<RowNumber>({1, 2}));
  EXPECT_EQ(source.dead_letters().First(), 2u);
}

TEST_F(InputDataProcessorTest, ARowOfManyThatCannotBeUsedIsADeadLetterOfItsOwn) {
  Row bad = RowOf(1);
  bad.label = 2;
  RowBatchEncoder batch;
  batch.Add(RowOf(0));
  batch.Add(bad);
  batch.Add(RowOf(2));
  ASSERT_TRUE(Send(InputKeyOf(0, 3), EncodeRows(batch)).ok());
  EXPECT_EQ(source_.added[0].row, RowOf(0));
  EXPECT_FALSE(source_.added[1].row);
  EXPECT_EQ(source_.added[2].row, RowOf(2));
  const std::vector<DeadLetter> letters = source_.dead_letters().Between(1, 2);
  ASSERT_EQ(letters.size(), 1u);
  EXPECT_EQ(letters[0].reason(), "class id 2");
  EXPECT_EQ(letters[0].rows(), 1u);
  EXPECT_EQ(letters[0].key(), InputKeyOf(1));
  EXPECT_EQ(letters[0].value(), EncodeRow(bad));
}

TEST_F(InputDataProcessorTest, AFlushIsHandedOnBetweenItsRowsAndNotWhenItIsRepeated) {
  ASSERT_TRUE(SendRows(0, 2).ok());
  ASSERT_TRUE(Send(EncodeInputKey({2, 0}), EncodeFlush(2)).ok());
  ASSERT_TRUE(SendRow(2).ok());
  ASSERT_TRUE(Send(EncodeInputKey({2, 0}), EncodeFlush(2)).ok());
  EXPECT_THAT(source_.flushes, ElementsAreArray<RowNumber>({2}));
  EXPECT_FALSE(input_.ended());
  EXPECT_TRUE(absl::IsDataLoss(Send(EncodeInputKey({4, 0}), EncodeFlush(4)))) << "row 3 is missing";
}

TEST_F(InputDataProcessorTest, AnEndThatIsDamagedOrOfOtherRowsIsNoEndAndUsesUpNoNumber) {
  ASSERT_TRUE(SendRow(0).ok());
  ASSERT_TRUE(Send(EncodeInputKey({1, 0}), "damaged").ok());
  ASSERT_TRUE(Send(EncodeInputKey({1, 0}), EncodeEnd(2)).ok());
  ASSERT_TRUE(Send(InputKeyOf(1), EncodeEnd(1)).ok()) << "a key of rows uses them up";
  EXPECT_FALSE(input_.ended());
  ASSERT_TRUE(SendEnd(2).ok());
  EXPECT_TRUE(input_.ended());
  EXPECT_THAT(LetterOffsets(0, 3), ElementsAreArray<Offset>({1, 2, 3}));
}

TEST_F(InputDataProcessorTest, AKeyOfMoreRowsThanARecordHasUsesUpNone) {
  ASSERT_TRUE(Send(InputKeyOf(0, kMostBatchRows + 1), "?").ok());
  EXPECT_THAT(source_.numbers(), IsEmpty());
  EXPECT_EQ(source_.dead_letters().size(), 1u);
}

TEST_F(InputDataProcessorTest, RowsThatSayWhenTheyHappenedHaveTimesOfTheirOwn) {
  InputRecord record;
  RowBatch& rows = *record.mutable_rows();
  rows.set_format(kRowBatchFormat);
  rows.set_row_count(2);
  rows.add_numeric()->add_narrow(3);
  rows.mutable_numeric(0)->add_narrow(4);
  rows.add_event_time_ms(70);
  rows.add_event_time_ms(50);
  ASSERT_TRUE(Send(InputKeyOf(0, 2), MakeFrames(record.SerializeAsString(), 0).front()).ok());
  ASSERT_EQ(source_.added.size(), 2u);
  EXPECT_EQ(source_.added[0].timestamp_ms, 70);
  EXPECT_EQ(source_.added[1].timestamp_ms, 50);
}

// Any log that a producer with crashes can leave: rows in order, put together anyhow, each repeated
// stretch after what it repeats, some damaged. Every number comes out once and in order.
TEST_F(InputDataProcessorTest, EveryRowOfAnyLogComesOnceAndInOrder) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    RecordingSource source;
    InputDataProcessor input(3, kBatchesShape, source, 0);
    std::vector<bool> damaged;  // the row came first in a damaged record
    uint64_t rows_sent = 0;
    RowNumber next = 0;
    for (int step = 0; step < 100; ++step) {
      if (random() % 10 == 0) next -= std::min<uint64_t>(next, random() % 8);
      const RowNumber end = next + 1 + random() % 4;
      const bool is_damaged = random() % 5 == 0;
      const std::string value = is_damaged ? "damaged" : InputValueOf(next, end);
      const std::string key = InputKeyOf(next, static_cast<uint32_t>(end - next));
      ASSERT_TRUE(input.Process({Offset(step), 0, key, value}).ok());
      if (damaged.size() < end) damaged.resize(end, is_damaged);
      rows_sent += end - next;
      next = end;
    }
    ASSERT_EQ(source.added.size(), damaged.size());
    for (RowNumber number(0); number < damaged.size(); ++number) {
      ASSERT_EQ(source.added[number].number, number);
      ASSERT_EQ(source.added[number].row.has_value(), !damaged[number]);
    }
    ASSERT_EQ(input.repeated_rows(), rows_sent - damaged.size());
  }
}

}  // namespace
}  // namespace millrace
