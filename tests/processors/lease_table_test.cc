// Who gets which rows.
#include "processors/lease_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "processors/policy.h"
#include "tests/processors/lease_fixture.h"
#include "topics/lease_codec.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A table, and words for what it is told.
class TestedLeases {
 public:
  TestedLeases(uint32_t workers, uint32_t partitions) { Do(LeaseBegin(workers, partitions)); }

  void Do(const LeaseCommand& command) {
    EXPECT_EQ(CheckLeaseCommand(command), absl::OkStatus());
    EXPECT_EQ(table.Apply(command), absl::OkStatus());
    EXPECT_EQ(table.Check(), absl::OkStatus());
  }
  // The next rows of the partition, whose record has the last cut's next offset.
  void Cut(uint64_t rows, uint32_t partition = 0) {
    const InputState& input = table.inputs().at(partition);
    Do(LeaseCut(partition, input.cut_row(), input.cut_row() + rows, input.cut_offset() + 1));
  }
  // Why it changes nothing.
  std::string Refused(const LeaseCommand& command) {
    const std::string before = TextOfLeases(table);
    const Status applied = table.Apply(command);
    EXPECT_TRUE(absl::IsInvalidArgument(applied)) << command.DebugString();
    EXPECT_TRUE(TextOfLeases(table) == before) << "it may be long";
    return std::string(applied.message());
  }
  void DoInVain(const LeaseCommand& command) {
    const std::string before = TextOfLeases(table);
    Do(command);
    EXPECT_EQ(TextOfLeases(table), before) << command.DebugString();
  }
  const WorkerLeases& Of(uint32_t worker) const { return table.workers().at(worker); }
  // "partition:begin-end@first" of each open one.
  std::vector<std::string> Open(uint32_t worker) const {
    std::vector<std::string> open;
    for (const Lease& lease : Of(worker).open()) {
      open.push_back(std::to_string(lease.range().partition()) + ":" +
                     std::to_string(lease.range().begin()) + "-" +
                     std::to_string(lease.range().end()) + "@" + std::to_string(lease.first_row()));
    }
    return open;
  }

  LeaseTable table;
};

TEST(LeaseTable, GivesRowsToWhoHasTheFewestUndone) {
  TestedLeases leases(2, 1);
  leases.Cut(10);
  leases.Cut(4);
  leases.Cut(4);  // to the second, which has fewer
  EXPECT_THAT(leases.Open(0), ElementsAre("0:0-10@0"));
  EXPECT_THAT(leases.Open(1), ElementsAre("0:10-14@0", "0:14-18@4"));
  leases.Cut(1);
  EXPECT_THAT(leases.Open(1), ElementsAre("0:10-14@0", "0:14-18@4", "0:18-19@8"));
  leases.Do(LeaseCounted(0, 9));
  leases.Cut(3);
  EXPECT_THAT(leases.Open(0), ElementsAre("0:0-10@0", "0:19-22@10"));
}

TEST(LeaseTable, GivesRareRowsToAllInTurn) {
  TestedLeases leases(3, 1);
  for (uint64_t turn = 0; turn < 6; ++turn) {
    leases.Cut(2);
    const auto worker = static_cast<uint32_t>(turn % 3);
    ASSERT_EQ(leases.Open(worker).size(), 1u) << turn;
    leases.Do(LeaseCounted(worker, 2 * (turn / 3 + 1), turn + 1));
  }
}

// That other shards have counted its last rows is known of a worker only when it has had more.
TEST(LeaseTable, GivesRareRowsAlsoToWhoseLastOnesOnlyShard0HasCounted) {
  TestedLeases leases(2, 1);
  leases.Cut(8);
  leases.Cut(2);
  LeaseCommand said = LeaseCounted(0, 0, 1);
  said.mutable_counted()->mutable_worker(0)->set_taken(8);
  AddCounted(said, 1, 1, 1);
  leases.Do(said);
  leases.Cut(4);
  EXPECT_THAT(leases.Open(0), ElementsAre("0:0-8@0", "0:10-14@8"))
      << "worker 1 still has a row to do";
}

