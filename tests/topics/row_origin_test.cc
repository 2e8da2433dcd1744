#include "topics/row_origin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "topics/frame.h"
#include "topics/row_codec.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;

constexpr RowShape kShape = {.numeric = 1, .features = 1, .classes = 2};

std::string TwoRows() {
  RowBatchEncoder batch;
  batch.Add({1, {0.5}, {}, {}});
  batch.Add({0, {2.5}, {}, {}});
  return EncodeRows(batch);
}

SourceState StateOf(uint64_t number) {
  SourceState state;
  state.set_number(number);
  state.set_topic("clicks");
  state.add_next_offset(7);
  return state;
}

TEST(RowOrigin, StandsBehindTheRowsWhichStayAsTheyAre) {
  std::string value = TwoRows();
  AppendOrigins(std::vector<RowOrigin>{{1000, 3, 41}, {2000, 5, 9}}, value);
  AppendSourceState(StateOf(4), value);
  InputRecord record;
  ASSERT_TRUE(DecodeInput({7, 2}, value, kShape, record).ok());
  EXPECT_THAT(record.rows().source_partition(), ElementsAre(3, 5));
  EXPECT_THAT(record.rows().source_offset(), ElementsAre(41, 9));
  RowBatchReader reader;
  reader.Begin(record.rows(), kShape);
  EXPECT_EQ(reader.TimeOfNext(77), 1000);
  Row row;
  ASSERT_TRUE(reader.Next(row).ok());
  EXPECT_EQ(row, (Row{1, {0.5}, {}, {}}));
  EXPECT_EQ(reader.TimeOfNext(77), 2000);
  ASSERT_TRUE(reader.Next(row).ok());
  EXPECT_EQ(row, (Row{0, {2.5}, {}, {}}));
}

TEST(SourceState, IsReadFromRowsFromAnEndAndFromARecordOfItsOwn) {
  std::string rows = TwoRows();
  EXPECT_FALSE(DecodeSourceState(rows).value());
  AppendSourceState(StateOf(4), rows);
  EXPECT_EQ(DecodeSourceState(rows).value()->number(), 4u);
  std::string end = EncodeEnd(9);
  AppendSourceState(StateOf(5), end);
  EXPECT_EQ(DecodeSourceState(end).value()->number(), 5u);
  InputRecord record;
  EXPECT_TRUE(DecodeInput({9, 0}, end, kShape, record).ok());
  const std::optional<SourceState> alone = DecodeSourceState(EncodeSourceState(StateOf(6))).value();
  ASSERT_TRUE(alone);
  EXPECT_EQ(alone->number(), 6u);
  EXPECT_EQ(alone->topic(), "clicks");
  EXPECT_THAT(alone->next_offset(), ElementsAre(7));
}

TEST(SourceState, ThatNoSourceCanHaveWrittenIsRefused) {
  SourceState negative = StateOf(1);
  negative.add_next_offset(-1);
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeSourceState(EncodeSourceState(negative)).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeSourceState(EncodeSourceState(StateOf(0))).status()));
  SourceState labels = StateOf(1);
  labels.mutable_labels()->add_partition()->set_read(-1);
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeSourceState(EncodeSourceState(labels)).status()));
  labels.mutable_labels()->mutable_partition(0)->set_read(1);
  EXPECT_TRUE(DecodeSourceState(EncodeSourceState(labels)).ok());
  labels.mutable_labels()->mutable_partition(0)->set_next_offset(-1);
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeSourceState(EncodeSourceState(labels)).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeSourceState("junk").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeSourceState(WholeFrameHeader() + "\xff").status()));
}

}  // namespace
}  // namespace millrace
