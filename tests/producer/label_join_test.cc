#include "producer/label_join.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kWindow = 60'000;
constexpr int64_t kLate = LabelJoin::kLateMs;
constexpr int64_t kNow = 1'000'000'000;  // all times are before it
using Kind = HeldRecord::Kind;

HeldRecord At(int32_t partition, Offset offset, int64_t time_ms, std::string key,
              Kind kind = Kind::kUsable) {
  return {.kind = kind,
          .partition = partition,
          .offset = offset,
          .time_ms = time_ms,
          .key = std::move(key)};
}

std::vector<LabelJoin::Position> Positions(size_t partitions) {
  return std::vector<LabelJoin::Position>(partitions);
}

class TwoTopics {
 public:
  TwoTopics(size_t rows, size_t labels) : join_(kWindow, Positions(rows), Positions(labels)) {}

  void Row(int32_t partition, int64_t time_ms, const std::string& key) {
    millrace::Row row;
    row.numeric = {static_cast<double>(time_ms)};
    join_.AddRow(At(partition, join_.next_row(partition), time_ms, key), row, kNow);
  }
  void Label(int32_t partition, int64_t time_ms, const std::string& key, uint32_t label = 1) {
    join_.AddLabel(At(partition, join_.next_label(partition), time_ms, key), {.id = label}, kNow);
  }

  // What leaves now: of a row its label, -1 without one; of what is none -2.
  std::vector<int> Rows() {
    std::vector<int> rows;
    while (const auto leaving = join_.TakeRow()) {
      const bool is_row = leaving->record.kind == Kind::kUsable;
      EXPECT_TRUE(!leaving->label || leaving->row.label == leaving->label->id);
      rows.push_back(!is_row ? -2 : leaving->label ? static_cast<int>(leaving->label->id) : -1);
    }
    return rows;
  }
  // Of the labels that leave now, whether they were of no row.
  std::vector<bool> Unused() {
    std::vector<bool> unused;
    while (const auto leaving = join_.TakeLabel(join_.LowTime())) {
      unused.push_back(leaving->is_unused);
    }
    return unused;
  }

  LabelJoin& join() { return join_; }

 private:
  LabelJoin join_;
};

