// Where partitions are cut into ranges that can be leased.
#include "processors/input_cutter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/processors/input_fixture.h"
#include "tests/processors/lease_fixture.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A cutter of two partitions, and words for what it says.
class TestedCutter {
 public:
  explicit TestedCutter(uint64_t lease_rows, uint64_t cut_rows = 0)
      : table_(TableOf(cut_rows)), cutter(lease_rows, kBatchesShape, table_) {}

  Status Take(Offset offset, uint64_t begin, uint64_t end, const std::string& value = "unread",
              uint32_t partition = 0) {
    const auto rows = static_cast<uint32_t>(end - begin);
    return cutter.Take(partition, offset, InputKeyOf(RowNumber(begin), rows), value);
  }
  void Rows(Offset offset, uint64_t begin, uint64_t end, uint32_t partition = 0) {
    EXPECT_EQ(Take(offset, begin, end, "unread", partition), absl::OkStatus());
  }
  // "partition:begin-end@next_offset", "partition:end rows".
  std::vector<std::string> Said() {
    std::vector<std::string> said;
    for (const LeaseCommand& command : cutter.TakeCommands()) {
      const LeaseCommand::Cut& cut = command.cut();
      said.push_back(command.has_end()
                         ? std::to_string(command.end().partition()) + ":end " +
                               std::to_string(command.end().rows())
                         : std::to_string(cut.partition()) + ":" + std::to_string(cut.begin()) +
                               "-" + std::to_string(cut.end()) + "@" +
                               std::to_string(cut.next_offset()));
    }
    return said;
  }

 private:
  static LeaseTable TableOf(uint64_t cut_rows) {
    LeaseTable table;
    EXPECT_TRUE(table.Apply(LeaseBegin(1, 2)).ok());
    if (cut_rows == 0) return table;
    EXPECT_TRUE(table.Apply(LeaseCut(1, 0, cut_rows, 1)).ok());
    return table;
  }

  LeaseTable table_;

 public:
  InputCutter cutter;
};

TEST(InputCutter, CutsAtTheEndOfTheRecordWithEnoughRows) {
  TestedCutter cutter(10);
  cutter.Rows(0, 0, 4);
  cutter.Rows(1, 4, 9);
  EXPECT_THAT(cutter.Said(), IsEmpty());
  cutter.Rows(3, 9, 12);
  EXPECT_THAT(cutter.Said(), ElementsAre("0:0-12@4"));
  cutter.Rows(4, 12, 22);
  EXPECT_THAT(cutter.Said(), ElementsAre("0:12-22@5"));
  EXPECT_EQ(cutter.cutter.next_offset(0), 5);
}

TEST(InputCutter, CutsEachPartitionByItself) {
  TestedCutter cutter(10);
  cutter.Rows(0, 0, 9, 0);
  cutter.Rows(0, 0, 9, 1);
  EXPECT_THAT(cutter.Said(), IsEmpty());
  cutter.Rows(1, 9, 10, 1);
  EXPECT_THAT(cutter.Said(), ElementsAre("1:0-10@2"));
  cutter.Rows(2, 10, 11, 1);
  EXPECT_THAT(cutter.Said(), IsEmpty());
}

TEST(InputCutter, CutsWhatHasWaitedFromTickToTick) {
  TestedCutter cutter(10);
  cutter.Rows(0, 0, 4);
  cutter.cutter.Tick();
  EXPECT_THAT(cutter.Said(), IsEmpty());
  cutter.Rows(1, 4, 5);
  cutter.cutter.Tick();
  EXPECT_THAT(cutter.Said(), ElementsAre("0:0-5@2"));
  cutter.cutter.Tick();
  EXPECT_THAT(cutter.Said(), IsEmpty());
  cutter.Rows(2, 5, 6);
  cutter.cutter.Tick();
  EXPECT_THAT(cutter.Said(), IsEmpty()) << "it has not waited yet";
  cutter.cutter.Tick();
  EXPECT_THAT(cutter.Said(), ElementsAre("0:5-6@3"));
}

TEST(InputCutter, CountsRepeatedRowsOnce) {
  TestedCutter cutter(10);
  cutter.Rows(0, 0, 8);
  cutter.Rows(1, 3, 8);
  cutter.Rows(2, 0, 5);
  EXPECT_THAT(cutter.Said(), IsEmpty());
  cutter.Rows(3, 5, 10);
  EXPECT_THAT(cutter.Said(), ElementsAre("0:0-10@4"));
  cutter.Rows(4, 10, 12);
  cutter.Rows(5, 0, 12);
  cutter.cutter.Tick();
  cutter.cutter.Tick();
  EXPECT_THAT(cutter.Said(), ElementsAre("0:10-12@5")) << "behind the last row, not behind repeats";
}