TEST(LeaseTable, KeepsForTheNextWhatNobodyHasRoomFor) {
  TestedLeases leases(1, 2);
  for (int i = 0; i < 5; ++i) leases.Cut(2, static_cast<uint32_t>(i % 2));
  EXPECT_THAT(leases.Open(0), ElementsAre("0:0-2@0", "1:0-2@2", "0:2-4@4"));
  ASSERT_EQ(leases.table.free().size(), 2u);
  EXPECT_FALSE(leases.table.WantsCuts());
  leases.Do(LeaseCounted(0, 3));
  EXPECT_THAT(leases.Open(0), ElementsAre("1:0-2@2", "0:2-4@4", "1:2-4@6")) << "the oldest first";
  EXPECT_TRUE(leases.table.WantsCuts());
  EXPECT_EQ(leases.Of(0).open(2).number(), 3u);
  leases.Do(LeaseCounted(0, 8));
  EXPECT_THAT(leases.Open(0), ElementsAre("0:4-6@8")) << "three of them are done at once";
}

constexpr uint32_t kOpen = 3;  // as LeaseBegin says

// One range is one row here, and one record.
void SetNextRow(uint64_t& row, InputRange& range) {
  range.set_begin(row);
  range.set_end(row + 1);
  range.set_offset(static_cast<int64_t>(row));
  ++row;
}

TEST(LeaseTable, WantsNoMoreThanHalfOfTheFreeRangesThatThereMayBe) {
  for (const size_t free_ranges : {kMostFreeRanges / 2 - 1, kMostFreeRanges / 2}) {
    uint64_t row = 0;
    LeaseTable::Workers workers;
    for (uint32_t number = 0; number < kMostFreeRanges / 3; ++number) {
      WorkerLeases& worker = workers[number];
      worker.set_worker(number);
      for (uint64_t lease = 0; lease < kOpen; ++lease) {
        SetNextRow(row, *worker.add_open()->mutable_range());
        worker.mutable_open()->rbegin()->set_number(lease);
        worker.mutable_open()->rbegin()->set_first_row(lease);
      }
      worker.set_next_number(kOpen);
      worker.set_next_row(kOpen);
    }
    FreeLeases free;
    free.set_open_leases(kOpen);
    free.set_workers(static_cast<uint32_t>(workers.size()));
    free.set_most_workers(static_cast<uint32_t>(workers.size()));
    for (size_t i = 0; i < free_ranges; ++i) SetNextRow(row, *free.add_range());
    LeaseTable::Inputs inputs;
    inputs[0].set_cut_row(row);
    inputs[0].set_cut_offset(static_cast<int64_t>(row));
    LeaseTable table;
    ASSERT_EQ(table.Load(std::move(workers), std::move(inputs), &free), absl::OkStatus());
    EXPECT_EQ(table.WantsCuts(), free_ranges < kMostFreeRanges / 2);
  }
}

// Of leases with a batch each: shard 0 has counted as many as may be in flight, and they are open
// until another is.
TEST(LeaseTable, AWorkerHasRoomForALeaseMoreThanMayBeCountedByShardZeroOnly) {
  EXPECT_EQ(OpenLeases(1, 16), 3u);
  for (const uint32_t shards : {1u, 2u, 9u}) {
    for (size_t pipeline = 1; pipeline <= kMostPipeline; ++pipeline) {
      EXPECT_GE(OpenLeases(shards, pipeline), UpdatesAhead(shards, pipeline) + 2);
      EXPECT_LE(OpenLeases(shards, pipeline), kMostOpenLeases);
    }
  }
}

TEST(LeaseTable, ALeaseIsDoneWhenItsLastRowIsCounted) {
  TestedLeases leases(1, 1);
  leases.Cut(5);
  leases.Do(LeaseCounted(0, 4, 2));
  EXPECT_THAT(leases.Open(0), ElementsAre("0:0-5@0"));
  leases.Do(LeaseCounted(0, 5, 3));
  EXPECT_THAT(leases.Open(0), IsEmpty());
  EXPECT_EQ(leases.Of(0).counted_rows(), 5u);
  EXPECT_EQ(leases.Of(0).clock(), 3u);
}

