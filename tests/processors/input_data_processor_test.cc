#include "processors/input_data_processor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/big_endian.h"
#include "topics/row_codec.h"

namespace millrace {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const RowShape kShape = {.numeric = 1, .features = 4, .classes = 2};

// Remembers what it was given.
class RecordingSource final : public BatchSource {
 public:
  struct Added {
    RowNumber number;
    int64_t timestamp_ms;
    std::string value;
    std::optional<Row> row;
  };

  void Add(RowNumber number, int64_t timestamp_ms, std::string_view value,
           const TrainingRow* row) override {
    added.push_back({number, timestamp_ms, std::string(value), std::nullopt});
    if (row != nullptr) ToRow(*row, added.back().row.emplace());
  }
  void End(RowNumber row_count) override { ends.push_back(row_count); }
  StatusOr<BatchState> Next(const Progress&, Batch&) override { return BatchState::kWait; }
  size_t size() const override { return added.size(); }
  bool WantsRows() const override { return true; }
  SourceBegin NeededFrom(const Progress&) const override { return {}; }

  std::vector<RowNumber> numbers() const {
    std::vector<RowNumber> numbers;
    for (const Added& row : added) numbers.push_back(row.number);
    return numbers;
  }

  std::vector<Added> added;
  std::vector<RowNumber> ends;
};

Row RowOf(RowNumber number) {
  return {static_cast<uint32_t>(number % 2), {static_cast<double>(number)}, {1, 3}, {0.5f, 1}};
}

class InputDataProcessorTest : public ::testing::Test {
 protected:
  Status Send(const std::string& key, const std::string& value) {
    const Offset offset = offset_++;
    return input_.Process({offset, offset + 1000, key, value});
  }
  Status SendRow(RowNumber number) {
    return Send(EncodeBigEndian64(number), EncodeRow(RowOf(number)));
  }
  Status SendDamaged(RowNumber number) { return Send(EncodeBigEndian64(number), "damaged"); }
  Status SendEnd(RowNumber row_count) {
    return Send(EncodeBigEndian64(row_count), EncodeEnd(row_count));
  }
  std::vector<Offset> LetterOffsets(RowNumber begin, RowNumber end) const {
    std::vector<Offset> offsets;
    for (const DeadLetter& letter : source_.dead_letters().Between(begin, end)) {
      offsets.push_back(Offset(letter.offset()));
    }
    return offsets;
  }

  RecordingSource source_;
  InputDataProcessor input_{3, kShape, source_, 0};
  Offset offset_ = 0;
};

TEST_F(InputDataProcessorTest, HandsOverEachRowDecodedWithItsNumberTimeAndBytes) {
  for (RowNumber number = 0; number < 3; ++number) ASSERT_TRUE(SendRow(number).ok());
  ASSERT_EQ(source_.added.size(), 3u);
  for (RowNumber number = 0; number < 3; ++number) {
    const RecordingSource::Added& added = source_.added[number];
    EXPECT_EQ(added.number, number);
    EXPECT_EQ(added.timestamp_ms, 1000 + static_cast<int64_t>(number));
    EXPECT_EQ(added.value, EncodeRow(RowOf(number)));
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
  InputDataProcessor input(3, kShape, source_, std::nullopt);
  EXPECT_EQ(input.next_row(), std::nullopt);
  const std::string row = EncodeRow(RowOf(7));
  ASSERT_TRUE(input.Process({0, 0, EncodeBigEndian64(7), row}).ok());
  EXPECT_EQ(input.next_row(), 8u);
  EXPECT_TRUE(absl::IsDataLoss(input.Process({1, 0, EncodeBigEndian64(9), row})));
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
  ASSERT_TRUE(Send(EncodeBigEndian64(0), EncodeRow(row)).ok());
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
  EXPECT_EQ(letters[0].key(), EncodeBigEndian64(1));
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

TEST_F(InputDataProcessorTest, ARecordWhoseKeyIsNoRowNumberUsesUpNoNumber) {
  ASSERT_TRUE(SendRow(0).ok());
  ASSERT_TRUE(Send("key", EncodeRow(RowOf(1))).ok());
  ASSERT_TRUE(Send("", EncodeRow(RowOf(1))).ok());
  ASSERT_TRUE(SendRow(1).ok());
  EXPECT_THAT(source_.numbers(), ElementsAreArray<RowNumber>({0, 1}));
  EXPECT_THAT(LetterOffsets(0, 2), ElementsAreArray<Offset>({1, 2}));
  EXPECT_THAT(source_.dead_letters().Between(1, 2)[0].reason(), HasSubstr("not a row number"));
}

TEST_F(InputDataProcessorTest, AKeyOfEightBytesByChanceUsesUpNoNumberEither) {
  ASSERT_TRUE(SendRow(0).ok());
  ASSERT_TRUE(Send("abcdefgh", "garbage").ok());
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
  InputDataProcessor input(3, kShape, source, 0, /*reasons_only=*/true);
  ASSERT_TRUE(input.Process({5, 0, EncodeBigEndian64(0), "damaged"}).ok());
  const std::vector<DeadLetter> letters = source.dead_letters().Between(0, 1);
  ASSERT_EQ(letters.size(), 1u);
  EXPECT_EQ(letters[0].offset(), 5);
  EXPECT_NE(letters[0].reason(), "");
  EXPECT_EQ(letters[0].key() + letters[0].value(), "");
}

// Any log that a producer with crashes can leave: rows in order, each repeated stretch after what
// it repeats, some damaged. Every number comes out once and in order.
TEST_F(InputDataProcessorTest, EveryRowOfAnyLogComesOnceAndInOrder) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    RecordingSource source;
    InputDataProcessor input(3, kShape, source, 0);
    std::map<RowNumber, bool> damaged;
    RowNumber written = 0;
    RowNumber next = 0;
    uint64_t records = 0;
    for (int step = 0; step < 100; ++step) {
      if (random() % 10 == 0) next -= std::min<uint64_t>(next, random() % 8);
      if (!damaged.contains(next)) damaged[next] = random() % 5 == 0;
      const std::string value = damaged[next] ? "damaged" : EncodeRow(RowOf(next));
      ASSERT_TRUE(input.Process({Offset(step), 0, EncodeBigEndian64(next), value}).ok());
      written = std::max(written, ++next);
      ++records;
    }
    ASSERT_EQ(source.added.size(), written);
    for (RowNumber number = 0; number < written; ++number) {
      ASSERT_EQ(source.added[number].number, number);
      ASSERT_EQ(source.added[number].row.has_value(), !damaged[number]);
    }
    ASSERT_EQ(input.repeated_rows(), records - uint64_t{written});
  }
}

}  // namespace
}  // namespace millrace