TEST(InputCutter, TakesEachRecordOnce) {
  TestedCutter cutter(10);
  cutter.Rows(0, 0, 12);
  EXPECT_THAT(cutter.Said(), ElementsAre("0:0-12@1"));
  cutter.Rows(0, 0, 12);
  cutter.Rows(5, 12, 24);
  cutter.Rows(4, 24, 40);
  EXPECT_THAT(cutter.Said(), ElementsAre("0:12-24@6"));
}

TEST(InputCutter, CutsWhatIsLeftAtTheEnd) {
  TestedCutter cutter(10);
  cutter.Rows(0, 0, 4);
  ASSERT_TRUE(cutter.Take(1, 4, 4, EncodeFlush(4)).ok());
  EXPECT_THAT(cutter.Said(), IsEmpty()) << "a flush is no end";
  EXPECT_FALSE(cutter.cutter.has_ended(0));
  ASSERT_TRUE(cutter.Take(2, 4, 4, EncodeEnd(4)).ok());
  EXPECT_THAT(cutter.Said(), ElementsAre("0:0-4@1", "0:end 4"));
  EXPECT_TRUE(cutter.cutter.has_ended(0));
  ASSERT_TRUE(cutter.Take(3, 4, 4, EncodeEnd(4)).ok());
  cutter.Rows(4, 4, 50);
  EXPECT_THAT(cutter.Said(), IsEmpty()) << "nothing is behind an end";
  ASSERT_TRUE(cutter.Take(0, 0, 0, EncodeEnd(0), 1).ok());
  EXPECT_THAT(cutter.Said(), ElementsAre("1:end 0"));
}

TEST(InputCutter, LeavesOutWhatIsNoInput) {
  TestedCutter cutter(10);
  ASSERT_TRUE(cutter.cutter.Take(0, 0, "no key", "").ok());
  ASSERT_TRUE(cutter.Take(1, 7, 8, "damaged").ok()) << "a key by chance";
  ASSERT_TRUE(cutter.Take(2, 0, 0, "damaged").ok());
  cutter.Rows(3, 0, 10);
  EXPECT_THAT(cutter.Said(), ElementsAre("0:0-10@4"));
  ASSERT_TRUE(cutter.Take(4, 3, 3, EncodeEnd(3)).ok());
  EXPECT_THAT(cutter.Said(), IsEmpty()) << "an end that rows stand behind";
}

TEST(InputCutter, AGapIsAnErrorThatNamesThePlaceAndBothRows) {
  TestedCutter cutter(10);
  cutter.Rows(0, 0, 2);
  const Status status = cutter.Take(1, 3, 4, InputValueOf(3, 4));
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("partition 0, offset 1: found row 3 where row 2 was expected"));
  EXPECT_TRUE(absl::IsDataLoss(cutter.Take(2, 3, 3, EncodeEnd(3))));
}

// Whoever reads them finds that, too, and goes on.
TEST(InputCutter, LeavesOutRowsOfAnotherJob) {
  TestedCutter cutter(10);
  RowBatchEncoder other;
  other.Add({0, {1, 2, 3}, {}, {}});
  cutter.Rows(0, 0, 2);
  EXPECT_EQ(cutter.Take(1, 5, 6, EncodeRows(other)), absl::OkStatus());
  EXPECT_TRUE(absl::IsDataLoss(cutter.Take(2, 5, 6, InputValueOf(5, 6))));
}

TEST(InputCutter, MakesRangesLongerAsThereAreMoreRows) {
  const auto rows_of_a_range = [](uint64_t cut_rows) {
    TestedCutter cutter(0, cut_rows);
    uint64_t row = 0;
    Offset offset = 0;
    while (cutter.Said().empty()) {
      cutter.Rows(offset++, row, row + 1);
      ++row;
    }
    return row;
  };
  EXPECT_EQ(rows_of_a_range(0), 64u);
  EXPECT_EQ(rows_of_a_range(64 * 64), 64u);
  EXPECT_EQ(rows_of_a_range(64 * 100), 100u);
  EXPECT_EQ(rows_of_a_range(1'000'000), 8192u);
}

TEST(InputCutter, GoesOnWhereTheTableIs) {
  LeaseTable table;
  ASSERT_TRUE(table.Apply(LeaseBegin(1, 1)).ok());
  ASSERT_TRUE(table.Apply(LeaseCut(0, 0, 12, 4)).ok());
  InputCutter cutter(10, kBatchesShape, table);
  EXPECT_EQ(cutter.next_offset(0), 4);
  ASSERT_TRUE(cutter.Take(0, 4, InputKeyOf(10, 15), "unread").ok());
  const std::vector<LeaseCommand> said = cutter.TakeCommands();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].DebugString(), LeaseCut(0, 12, 25, 5).DebugString());
  ASSERT_TRUE(table.Apply(said[0]).ok());
  ASSERT_TRUE(table.Apply(LeaseEnd(0, 25)).ok());
  EXPECT_TRUE(InputCutter(10, kBatchesShape, table).has_ended(0));
}

}  // namespace
}  // namespace millrace