TEST(LeaseTable, WhatWasSaidBeforeChangesNothing) {
  TestedLeases leases(2, 2);
  leases.DoInVain(LeaseBegin(2, 2));
  leases.Cut(5);
  leases.Cut(5);
  leases.DoInVain(LeaseCut(0, 0, 5, 1));
  leases.DoInVain(LeaseCut(0, 3, 20, 9));  // cut elsewhere
  leases.Do(LeaseCounted(0, 3, 7));
  leases.DoInVain(LeaseCounted(0, 3, 7));
  leases.DoInVain(LeaseCounted(0, 2, 6));
  leases.DoInVain(LeaseCounted(0, 2, 8));  // a server that lost its state
  leases.DoInVain(LeaseCounted(0, 3, 6));
  leases.Do(LeaseCounted(0, 3, 8));
  leases.Do(LeaseEnd(0, 10));
  leases.DoInVain(LeaseEnd(0, 10));
  leases.DoInVain(LeaseCut(0, 5, 10, 2));
}

TEST(LeaseTable, TellsAllWorkersOfTheEndWhenAllIsGiven) {
  TestedLeases leases(1, 2);
  for (int i = 0; i < 4; ++i) leases.Cut(2);
  leases.Do(LeaseEnd(0, 8));
  EXPECT_FALSE(leases.Of(0).last()) << "the other partition";
  leases.Do(LeaseEnd(1, 0));
  EXPECT_FALSE(leases.Of(0).last()) << "one is free";
  leases.Do(LeaseCounted(0, 2));
  EXPECT_TRUE(leases.Of(0).last());
  EXPECT_EQ(leases.Open(0).size(), 3u) << "these are still to be done";
  EXPECT_THAT(leases.Refused(LeaseCut(1, 0, 2, 1)), HasSubstr("after its end was reported"));
  TestedLeases empty(3, 1);
  empty.Do(LeaseEnd(0, 0));
  for (uint32_t worker = 0; worker < 3; ++worker) EXPECT_TRUE(empty.Of(worker).last());
}

TEST(LeaseTable, NeedsTheLogFromTheFirstRowThatIsNotCounted) {
  TestedLeases leases(2, 2);
  EXPECT_EQ(leases.table.NeededFrom(0), 0);
  for (int i = 0; i < 7; ++i) leases.Cut(10);  // one is free
  EXPECT_EQ(leases.table.NeededFrom(0), 0);
  leases.Do(LeaseCounted(0, 9));
  EXPECT_EQ(leases.table.NeededFrom(0), 0) << "a row is not counted";
  leases.Do(LeaseCounted(0, 30));
  EXPECT_EQ(leases.table.NeededFrom(0), 1) << "the other worker has it";
  leases.Do(LeaseCounted(1, 30));
  EXPECT_EQ(leases.table.NeededFrom(0), 6);
  leases.Do(LeaseCounted(0, 40));
  EXPECT_EQ(leases.table.NeededFrom(0), 7) << "what comes next";
  EXPECT_EQ(leases.table.NeededFrom(1), 0);
}

TEST(LeaseTable, SaysWhyItCannotUseACommand) {
  TestedLeases leases(2, 2);
  leases.Cut(10);
  EXPECT_THAT(leases.Refused(LeaseBegin(3, 2)), HasSubstr("2 partitions to at most 2 workers"));
  EXPECT_THAT(leases.Refused(LeaseBegin(2, 3)), HasSubstr("a second beginning names 3, 2 and 3"));
  EXPECT_THAT(leases.Refused(LeaseBegin(2, 2, 4)), HasSubstr("names 2, 2 and 4"));
  EXPECT_THAT(leases.Refused(LeaseCut(2, 0, 1, 1)), HasSubstr("partition 2 of input-data"));
  EXPECT_THAT(leases.Refused(LeaseEnd(2, 0)), HasSubstr("partition 2 of input-data"));
  EXPECT_THAT(leases.Refused(LeaseCut(0, 11, 12, 2)),
              HasSubstr("at row 11, but the last cut ended at row 10"));
  EXPECT_THAT(leases.Refused(LeaseCut(0, 10, 12, 1)), HasSubstr("the last one ended at offset 1"));
  EXPECT_THAT(leases.Refused(LeaseEnd(0, 9)), HasSubstr("9 rows, but 10 have been cut"));
  EXPECT_THAT(leases.Refused(LeaseEnd(0, 11)), HasSubstr("11 rows, but 10 have been cut"));
  EXPECT_THAT(leases.Refused(LeaseCounted(2, 0)),
              HasSubstr("of worker 2, but the job has only workers 0 to 1"));
  LeaseCommand counted = LeaseCounted(0, 5);
  AddCounted(counted, 1, 1, 1);
  EXPECT_THAT(leases.Refused(counted),
              HasSubstr("1 rows of worker 1, but only 0 were leased to it"));
  LeaseTable none;
  EXPECT_THAT(std::string(none.Apply(LeaseCut(0, 0, 1, 1)).message()), HasSubstr("does not lease"));
}

