#include "producer/source_positions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Dealing kTwoWorkers = {.workers = 2, .rows_per_turn = 1};

SourceState StateOf(uint64_t number, uint64_t rows, std::vector<Offset> next = {}) {
  SourceState state = FirstState("clicks", next);
  state.set_number(number);
  state.set_rows(rows);
  return state;
}

PartitionTail Tail(RowNumber rows, std::optional<SourceState> source = std::nullopt) {
  PartitionTail tail;
  tail.rows = rows;
  tail.source = std::move(source);
  return tail;
}

StatusOr<std::optional<SourceState>> Newest(const std::vector<PartitionTail>& tails,
                                            const std::optional<SourceState>& of_job = {}) {
  return NewestState(tails, of_job, "clicks", kTwoWorkers, "job.input-data");
}

TEST(NewestState, IsThatOfTheLastTransactionWhereverItStands) {
  EXPECT_FALSE(Newest({Tail(0), Tail(0)}).value());
  EXPECT_EQ(Newest({Tail(0), Tail(0)}, StateOf(1, 0)).value()->number(), 1u);
  EXPECT_EQ(
      Newest({Tail(3, StateOf(4, 5)), Tail(3, StateOf(5, 6))}, StateOf(1, 0)).value()->number(),
      5u);
  EXPECT_EQ(Newest({Tail(3), Tail(3, StateOf(5, 6))}, StateOf(1, 0)).value()->number(), 5u);
  // A transaction without rows came after them.
  EXPECT_EQ(Newest({Tail(3), Tail(3, StateOf(5, 6))}, StateOf(8, 6)).value()->number(), 8u);
}

TEST(NewestState, RowsThatNoSourceHasDealtAreAnError) {
  EXPECT_THAT(std::string(Newest({Tail(1), Tail(0)}).status().message()),
              HasSubstr("holds rows that no TopicSource has written"));
  PartitionTail ended;
  ended.ended = true;
  EXPECT_TRUE(absl::IsFailedPrecondition(Newest({Tail(0), ended}).status()));
  EXPECT_THAT(
      std::string(Newest({Tail(3), Tail(2, StateOf(5, 6))}).status().message()),
      HasSubstr(
          "job.input-data [1] holds 2 rows, but of the 6 that TopicSource has written it has 3"));
  EXPECT_TRUE(absl::IsFailedPrecondition(Newest({Tail(4), Tail(3, StateOf(5, 6))}).status()));
}

TEST(NewestState, OfAnotherTopicIsAnError) {
  const auto other = NewestState(std::vector<PartitionTail>{Tail(0), Tail(0)}, StateOf(1, 0),
                                 "orders", kTwoWorkers, "job.input-data");
  EXPECT_THAT(std::string(other.status().message()),
              HasSubstr("this job reads the topic clicks, here is --topic orders"));
}

TEST(SourceOffsets, OfPartitionsThatWereAddedAreTheFirst) {
  SourceState state = FirstState("clicks", std::vector<Offset>{5, 6});
  EXPECT_EQ(NextOffset(state, 1), 6);
  EXPECT_EQ(NextOffset(state, 3), 0);
  SetNextOffset(state, 3, 9);
  EXPECT_THAT(state.next_offset(), ElementsAre(5, 6, 0, 9));
}

TEST(SourceGap, TellsWhatWasDeletedAndWhatIsAnotherLog) {
  EXPECT_EQ(GapBefore(5, {0, 9}).kind, SourceGap::Kind::kNone);
  EXPECT_EQ(GapBefore(9, {0, 9}).kind, SourceGap::Kind::kNone);
  EXPECT_EQ(GapBefore(5, {5, 9}).kind, SourceGap::Kind::kNone);
  EXPECT_EQ(GapBefore(5, {7, 9}).kind, SourceGap::Kind::kDeleted);
  EXPECT_EQ(GapBefore(5, {7, 9}).offsets, 2u);
  EXPECT_EQ(GapBefore(9, {0, 8}).kind, SourceGap::Kind::kBeyond);
}

}  // namespace
}  // namespace millrace
