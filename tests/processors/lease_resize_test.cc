// Who gets rows where the number of workers changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "processors/lease_table.h"
#include "tests/processors/lease_fixture.h"
#include "topics/lease_codec.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Two workers, which may become four, and one partition.
class LeaseResizeTest : public testing::Test {
 protected:
  void SetUp() override {
    LeaseCommand begin = LeaseBegin(2, 1);
    begin.mutable_begin()->set_most_workers(4);
    Do(begin);
  }
  void Do(const LeaseCommand& command) {
    EXPECT_EQ(CheckLeaseCommand(command), absl::OkStatus());
    EXPECT_EQ(table_.Apply(command), absl::OkStatus()) << command.DebugString();
    EXPECT_EQ(table_.Check(), absl::OkStatus()) << command.DebugString();
  }
  std::string Refused(const LeaseCommand& command) {
    Status refused = CheckLeaseCommand(command);
    if (refused.ok()) refused = table_.Apply(command);
    EXPECT_FALSE(refused.ok());
    EXPECT_EQ(table_.Check(), absl::OkStatus());
    return std::string(refused.message());
  }
  void Cut(uint64_t rows) {
    const InputState& input = table_.inputs().at(0);
    Do(LeaseCut(0, input.cut_row(), input.cut_row() + rows, input.cut_offset() + 1));
  }
  // What shard 0 says of a worker, and of the last change.
  void Say(uint32_t worker, uint64_t rows, uint64_t clock, uint64_t joined, bool left,
           uint64_t resize) {
    LeaseCommand said = LeaseCounted(worker, rows, clock);
    said.mutable_counted()->mutable_worker(0)->set_joined(joined);
    said.mutable_counted()->mutable_worker(0)->set_left(left);
    said.mutable_counted()->set_resize(resize);
    Do(said);
  }
  const WorkerLeases& Of(uint32_t worker) const { return table_.workers().at(worker); }
  // As another master reads it.
  void Restore() {
    const FreeLeases free = table_.SaveFree();
    LeaseTable again;
    ASSERT_EQ(again.Load(table_.workers(), table_.inputs(), &free), absl::OkStatus());
    EXPECT_EQ(again.order(), table_.order());
    EXPECT_EQ(again.IsResizing(), table_.IsResizing());
    table_ = again;
  }

  LeaseTable table_;
};

TEST_F(LeaseResizeTest, WhoComesGetsRowsWhenShard0HasLetItIn) {
  Do(LeaseResize(3));
  EXPECT_EQ(table_.size(), 3u);
  EXPECT_EQ(table_.order(), (ResizeOrder{1, 3}));
  EXPECT_TRUE(table_.IsResizing());
  for (int i = 0; i < 7; ++i) Cut(10);
  EXPECT_FALSE(table_.workers().contains(2));
  EXPECT_EQ(table_.free().size(), 1u);
  Restore();
  Say(2, 0, 5, 5, false, 1);
  EXPECT_EQ(Of(2).joined(), 5u);
  EXPECT_EQ(Of(2).open_size(), 1);
  EXPECT_EQ(Of(2).open(0).range().begin(), 60u);
  EXPECT_EQ(table_.order(), std::nullopt);
  EXPECT_FALSE(table_.IsResizing());
}

TEST_F(LeaseResizeTest, WhoIsToGoGetsThroughWithItsLeasesAndCanComeAgain) {
  Cut(10);
  Cut(10);
  Do(LeaseResize(1));
  EXPECT_TRUE(Of(1).last());
  EXPECT_EQ(Of(1).tail_readers(), 0u);
  Cut(10);
  Cut(10);
  EXPECT_EQ(Of(1).open_size(), 1) << "none behind its last";
  EXPECT_EQ(Of(0).open_size(), 3);
  LeaseCommand done;
  done.mutable_counted()->set_resize(1);
  Do(done);
  EXPECT_TRUE(table_.IsResizing());
  Restore();
  EXPECT_THAT(Refused(LeaseResize(2)), HasSubstr("is still changing to 1"));
  Say(1, 10, 2, 0, true, 1);
  EXPECT_FALSE(table_.IsResizing());
  Do(LeaseResize(2));
  EXPECT_TRUE(table_.IsResizing());
  EXPECT_TRUE(Of(1).last()) << "until shard 0 has let it in";
  Restore();
  Say(1, 10, 7, 7, false, 2);
  EXPECT_FALSE(Of(1).last());
  EXPECT_EQ(Of(1).joined(), 7u);
  Cut(10);
  Cut(10);
  EXPECT_GE(Of(1).open_size(), 1);
  EXPECT_EQ(Of(1).open(0).number(), 1u);
  EXPECT_EQ(Of(1).open(0).first_row(), 10u) << "its numbering goes on";
  Say(1, 10, 2, 0, true, 1);  // a server that was replaced
  EXPECT_EQ(Of(1).joined(), 7u);
  EXPECT_FALSE(Of(1).left());
}