TEST(LeaseTable, KeepsNoMoreFreeRangesThanARecordHasRoomFor) {
  TestedLeases leases(1, 1);
  for (size_t i = 0; i < kMostFreeRanges + kOpen; ++i) {
    const InputState& input = leases.table.inputs().at(0);
    ASSERT_EQ(leases.table.Apply(
                  LeaseCut(0, input.cut_row(), input.cut_row() + 1, input.cut_offset() + 1)),
              absl::OkStatus());
  }
  const uint64_t row = kMostFreeRanges + kOpen;
  const LeaseCommand next = LeaseCut(0, row, row + 1, static_cast<int64_t>(row) + 1);
  EXPECT_THAT(leases.Refused(next), HasSubstr("the most that there may be"));
  leases.Do(LeaseCounted(0, 1));
  leases.Do(next);
}

// ---- any commands ----

// What was given, by rules of its own: each row of each partition once, in order.
class GivenRows {
 public:
  void Take(const LeaseTable& table) {
    std::map<std::pair<uint32_t, uint64_t>, InputRange> given;  // by partition and first row
    for (const auto& [number, worker] : table.workers()) {
      for (const Lease& lease : worker.open()) {
        if (lease.number() < next_number_[number]) continue;
        ASSERT_EQ(lease.number(), next_number_[number]++);
        ASSERT_EQ(lease.first_row(), next_row_[number]);
        next_row_[number] = EndRowOf(lease);
        const InputRange& range = lease.range();
        ASSERT_TRUE(given.emplace(std::pair(range.partition(), range.begin()), range).second);
      }
    }
    for (const auto& [place, range] : given) {
      ASSERT_EQ(range.begin(), next_of_[range.partition()]) << "leased in the order of the log";
      next_of_[range.partition()] = range.end();
    }
  }
  void ExpectAllOf(const LeaseTable& table) {
    for (const InputRange& range : table.free()) {
      ASSERT_EQ(range.begin(), next_of_[range.partition()]) << "free, and leased or left out";
      next_of_[range.partition()] = range.end();
    }
    for (const auto& [partition, input] : table.inputs()) {
      ASSERT_EQ(next_of_[partition], input.cut_row());
    }
  }

 private:
  std::map<uint32_t, uint64_t> next_number_;  // by worker, as the next
  std::map<uint32_t, uint64_t> next_row_;
  std::map<uint32_t, uint64_t> next_of_;  // by partition: behind the rows that were given
};

TEST(LeaseTable, GivesEachRowOnceWhateverIsSaid) {
  int given_to_the_end = 0;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    LeaseTable table;
    GivenRows given;
    for (int i = 0; i < 200; ++i) {
      const std::string before = TextOfLeases(table);
      const LeaseCommand command = RandomLeaseCommand(random, table);
      if (!CheckLeaseCommand(command).ok()) continue;
      if (!table.Apply(command).ok()) {
        ASSERT_EQ(TextOfLeases(table), before) << command.DebugString();
      }
      ASSERT_EQ(table.Check(), absl::OkStatus()) << command.DebugString();
      given.Take(table);
    }
    given.ExpectAllOf(table);
    if (testing::Test::HasFatalFailure()) return;
    if (table.workers().begin()->second.last()) ++given_to_the_end;
  }
  EXPECT_GT(given_to_the_end, 10);
}

