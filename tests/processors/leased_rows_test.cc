// The rows that a worker's leases name, one lease after the other.
#include "processors/leased_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "processors/input_cutter.h"
#include "processors/one_pass_batches.h"
#include "tests/processors/input_fixture.h"
#include "tests/processors/lease_fixture.h"
#include "topics/lease_codec.h"

namespace millrace {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Place = LeasedRows::Place;

void AddLease(WorkerLeases& leases, uint32_t partition, uint64_t begin, uint64_t end,
              int64_t offset) {
  Lease& lease = *leases.add_open();
  lease.mutable_range()->set_partition(partition);
  lease.mutable_range()->set_begin(begin);
  lease.mutable_range()->set_end(end);
  lease.mutable_range()->set_offset(offset);
  lease.set_number(leases.next_number());
  lease.set_first_row(leases.next_row());
  leases.set_next_number(leases.next_number() + 1);
  leases.set_next_row(leases.next_row() + (end - begin));
}

Status SendLeased(LeasedRows& rows, Offset offset, uint64_t begin, uint64_t end) {
  const std::string key = InputKeyOf(RowNumber(begin), static_cast<uint32_t>(end - begin));
  const std::string value = InputValueOf(RowNumber(begin), RowNumber(end));
  return rows.Process({offset, 0, key, value});
}

TEST(LeasedRows, AreReadOneLeaseAfterTheOther) {
  WorkerLeases leases;
  AddLease(leases, 1, 10, 14, 5);
  RecordingSource source;
  LeasedRows rows(leases, kBatchesShape, source);
  EXPECT_EQ(rows.next(), (Place{0, 1, 5}));
  AddLease(leases, 0, 20, 22, 9);
  EXPECT_TRUE(*rows.Follow(leases));
  EXPECT_TRUE(*rows.Follow(leases)) << "again";
  ASSERT_TRUE(SendLeased(rows, 5, 8, 11).ok());
  EXPECT_EQ(rows.next(), (Place{0, 1, 6}));
  ASSERT_TRUE(SendLeased(rows, 4, 8, 14).ok()) << "before the place";
  ASSERT_TRUE(SendLeased(rows, 8, 11, 14).ok());
  EXPECT_EQ(rows.next(), (Place{1, 0, 9}));
  ASSERT_TRUE(SendLeased(rows, 9, 20, 22).ok());
  EXPECT_EQ(rows.next(), std::nullopt);
  EXPECT_THAT(source.numbers(), ElementsAreArray<RowNumber>({0, 1, 2, 3, 4, 5}));
  EXPECT_THAT(source.flushes, ElementsAreArray<RowNumber>({4, 6}));
  EXPECT_FALSE(rows.ended());
  AddLease(leases, 1, 14, 15, 9);
  EXPECT_TRUE(*rows.Follow(leases));
  EXPECT_EQ(rows.next(), (Place{2, 1, 9}));
}

TEST(LeasedRows, EndWhenTheLastLeaseIsRead) {
  WorkerLeases leases;
  AddLease(leases, 0, 0, 2, 0);
  RecordingSource source;
  LeasedRows rows(leases, kBatchesShape, source);
  leases.set_last(true);
  EXPECT_TRUE(*rows.Follow(leases));
  EXPECT_THAT(source.ends, IsEmpty());
  ASSERT_TRUE(SendLeased(rows, 0, 0, 2).ok());
  EXPECT_THAT(source.ends, ElementsAreArray<RowNumber>({2}));
  EXPECT_TRUE(rows.ended());
  RecordingSource other;
  leases.clear_open();
  leases.set_counted_rows(2);
  EXPECT_TRUE(LeasedRows(leases, kBatchesShape, other).ended()) << "nothing is left";
  EXPECT_THAT(other.ends, ElementsAreArray<RowNumber>({2}));
}

TEST(LeasedRows, BeginWithWhatIsOpen) {
  WorkerLeases leases;
  AddLease(leases, 0, 0, 7, 0);
  AddLease(leases, 0, 7, 9, 3);
  leases.mutable_open()->DeleteSubrange(0, 1);
  leases.set_counted_rows(8);
  RecordingSource source;
  LeasedRows rows(leases, kBatchesShape, source);
  EXPECT_EQ(rows.next(), (Place{1, 0, 3}));
  ASSERT_TRUE(SendLeased(rows, 3, 7, 9).ok());
  EXPECT_THAT(source.numbers(), ElementsAreArray<RowNumber>({7, 8})) << "the whole lease";
}

TEST(LeasedRows, SayThatAnotherInstanceIsFurther) {
  WorkerLeases leases;
  AddLease(leases, 0, 0, 2, 0);
  RecordingSource source;
  LeasedRows rows(leases, kBatchesShape, source);
  ASSERT_TRUE(SendLeased(rows, 0, 0, 2).ok());
  AddLease(leases, 0, 2, 4, 1);
  AddLease(leases, 0, 4, 6, 2);
  leases.mutable_open()->DeleteSubrange(0, 1);
  EXPECT_TRUE(*rows.Follow(leases)) << "it has read that which is done";
  ASSERT_TRUE(SendLeased(rows, 1, 2, 3).ok());
  leases.mutable_open()->DeleteSubrange(0, 1);
  EXPECT_FALSE(*rows.Follow(leases)) << "and only the half of this one";
}

TEST(LeasedRows, SayThatAnotherInstanceHadLeasesThatTheyHaveNotSeen) {
  WorkerLeases leases;
  RecordingSource source;
  LeasedRows rows(leases, kBatchesShape, source);
  AddLease(leases, 0, 0, 2, 0);
  leases.clear_open();
  EXPECT_FALSE(*rows.Follow(leases));
}

InputState EndedInput(uint32_t partition, uint64_t rows, int64_t offset) {
  InputState input;
  input.set_partition(partition);
  input.set_cut_row(rows);
  input.set_cut_offset(offset);
  input.set_ended(true);
  return input;
}

// Records that cannot be used, and stand behind the last row of their partition.
TEST(LeasedRows, BehindTheLastLeaseComeTheEndsOfPartitions) {
  WorkerLeases leases;
  AddLease(leases, 0, 5, 7, 3);
  RecordingSource source;
  LeasedRows rows(leases, kBatchesShape, source);
  leases.set_last(true);
  const std::vector<InputState> tails = {EndedInput(0, 9, 6), EndedInput(2, 0, 0)};
  EXPECT_TRUE(*rows.Follow(leases, tails));
  EXPECT_EQ(rows.next(), (Place{0, 0, 3})) << "the lease first";
  ASSERT_TRUE(SendLeased(rows, 3, 5, 7).ok());
  EXPECT_EQ(rows.next(), (Place{1, 0, 6}));
  EXPECT_THAT(source.ends, IsEmpty());
  ASSERT_TRUE(rows.Process({6, 0, "nobody", "?"}).ok());
  ASSERT_TRUE(SendLeased(rows, 7, 8, 9).ok()) << "repeated";
  EXPECT_TRUE(*rows.Follow(leases, tails)) << "again";
  EXPECT_EQ(rows.next(), (Place{1, 0, 8}));
  ASSERT_TRUE(rows.Process({8, 0, InputKeyOf(9, 0), EncodeFlush(9)}).ok());
  ASSERT_TRUE(rows.Process({9, 0, InputKeyOf(9, 1), "damaged"}).ok());
  ASSERT_TRUE(rows.Process({10, 0, InputKeyOf(9, 0), EncodeEnd(9)}).ok());
  EXPECT_EQ(rows.next(), (Place{3, 2, 0}));
  EXPECT_THAT(source.ends, IsEmpty());
  ASSERT_TRUE(rows.Process({0, 0, InputKeyOf(0, 0), EncodeEnd(0)}).ok());
  EXPECT_THAT(source.ends, ElementsAreArray<RowNumber>({2}));
  EXPECT_TRUE(rows.ended());
  EXPECT_EQ(rows.next(), std::nullopt);
  std::vector<std::pair<int, int64_t>> places;
  for (const DeadLetter& letter : source.dead_letters().Between(2, 3)) {
    places.emplace_back(letter.partition(), letter.offset());
  }
  EXPECT_THAT(places, testing::ElementsAre(std::pair(0, 6), std::pair(0, 9)));
}

TEST(LeasedRows, RowsBehindAnEndAreAnError) {
  WorkerLeases leases;
  leases.set_last(true);
  RecordingSource source;
  LeasedRows rows(leases, kBatchesShape, source, false, {EndedInput(0, 2, 1)});
  EXPECT_EQ(rows.next(), (Place{0, 0, 1}));
  const Status read = SendLeased(rows, 1, 2, 3);
  EXPECT_TRUE(absl::IsDataLoss(read));
  EXPECT_THAT(std::string(read.message()), HasSubstr("rows come behind row 2"));
}

TEST(LeasedRows, RefuseLeasesThatContradictThoseBefore) {
  WorkerLeases leases;
  AddLease(leases, 0, 0, 2, 0);
  RecordingSource source;
  LeasedRows rows(leases, kBatchesShape, source);
  WorkerLeases others;
  AddLease(others, 0, 0, 3, 0);
  AddLease(others, 0, 3, 4, 1);
  const StatusOr<bool> followed = rows.Follow(others);
  EXPECT_TRUE(absl::IsInvalidArgument(followed.status()));
  EXPECT_THAT(std::string(followed.status().message()),
              HasSubstr("lease 1 begins at row 3, but those before end elsewhere"));
  leases.set_last(true);
  EXPECT_TRUE(*rows.Follow(leases));
  AddLease(leases, 0, 2, 4, 1);
  EXPECT_THAT(std::string(rows.Follow(leases).status().message()), HasSubstr("end the stream"));
}

// ---- any log, cut and read ----

struct LoggedRows {
  uint64_t begin = 0;
  uint64_t end = 0;  // begin: a flush
};

// As a producer writes it that is killed now and then, and repeats rows in other records.
std::vector<LoggedRows> RandomRows(std::mt19937& random) {
  std::vector<LoggedRows> log;
  uint64_t next = 0;
  for (uint64_t records = random() % 40; records > 0; --records) {
    if (random() % 8 == 0) next -= std::min<uint64_t>(next, random() % 10);
    const uint64_t end = next + (random() % 8 == 0 ? 0 : 1 + random() % 6);
    log.push_back({next, end});
    next = end;
  }
  return log;
}

std::string LoggedKey(const LoggedRows& rows) {
  return InputKeyOf(RowNumber(rows.begin), static_cast<uint32_t>(rows.end - rows.begin));
}
std::string LoggedValue(const LoggedRows& rows) {
  return rows.begin == rows.end ? EncodeFlush(RowNumber(rows.begin))
                                : InputValueOf(RowNumber(rows.begin), RowNumber(rows.end));
}

// Goes through a worker's batches, one after the other, from where the first lease is not counted.
class TestedReader {
 public:
  explicit TestedReader(const WorkerLeases& leases)
      : batches_({.batch_rows = 5, .ends_at_flushes = true}, RowNumber(leases.counted_rows()),
                 Clock(leases.clock())),
        rows_(leases, kBatchesShape, batches_),
        progress_{.clock = Clock(leases.clock()), .rows_end = RowNumber(leases.counted_rows())} {}