TEST_F(LeaseResizeTest, WhoJoinsHasNoEarlierRowsToCatchUpWith) {
  for (int i = 0; i < 20; ++i) {
    Cut(10);
    const uint32_t worker = Of(0).open_size() > 0 ? 0 : 1;
    Say(worker, Of(worker).next_row(), static_cast<uint64_t>(i) + 1, 0, false, 0);
  }
  EXPECT_EQ(Of(0).next_row(), 100u);
  EXPECT_EQ(Of(1).next_row(), 100u);
  Do(LeaseResize(3));
  Say(2, 0, 30, 30, false, 1);
  Restore();
  // Workers that keep up share what comes, in turns, as before.
  for (uint64_t turn = 0; turn < 6; ++turn) {
    Cut(10);
    for (const uint32_t worker : {0u, 1u, 2u}) {
      if (Of(worker).open_size() == 0) continue;
      Say(worker, Of(worker).next_row(), 40 + turn, worker == 2 ? 30 : 0, false, 1);
    }
  }
  EXPECT_EQ(Of(0).next_row(), 120u);
  EXPECT_EQ(Of(1).next_row(), 120u);
  EXPECT_EQ(Of(2).next_row(), 20u);
}

TEST_F(LeaseResizeTest, WhoHasLeftIsIdleUntilItComesAgainButNotAtTheEnd) {
  Do(LeaseResize(1));
  EXPECT_THAT(table_.IdleWorkers(), IsEmpty()) << "it has not left yet";
  Say(1, 0, 2, 0, true, 1);
  EXPECT_THAT(table_.IdleWorkers(), ElementsAre(1));
  Do(LeaseResize(2));
  EXPECT_THAT(table_.IdleWorkers(), ElementsAre(1)) << "until shard 0 has let it in";
  Say(1, 0, 7, 7, false, 2);
  EXPECT_THAT(table_.IdleWorkers(), IsEmpty());
  Do(LeaseEnd(0, 0));
  Say(0, 0, 8, 0, true, 2);
  Say(1, 0, 8, 7, true, 2);
  EXPECT_THAT(table_.IdleWorkers(), IsEmpty());
  EXPECT_FALSE(table_.IsResizing()) << "they have left since all rows are leased";
}

TEST_F(LeaseResizeTest, RefusesWhatCannotBe) {
  EXPECT_THAT(Refused(LeaseResize(0)), HasSubstr("cannot have 0 workers"));
  EXPECT_THAT(Refused(LeaseResize(5)), HasSubstr("at most 4"));
  LeaseCommand never_ordered;
  never_ordered.mutable_counted()->set_resize(1);
  EXPECT_THAT(Refused(never_ordered), HasSubstr("was never ordered"));
  LeaseCommand stranger = LeaseCounted(2, 0, 3);
  stranger.mutable_counted()->mutable_worker(0)->set_joined(3);
  EXPECT_THAT(Refused(stranger), HasSubstr("only workers 0 to 1"));
  Do(LeaseResize(2));
  EXPECT_EQ(table_.order(), std::nullopt) << "it has two";
  Do(LeaseResize(4));
  EXPECT_THAT(Refused(LeaseResize(3)), HasSubstr("is still changing to 4"));
  Do(LeaseResize(4));  // said again
  EXPECT_EQ(table_.order(), (ResizeOrder{1, 4}));
  Do(LeaseEnd(0, 0));
  EXPECT_THAT(Refused(LeaseResize(3)), HasSubstr("all rows are leased"));
  LeaseTable none;
  const Status refused = none.Apply(LeaseResize(2));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--sharding dynamic"));
}

TEST_F(LeaseResizeTest, AtTheEndThoseThatAreThereShareTheEndsOfPartitionsAndKnowWhoHasJoined) {
  Do(LeaseResize(3));
  Say(2, 0, 4, 4, false, 1);
  Cut(10);
  Do(LeaseEnd(0, 10));
  for (const uint32_t worker : {0, 1, 2}) {
    EXPECT_TRUE(Of(worker).last());
    EXPECT_EQ(Of(worker).tail_readers(), 3u);
    ASSERT_EQ(Of(worker).joined_workers_size(), 1);
    EXPECT_EQ(Of(worker).joined_workers(0).worker(), 2u);
    EXPECT_EQ(Of(worker).joined_workers(0).clock(), 4u);
  }
}

TEST_F(LeaseResizeTest, WhoComesAfterTheEndHasNothingToDo) {
  Do(LeaseResize(3));
  Do(LeaseEnd(0, 0));
  EXPECT_EQ(Of(0).tail_readers(), 2u);
  Say(2, 0, 4, 4, false, 1);
  EXPECT_TRUE(Of(2).last());
  EXPECT_EQ(Of(2).tail_readers(), 0u);
}

}  // namespace
}  // namespace millrace