TEST(LabelJoin, ARowLeavesWithTheFirstLabelOfItsKeyInItsWindow) {
  TwoTopics topics(1, 1);
  topics.Label(0, 99'999, "a", 5);
  topics.Label(0, 100'000, "b", 6);
  topics.Row(0, 100'000, "a");
  EXPECT_THAT(topics.Rows(), IsEmpty());
  topics.Label(0, 100'000 + kWindow, "a", 7);
  topics.Label(0, 100'000 + kWindow, "a", 8);
  EXPECT_THAT(topics.Rows(), ElementsAre(7));
}

TEST(LabelJoin, ALabelIsOfAllRowsOfItsKeyAndOfNoneThatIsLaterOrEarlierThanTheWindow) {
  TwoTopics topics(1, 1);
  for (const int64_t time : {99'999, 100'000, 130'000, 160'000, 160'001}) topics.Row(0, time, "a");
  topics.Label(0, 100'000 + kWindow, "a", 3);
  topics.Label(0, 100'000 + kWindow + kLate, "b");
  EXPECT_THAT(topics.Rows(), ElementsAre(-1, 3, 3, 3));
}

TEST(LabelJoin, ARowThatWaitsKeepsThoseBehindItInItsPartitionOnly) {
  TwoTopics topics(2, 1);
  topics.Row(0, 100'000, "a");
  topics.Row(0, 100'001, "b");
  topics.Row(1, 100'001, "b");
  topics.Label(0, 100'002, "b", 2);
  EXPECT_THAT(topics.Rows(), ElementsAre(2));
  topics.Label(0, 100'003, "a", 1);
  EXPECT_THAT(topics.Rows(), ElementsAre(1, 2));
}

TEST(LabelJoin, ARowLeavesWithoutALabelWhenTheTimeOfAllLabelsIsBehindItsWindow) {
  TwoTopics topics(1, 2);
  topics.Row(0, 100'000, "a");
  topics.Label(0, 500'000, "b");
  EXPECT_THAT(topics.Rows(), IsEmpty());
  topics.Label(1, 100'000 + kWindow + kLate, "b");
  EXPECT_THAT(topics.Rows(), IsEmpty());
  topics.Label(1, 100'001 + kWindow + kLate, "b");
  EXPECT_THAT(topics.Rows(), ElementsAre(-1));
}

TEST(LabelJoin, TimePassesWhereAllThatIsThereWasRead) {
  TwoTopics topics(1, 2);
  topics.Row(0, 100'000, "a");
  topics.Label(0, 500'000, "b");
  topics.join().NoteLabelsRead(1, 100'000 + kWindow + kLate);
  EXPECT_THAT(topics.Rows(), IsEmpty());
  topics.join().NoteLabelsRead(1, 100'001 + kWindow + kLate);
  topics.join().NoteLabelsRead(1, 100'000);  // an older answer
  EXPECT_THAT(topics.Rows(), ElementsAre(-1));
}

TEST(LabelJoin, ALabelThatItsPartitionHasLeftBehindDoesNotCount) {
  TwoTopics topics(1, 1);
  topics.Label(0, 100'001 + kWindow + kLate, "b");
  topics.Label(0, 100'010, "a", 7);
  topics.Row(0, 100'000, "a");
  topics.Row(0, 100'001, "a");
  EXPECT_THAT(topics.Rows(), ElementsAre(-1, 7));
}

TEST(LabelJoin, AClockThatIsAheadMakesNoOthersLate) {
  TwoTopics topics(1, 1);
  topics.Row(0, kNow - 10, "a");
  topics.Label(0, kNow + 10 * kWindow, "b");
  EXPECT_THAT(topics.Rows(), IsEmpty());
  topics.Label(0, kNow, "a", 4);
  EXPECT_THAT(topics.Rows(), ElementsAre(4));
}

TEST(LabelJoin, ATimeOfWhatCannotBeUsedMakesNoOthersLate) {
  TwoTopics topics(1, 1);
  LabelJoin& join = topics.join();
  join.AddRow(At(0, join.next_row(0), 50 * kNow, "", Kind::kUnusable), {}, kNow);
  join.AddLabel(At(0, join.next_label(0), 50 * kNow, "", Kind::kUnusable), {}, kNow);
  topics.Row(0, 100'000, "a");
  topics.Label(0, 100'001, "a", 4);
  EXPECT_THAT(topics.Rows(), ElementsAre(-2, 4));
}

TEST(LabelJoin, OfSeveralPartitionsTheEarliestLabelCounts) {
  TwoTopics topics(1, 3);
  topics.Label(0, 100'009, "a", 1);
  topics.Label(0, 100'002, "a", 2);  // not the first one there
  topics.Label(1, 100'005, "a", 3);
  topics.Label(2, 100'005, "a", 4);
  topics.Row(0, 100'000, "a");
  EXPECT_THAT(topics.Rows(), ElementsAre(3));
}

TEST(LabelJoin, LabelsLeaveWhenRowsAreBehindThemAndAreCountedIfTheyWereOfNone) {
  TwoTopics topics(2, 1);
  topics.Label(0, 100'000, "a");
  topics.Label(0, 100'001, "b");
  topics.Row(0, 100'000, "a");
  topics.Row(0, 100'001 + kWindow + kLate, "c");
  topics.join().NoteLabelsRead(0, kNow);
  EXPECT_THAT(topics.Rows(), ElementsAre(1, -1));
  EXPECT_THAT(topics.Unused(), IsEmpty());  // nothing is known of the other partition
  topics.join().NoteRowsRead(1, kNow);
  EXPECT_THAT(topics.Unused(), ElementsAre(false));
  topics.Row(0, 100'002 + kWindow + kLate, "c");
  EXPECT_THAT(topics.Unused(), IsEmpty());  // it still waits
  EXPECT_THAT(topics.Rows(), ElementsAre(-1));
  EXPECT_THAT(topics.Unused(), ElementsAre(true));
}

TEST(LabelJoin, ARowThatWaitsKeepsTheLabelsOfThoseBehindIt) {
  TwoTopics topics(1, 1);
  topics.Row(0, 500'000, "a");
  topics.Label(0, 500'000 - kWindow - kLate - 1, "x");
  topics.Label(0, 500'000 - kWindow - kLate, "b", 3);
  EXPECT_THAT(topics.Unused(), ElementsAre(true));
  topics.Row(0, 500'000 - kWindow - kLate, "b");
  topics.Row(0, 900'000, "x");
  topics.Row(0, 500'000 - kWindow - kLate, "b");  // too late behind that one
  topics.Label(0, 500'001, "a", 2);
  topics.join().NoteLabelsRead(0, kNow);
  EXPECT_THAT(topics.Rows(), ElementsAre(2, 3, -1, -1));
}

TEST(LabelJoin, WhatIsNoRowLeavesInItsTurn) {
  TwoTopics topics(1, 1);
  LabelJoin& join = topics.join();
  topics.Row(0, 100'000, "a");
  HeldRecord unusable = At(0, 1, 100'001, "key", Kind::kUnusable);
  unusable.failed = std::make_unique<HeldRecord::Failed>(
      HeldRecord::Failed{.value = "value", .why = absl::InvalidArgumentError("why")});
  join.AddRow(std::move(unusable), {}, kNow);
  join.AddRow(At(0, 2, 100'002, "", Kind::kTombstone), {}, kNow);
  join.PassRows(Kind::kSkipped, 0, 9);
  join.PassRows(Kind::kSkipped, 0, 9);
  join.PassRows(Kind::kLost, 0, 12);
  EXPECT_EQ(join.next_row(0), 12);
  EXPECT_EQ(join.RowPositions()[0].next, 0);
  EXPECT_THAT(topics.Rows(), IsEmpty());
  topics.Label(0, 100'000, "a", 2);
  const auto row = join.TakeRow();
  EXPECT_EQ(row->row.label, 2u);
  const auto letter = join.TakeRow();
  EXPECT_EQ(letter->record.failed->value, "value");
  EXPECT_EQ(letter->record.key, "key");
  EXPECT_EQ(join.RowPositions()[0].next, 2);
  EXPECT_EQ(join.TakeRow()->record.kind, Kind::kTombstone);
  EXPECT_EQ(join.TakeRow()->record.next, 9);
  const auto lost = join.TakeRow();
  EXPECT_EQ(lost->record.offset, 9);
  EXPECT_EQ(lost->record.next, 12);
  EXPECT_FALSE(join.TakeRow());
  EXPECT_EQ(join.RowPositions()[0].next, 12);
}

TEST(LabelJoin, WhatIsNoLabelLeavesInItsTurn) {
  TwoTopics topics(1, 1);
  LabelJoin& join = topics.join();
  topics.Label(0, 100'000, "a");
  join.AddLabel(At(0, 1, 100'000, "", Kind::kTombstone), {}, kNow);
  join.PassLabels(Kind::kLost, 0, 7);
  EXPECT_EQ(join.next_label(0), 7);
  EXPECT_FALSE(join.TakeLabel(join.LowTime()));
  EXPECT_EQ(join.LabelPositions()[0].next, 0);
  EXPECT_EQ(join.LabelPositions()[0].read, 7);
  join.NoteRowsRead(0, LabelJoin::kAlways);
  EXPECT_THAT(topics.Unused(), ElementsAre(true, false, false));
  EXPECT_EQ(join.LabelPositions()[0].next, 7);
  EXPECT_EQ(join.bytes(), 0u);
}

TEST(LabelJoin, LabelsThatWereReadBeforeARestartAreNotCountedAsUnused) {
  const std::vector<LabelJoin::Position> labels = {{.next = 3, .newest_ms = 99'000, .read = 5}};
  LabelJoin join(kWindow, Positions(1), labels);
  for (const Offset offset : {Offset(3), Offset(4), Offset(5)}) {
    join.AddLabel(At(0, offset, 100'000, "a"), {}, kNow);
  }
  join.NoteRowsRead(0, LabelJoin::kAlways);
  EXPECT_FALSE(join.TakeLabel(join.LowTime())->is_unused);
  EXPECT_FALSE(join.TakeLabel(join.LowTime())->is_unused);
  EXPECT_TRUE(join.TakeLabel(join.LowTime())->is_unused);
}

TEST(LabelJoin, PartitionsThatAreAddedKeepLabelsUntilTheyAreKnown) {
  TwoTopics topics(1, 1);
  topics.Label(0, 100'000, "a", 2);
  topics.join().NoteRowsRead(3, LabelJoin::kNoTime);
  topics.join().NoteRowsRead(0, kNow);
  EXPECT_THAT(topics.Unused(), IsEmpty());
  topics.Row(3, 100'000, "a");
  EXPECT_THAT(topics.Rows(), ElementsAre(2));
}

// ---- random topics, against a join that is made by definition ----

struct LoggedRecord {
  Offset offset = 0;
  int64_t time_ms = 0;
  std::string key{};
  Kind kind = Kind::kUsable;
  uint32_t label = 0;
};
using Log = std::vector<LoggedRecord>;

struct Decision {
  Offset offset = 0;
  std::optional<uint32_t> label{};
  bool operator==(const Decision&) const = default;
};

// Looks at the whole of both topics.
std::optional<uint32_t> LabelOf(const Log& rows, size_t row, const std::vector<Log>& labels) {
  int64_t first = rows[row].time_ms;
  for (size_t i = 0; i < row; ++i) {
    first = std::max(first, rows[i].time_ms - kWindow - kLate);
  }
  const int64_t last = rows[row].time_ms + kWindow;
  std::optional<LoggedRecord> best;
  for (const Log& log : labels) {
    int64_t newest = LabelJoin::kNoTime;
    for (const LoggedRecord& label : log) {
      const bool is_late = newest - kLate > last;
      newest = std::max(newest, label.time_ms);
      if (is_late || label.kind != Kind::kUsable || label.key != rows[row].key) continue;
      if (label.time_ms < first || label.time_ms > last) continue;
      if (!best || label.time_ms < best->time_ms) best = label;
      break;
    }
  }
  if (!best) return std::nullopt;
  return best->label;
}

class RandomTopics {
 public:
  explicit RandomTopics(uint32_t seed) : random_(seed) {
    const size_t keys = 1 + Draw(40);
    rows_.resize(1 + Draw(3));
    labels_.resize(1 + Draw(3));
    // Times run on, at a pace of each partition; some are far behind.
    for (Log& log : rows_) FillLog(log, keys, nullptr);
    for (Log& log : labels_) FillLog(log, keys, &log);
    written_.resize(rows_.size());
    row_positions_ = Positions(rows_.size());
    label_positions_ = Positions(labels_.size());
  }

  // Reads in any order, is killed at any time, and continues behind what was committed.
  void Run() {
    while (!RunUntilKilled()) {
    }
    for (size_t p = 0; p < rows_.size(); ++p) {
      std::vector<Decision> expected;
      for (size_t i = 0; i < rows_[p].size(); ++i) {
        if (rows_[p][i].kind != Kind::kUsable) continue;
        expected.push_back({rows_[p][i].offset, LabelOf(rows_[p], i, labels_)});
        found_ += expected.back().label ? 1 : 0;
        missed_ += expected.back().label ? 0 : 1;
      }
      ASSERT_EQ(written_[p], expected) << "partition " << p;
    }
  }

  size_t found() const { return found_; }
  size_t missed() const { return missed_; }
  size_t kills() const { return kills_; }

 private:
  size_t Draw(size_t below) { return std::uniform_int_distribution<size_t>(0, below - 1)(random_); }

  void FillLog(Log& log, size_t keys, const Log* of_labels) {
    const size_t pace = 100 + Draw(8000);
    int64_t time = 100'000'000 + static_cast<int64_t>(Draw(100'000));
    Offset offset = 0;
    for (size_t i = Draw(60); i > 0; --i) {
      time += static_cast<int64_t>(Draw(pace));
      const size_t behind = Draw(10) == 0 ? Draw(200'000) : Draw(3000);
      // A key's labels are in one partition: which of several counts is decided when it is read.
      std::string key = std::to_string(Draw(keys));
      if (of_labels != nullptr) {
        key = std::to_string(Draw(keys) * labels_.size() +
                             static_cast<size_t>(of_labels - labels_.data()));
      }
      const Kind kind = Draw(12) == 0 ? Kind::kTombstone : Kind::kUsable;
      log.push_back({offset, time - static_cast<int64_t>(behind), std::move(key), kind,
                     static_cast<uint32_t>(Draw(1000))});
      offset += static_cast<int64_t>(1 + Draw(3));
    }
  }

  void ReadOne(LabelJoin& join, bool is_row, size_t p) {
    const Log& log = (is_row ? rows_ : labels_)[p];
    const auto partition = static_cast<int32_t>(p);
    const Offset from = is_row ? join.next_row(partition) : join.next_label(partition);
    const auto next = std::ranges::find_if(
        log, [&](const LoggedRecord& record) { return record.offset >= from; });
    if (next == log.end()) {
      is_row ? join.NoteRowsRead(partition, LabelJoin::kAlways)
             : join.NoteLabelsRead(partition, LabelJoin::kAlways);
      return;
    }
    HeldRecord record = At(partition, next->offset, next->time_ms, next->key, next->kind);
    if (is_row) {
      join.AddRow(std::move(record), {}, kNow);
    } else {
      join.AddLabel(std::move(record), {.id = next->label}, kNow);
    }
  }

  void TakeSome(LabelJoin& join, std::vector<std::vector<Decision>>& taken) {
    while (Draw(8) > 0) {
      const auto leaving = join.TakeRow();
      if (!leaving) break;
      if (leaving->record.kind != Kind::kUsable) continue;
      std::optional<uint32_t> label;
      if (leaving->label) label = leaving->label->id;
      taken[static_cast<size_t>(leaving->record.partition)].push_back(
          {leaving->record.offset, label});
    }
    while (Draw(8) > 0 && join.TakeLabel(join.LowTime())) {
    }
  }

  bool RunUntilKilled() {
    LabelJoin join(kWindow, row_positions_, label_positions_);
    std::vector<std::vector<Decision>> taken(rows_.size());
    const size_t favourite = Draw(rows_.size() + labels_.size());
    for (size_t steps = 0;; ++steps) {
      const size_t any = Draw(rows_.size() + labels_.size());
      const size_t which = Draw(2) == 0 ? favourite : any;
      const bool is_row = which < rows_.size();
      ReadOne(join, is_row, is_row ? which : which - rows_.size());
      TakeSome(join, taken);
      if (Draw(10) == 0) {
        for (size_t p = 0; p < taken.size(); ++p) {
          written_[p].insert(written_[p].end(), taken[p].begin(), taken[p].end());
          taken[p].clear();
        }
        row_positions_ = join.RowPositions();
        label_positions_ = join.LabelPositions();
        if (steps > 400 && IsAtEnd(join)) return true;
      }
      if (kills_ < 20 && Draw(80) == 0) {
        ++kills_;
        return false;
      }
    }
  }

  bool IsAtEnd(const LabelJoin& join) const {
    for (size_t p = 0; p < rows_.size(); ++p) {
      if (join.TimeOfRows(static_cast<int32_t>(p)) != LabelJoin::kAlways) return false;
    }
    if (join.rows() + join.labels() > 0) return false;
    EXPECT_EQ(join.bytes(), 0u);
    return true;
  }

  std::mt19937 random_;
  std::vector<Log> rows_;
  std::vector<Log> labels_;
  std::vector<std::vector<Decision>> written_;
  std::vector<LabelJoin::Position> row_positions_;
  std::vector<LabelJoin::Position> label_positions_;
  size_t found_ = 0;
  size_t missed_ = 0;
  size_t kills_ = 0;
};

TEST(LabelJoin, DecidesByTheTopicsAloneHoweverTheyAreReadAndWheneverItIsKilled) {
  size_t found = 0;
  size_t missed = 0;
  size_t kills = 0;
  for (uint32_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    RandomTopics topics(seed);
    ASSERT_NO_FATAL_FAILURE(topics.Run());
    found += topics.found();
    missed += topics.missed();
    kills += topics.kills();
  }
  // The draws are not all of one kind.
  EXPECT_GT(found, 300u);
  EXPECT_GT(missed, 300u);
  EXPECT_GT(kills, 150u);
}

}  // namespace
}  // namespace millrace