  LeasedRows& rows() { return rows_; }
  const Progress& progress() const { return progress_; }
  // The rows of the next batch, by their values; none: it waits.
  std::vector<double> TakeBatch() {
    Batch batch;
    std::vector<double> values;
    if (Next(batches_, progress_, batch) != BatchState::kReady) return values;
    for (const Row* row : batch.rows) values.push_back(row->numeric[0]);
    ++progress_.clock;
    progress_.rows_end = batch.rows_end;
    batches_.Forget(progress_);
    return values;
  }

 private:
  OnePassBatches batches_;
  LeasedRows rows_;
  Progress progress_;
};

// Everything that is in the log is cut, leased, read from where the lease says, and learnt from
// once; and a batch has rows of one lease.
TEST(LeasedRows, AreAllRowsOfAnyLogOnce) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    LeaseTable table;
    const auto partitions = static_cast<uint32_t>(1 + random() % 3);
    const auto workers = static_cast<uint32_t>(1 + random() % 3);
    ASSERT_TRUE(table.Apply(LeaseBegin(workers, partitions)).ok());
    std::map<uint32_t, std::vector<LoggedRows>> logs;
    for (uint32_t i = 0; i < partitions; ++i) {
      logs[i] = RandomRows(random);
      uint64_t rows = 0;
      for (const LoggedRows& record : logs[i]) rows = std::max(rows, record.end);
      logs[i].push_back({rows, rows});
    }
    InputCutter cutter(1 + random() % 9, kBatchesShape, table);
    std::map<std::pair<uint32_t, uint64_t>, int> learnt;
    std::map<uint32_t, std::unique_ptr<TestedReader>> readers;
    const auto is_done = [&] {
      return std::ranges::all_of(table.workers(), [](const auto& entry) {
        return entry.second.last() && entry.second.open().empty();
      });
    };
    for (int turn = 0; turn < 5000 && !is_done(); ++turn) {
      const auto partition = static_cast<uint32_t>(random() % partitions);
      const auto next = static_cast<size_t>(int64_t{cutter.next_offset(partition)});
      if (next < logs[partition].size()) {
        const LoggedRows& record = logs[partition][next];
        const bool is_end = next + 1 == logs[partition].size();
        const std::string value = is_end ? EncodeEnd(RowNumber(record.end)) : LoggedValue(record);
        ASSERT_TRUE(cutter.Take(partition, Offset(next), LoggedKey(record), value).ok());
      }
      if (random() % 8 == 0) cutter.Tick();
      for (const LeaseCommand& command : cutter.TakeCommands()) {
        ASSERT_EQ(table.Apply(command), absl::OkStatus());
      }
      if (random() % 50 == 0) cutter = InputCutter(1 + random() % 9, kBatchesShape, table);
      const auto number = static_cast<uint32_t>(random() % workers);
      const WorkerLeases& leases = table.workers().at(number);
      std::unique_ptr<TestedReader>& reader = readers[number];
      if (!reader || random() % 20 == 0) reader = std::make_unique<TestedReader>(leases);
      ASSERT_TRUE(*reader->rows().Follow(leases));
      if (const auto place = reader->rows().next()) {
        const auto at = static_cast<size_t>(int64_t{place->offset});
        ASSERT_LT(at, logs[place->partition].size());
        const LoggedRows& record = logs[place->partition][at];
        const std::string key = LoggedKey(record);
        const std::string value = LoggedValue(record);
        ASSERT_EQ(reader->rows().Process({place->offset, 0, key, value}), absl::OkStatus());
      }
      const uint64_t begin = reader->progress().rows_end;
      const std::vector<double> batch = reader->TakeBatch();
      if (batch.empty()) continue;
      const auto lease = std::ranges::find_if(leases.open(), [&](const Lease& open) {
        return open.first_row() <= begin && begin < EndRowOf(open);
      });
      ASSERT_NE(lease, leases.open().end());
      ASSERT_LE(uint64_t{reader->progress().rows_end}, EndRowOf(*lease));
      for (size_t i = 0; i < batch.size(); ++i) {
        const uint64_t row = lease->range().begin() + (begin - lease->first_row()) + i;
        ASSERT_EQ(batch[i], static_cast<double>(row));
        ++learnt[{lease->range().partition(), row}];
      }
      ASSERT_TRUE(
          table.Apply(LeaseCounted(number, reader->progress().rows_end, reader->progress().clock))
              .ok());
    }
    ASSERT_TRUE(is_done());
    uint64_t rows = 0;
    for (const auto& [partition, log] : logs) rows += log.back().end;
    ASSERT_EQ(learnt.size(), rows);
    for (const auto& [row, times] : learnt) ASSERT_EQ(times, 1);
    for (const auto& [number, reader] : readers) {
      ASSERT_TRUE(*reader->rows().Follow(table.workers().at(number)));
      EXPECT_TRUE(reader->rows().ended());
    }
  }
}

}  // namespace
}  // namespace millrace
