// Rows that come in windows: under the numbers of the worker that has leased them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "processors/input_data_processor.h"
#include "tests/processors/input_fixture.h"

namespace millrace {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class InputWindowTest : public ::testing::Test {
 protected:
  Status Send(const std::string& key, const std::string& value) {
    const Offset offset = offset_++;
    return input_.Process({offset, 1000, key, value});
  }
  Status SendRows(uint64_t begin, uint64_t end) {
    return Send(InputKeyOf(RowNumber(begin), static_cast<uint32_t>(end - begin)),
                InputValueOf(RowNumber(begin), RowNumber(end)));
  }
  std::vector<DeadLetter> Letters() const { return source_.dead_letters().Between(0, 1000); }

  RecordingSource source_;
  InputDataProcessor input_ = InputDataProcessor::OfWindows(100, kBatchesShape, source_);
  Offset offset_ = 7;
};

TEST_F(InputWindowTest, RowsHaveTheWorkersNumbers) {
  EXPECT_TRUE(input_.window_is_done());
  input_.Begin({.partition = 2, .begin = 40, .end = 43, .first = 100});
  EXPECT_FALSE(input_.window_is_done());
  ASSERT_TRUE(SendRows(40, 43).ok());
  EXPECT_TRUE(input_.window_is_done());
  input_.Begin({.partition = 0, .begin = 5, .end = 6, .first = 103});
  ASSERT_TRUE(SendRows(5, 6).ok());
  EXPECT_THAT(source_.numbers(), ElementsAreArray<RowNumber>({100, 101, 102, 103}));
  EXPECT_EQ(source_.added[1].row, RowOf(41));
  EXPECT_EQ(source_.added[3].row, RowOf(5));
}

TEST_F(InputWindowTest, TheEndOfAWindowEndsABatch) {
  input_.Begin({.partition = 2, .begin = 40, .end = 44, .first = 100});
  ASSERT_TRUE(SendRows(40, 42).ok());
  EXPECT_THAT(source_.flushes, IsEmpty());
  ASSERT_TRUE(Send(InputKeyOf(42, 0), EncodeFlush(42)).ok());
  EXPECT_THAT(source_.flushes, ElementsAreArray<RowNumber>({102})) << "a flush of the log";
  ASSERT_TRUE(SendRows(42, 44).ok());
  EXPECT_THAT(source_.flushes, ElementsAreArray<RowNumber>({102, 104}));
}

TEST_F(InputWindowTest, RowsOutsideOfItAreNotTaken) {
  input_.Begin({.partition = 2, .begin = 40, .end = 43, .first = 100});
  ASSERT_TRUE(SendRows(38, 40).ok());
  EXPECT_THAT(source_.numbers(), IsEmpty());
  ASSERT_TRUE(SendRows(38, 41).ok()) << "begins within a record";
  ASSERT_TRUE(SendRows(38, 50).ok()) << "and ends within one";
  EXPECT_THAT(source_.numbers(), ElementsAreArray<RowNumber>({100, 101, 102}));
  EXPECT_TRUE(input_.window_is_done());
}

TEST_F(InputWindowTest, DeadLettersNameThePlaceInTheLog) {
  input_.Begin({.partition = 2, .begin = 40, .end = 43, .first = 100});
  ASSERT_TRUE(Send("no key", "").ok());
  ASSERT_TRUE(Send(InputKeyOf(40, 2), "damaged").ok());
  ASSERT_TRUE(Send(InputKeyOf(42, 3), "damaged").ok());
  EXPECT_THAT(source_.numbers(), ElementsAreArray<RowNumber>({100, 101, 102}));
  const std::vector<DeadLetter> letters = Letters();
  ASSERT_EQ(letters.size(), 3u);
  for (const DeadLetter& letter : letters) EXPECT_EQ(letter.partition(), 2);
  EXPECT_EQ(letters[0].offset(), 7);
  EXPECT_EQ(letters[1].offset(), 8);
  EXPECT_EQ(letters[1].rows(), 2u);
  EXPECT_EQ(letters[2].rows(), 1u) << "the others are not this worker's";
  EXPECT_EQ(source_.dead_letters().Between(101, 102).size(), 1u) << "counted with its last row";
  EXPECT_EQ(source_.dead_letters().Between(102, 103).size(), 1u);
}

TEST_F(InputWindowTest, ARowThatCannotBeUsedIsOneByItself) {
  input_.Begin({.partition = 2, .begin = 40, .end = 43, .first = 100});
  RowBatchEncoder batch;
  for (RowNumber number = 40; number < 43; ++number) {
    Row row = RowOf(number);
    if (number == 41) row.label = 17;
    batch.Add(row);
  }
  ASSERT_TRUE(Send(InputKeyOf(40, 3), EncodeRows(batch)).ok());
  ASSERT_EQ(source_.added.size(), 3u);
  EXPECT_FALSE(source_.added[1].row.has_value());
  ASSERT_EQ(source_.dead_letters().Between(101, 102).size(), 1u);
  EXPECT_EQ(Letters()[0].key(), InputKeyOf(41)) << "its number in the log";
}

TEST_F(InputWindowTest, AGapNamesTheRowsOfThePartition) {
  input_.Begin({.partition = 2, .begin = 40, .end = 43, .first = 100});
  const Status status = SendRows(41, 43);
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("partition 2, offset 7: found row 41 where row 40 was expected"));
}

TEST_F(InputWindowTest, APartitionThatEndsWithinAWindowHasLostRows) {
  input_.Begin({.partition = 2, .begin = 40, .end = 43, .first = 100});
  ASSERT_TRUE(SendRows(40, 42).ok());
  const Status status = Send(InputKeyOf(42, 0), EncodeEnd(42));
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("ends before row 43"));
  EXPECT_FALSE(input_.ended());
}

TEST_F(InputWindowTest, TheStreamEndsBehindTheLastWindow) {
  InputDataProcessor none = InputDataProcessor::OfWindows(100, kBatchesShape, source_);
  none.EndWindows();
  EXPECT_TRUE(none.ended());
  input_.Begin({.partition = 2, .begin = 40, .end = 43, .first = 100});
  ASSERT_TRUE(SendRows(40, 43).ok());
  input_.EndWindows();
  input_.EndWindows();
  EXPECT_THAT(source_.ends, ElementsAreArray<RowNumber>({100, 103}));
}

}  // namespace
}  // namespace millrace