// ---- the records of `plan` ----

TEST(LeaseTable, RefusesAStateThatItHasNeverSaved) {
  using W = LeaseTable::Workers;
  using I = LeaseTable::Inputs;
  using F = FreeLeases;
  const auto why_not = [](const auto& change) {
    TestedLeases leases(2, 2);
    for (int i = 0; i < 8; ++i) leases.Cut(10, static_cast<uint32_t>(i % 2));
    W workers = leases.table.workers();
    I inputs = leases.table.inputs();
    F free = leases.table.SaveFree();
    LeaseTable same;
    EXPECT_EQ(same.Load(workers, inputs, &free), absl::OkStatus());
    EXPECT_EQ(TextOfLeases(same), TextOfLeases(leases.table));
    change(workers, inputs, free);
    LeaseTable other;
    const Status loaded = other.Load(std::move(workers), std::move(inputs), &free);
    EXPECT_TRUE(absl::IsInvalidArgument(loaded)) << loaded;
    return std::string(loaded.message());
  };
  const auto open = [](W& w, uint32_t worker, int i) -> InputRange& {
    return *w.at(worker).mutable_open(i)->mutable_range();
  };
  EXPECT_THAT(why_not([](W& w, I&, F&) { w.erase(0); }), HasSubstr("is missing"));
  EXPECT_THAT(why_not([](W&, I& i, F&) { i.erase(0); }), HasSubstr("is missing"));
  EXPECT_THAT(why_not([](W& w, I&, F&) { w.clear(); }), HasSubstr("without leases"));
  EXPECT_THAT(why_not([](W&, I& i, F&) { i.clear(); }), HasSubstr("or the reverse"));
  EXPECT_THAT(why_not([](W& w, I&, F&) { w.at(0).set_last(true); }),
              HasSubstr("is told that its leases are the last"));
  EXPECT_THAT(why_not([](W&, I&, F& f) { f.clear_range(); }), HasSubstr("have been cut"));
  EXPECT_THAT(why_not([](W&, I&, F& f) { f.clear_open_leases(); }), HasSubstr("may have none"));
  EXPECT_THAT(why_not([](W&, I&, F& f) { f.set_open_leases(2); }),
              HasSubstr("open leases of worker 0: 3"));
  EXPECT_THAT(why_not([](W& w, I&, F&) {
                w.at(1).set_counted_rows(10);
                w.at(1).mutable_open()->DeleteSubrange(0, 1);
              }),
              HasSubstr("too few leases"));
  EXPECT_THAT(why_not([](W&, I& i, F&) { i.at(0).set_cut_row(39); }), HasSubstr("have been cut"));
  EXPECT_THAT(why_not([](W&, I& i, F&) { i.at(1).set_cut_offset(3); }),
              HasSubstr("have not been cut"));
  EXPECT_THAT(why_not([&](W& w, I&, F&) { open(w, 0, 1) = open(w, 0, 0); }), HasSubstr("overlap"));
  EXPECT_THAT(why_not([&](W& w, I&, F&) { open(w, 0, 1).set_offset(0); }), HasSubstr("overlap"));
  EXPECT_THAT(why_not([&](W& w, I&, F&) { open(w, 0, 1).set_partition(2); }),
              HasSubstr("partition 2"));
  EXPECT_THAT(why_not([](W&, I&, F& f) { f.mutable_range(0)->set_end(1 << 30); }),
              HasSubstr("rows of a range"));
  EXPECT_THAT(why_not([](W&, I& i, F&) { i.at(0).set_cut_offset(-1); }), HasSubstr("offset -1"));
  EXPECT_THAT(why_not([](W& w, I&, F&) { w.at(1).set_next_row(31); }), HasSubstr("do not follow"));
  LeaseTable none;
  EXPECT_EQ(none.Load({}, {}, nullptr), absl::OkStatus());
  LeaseTable without;
  EXPECT_FALSE(without.Load({{0, WorkerLeases()}}, {{0, InputState()}}, nullptr).ok());
}

}  // namespace
}  // namespace millrace
