// The sliding buffer against its rules, which are written here a second time and slowly.
#include "stores/training_buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "base/big_endian.h"
#include "stores/memory_byte_map.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Row {
  RowNumber number = 0;
  int64_t timestamp_ms = 0;
  std::string value;
  bool operator==(const Row&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Row& row) {
  return out << row.number << "@" << row.timestamp_ms;
}

// The rules of the issue, word by word: no code, no data structure and no shortcut in common with
// TrainingBuffer.
class ReferenceBuffer {
 public:
  explicit ReferenceBuffer(const TrainingBufferOptions& options) : options_(options) {}

  size_t Target() const {
    const size_t count = timestamps_.size();
    const size_t gaps = std::min<size_t>(500, count == 0 ? 0 : count - 1);
    if (gaps == 0) return options_.min_rows;
    double sum = 0;
    for (size_t i = count - gaps; i < count; ++i) {
      sum += static_cast<double>(std::max<int64_t>(0, timestamps_[i] - timestamps_[i - 1]));
    }
    if (sum == 0) return options_.coefficient > 0 ? options_.max_rows : options_.min_rows;
    const double rows_per_minute = 60'000.0 * static_cast<double>(gaps) / sum;
    const double wanted = std::floor(options_.coefficient * rows_per_minute);
    return static_cast<size_t>(std::clamp(wanted, static_cast<double>(options_.min_rows),
                                          static_cast<double>(options_.max_rows)));
  }

  void Add(const Row& row) {
    timestamps_.push_back(row.timestamp_ms);
    const size_t target = Target();
    if (rows_.size() < target) {  // I
      rows_.push_back(row);
    } else if (rows_.size() == target) {  // II
      rows_.erase(rows_.begin());
      rows_.push_back(row);
    } else {  // III
      while (rows_.size() > target) rows_.erase(rows_.begin());
      rows_.erase(rows_.begin());
      rows_.push_back(row);
    }
  }

  const std::vector<Row>& rows() const { return rows_; }

 private:
  TrainingBufferOptions options_;
  std::vector<int64_t> timestamps_;
  std::vector<Row> rows_;
};

std::vector<Row> RowsOf(const TrainingBuffer& buffer) {
  std::vector<Row> rows;
  buffer.ForEach([&](const TrainingBuffer::Slot& slot) {
    rows.push_back({slot.row, slot.timestamp_ms, slot.value});
  });
  return rows;
}

void Add(TrainingBuffer& buffer, const Row& row) {
  buffer.Add(row.number, row.timestamp_ms, row.value);
}

void Save(TrainingBuffer& buffer, OrderedByteMap& map) {
  WriteBatch batch;
  buffer.WriteTo(batch);
  ASSERT_TRUE(map.Write(batch).ok());
}

std::map<std::string, std::string> ContentOf(const OrderedByteMap& map) {
  std::map<std::string, std::string> content;
  EXPECT_TRUE(map.Scan("", "",
                       [&](std::string_view key, std::string_view value) {
                         content.emplace(key, value);
                         return true;
                       })
                  .ok());
  return content;
}

// Rates that change, bursts, nights, and clocks that go back.
class RandomArrivals {
 public:
  explicit RandomArrivals(uint64_t seed) : random_(seed) {}

  Row Next() {
    if (random_() % 200 == 0) mean_gap_ms_ = kMeans[random_() % std::size(kMeans)];
    if (random_() % 1500 == 0) now_ms_ += static_cast<int64_t>(random_() % 3'600'000);
    if (random_() % 300 == 0) now_ms_ -= static_cast<int64_t>(random_() % 10'000);
    if (mean_gap_ms_ > 0) {
      now_ms_ += std::lround(std::exponential_distribution<double>(1.0 / mean_gap_ms_)(random_));
    }
    number_ += random_() % 100 == 0 ? 3 : 1;
    return {number_, now_ms_, std::string(random_() % 40, 'x') + std::to_string(number_)};
  }

 private:
  static constexpr double kMeans[] = {0, 1, 5, 20, 50, 100, 200, 400, 5000};
  std::mt19937_64 random_;
  double mean_gap_ms_ = 50;
  int64_t now_ms_ = 1'700'000'000'000;
  RowNumber number_ = 0;
};

// Different ones for different seeds, the defaults among them.
TrainingBufferOptions OptionsFor(uint64_t seed) {
  constexpr TrainingBufferOptions kOptions[] = {{},        {1, 40, 0.05}, {10, 10, 0.3},
                                                {1, 1, 1}, {3, 700, 0.3}, {5, 90, 0}};
  return kOptions[seed % std::size(kOptions)];
}

TEST(TrainingBufferTest, HoldsWhatTheRulesSayWhateverTheArrivals) {
  for (uint64_t seed = 0; seed < 24; ++seed) {
    RandomArrivals arrivals(seed);
    TrainingBuffer buffer(OptionsFor(seed), "b");
    ReferenceBuffer reference(OptionsFor(seed));
    std::set<size_t> sizes;
    for (int i = 0; i < 2500; ++i) {
      const Row row = arrivals.Next();
      Add(buffer, row);
      reference.Add(row);
      ASSERT_EQ(buffer.target(), reference.Target()) << "seed " << seed << " row " << i;
      ASSERT_EQ(buffer.size(), reference.rows().size()) << "seed " << seed << " row " << i;
      ASSERT_EQ(buffer.oldest().row, reference.rows().front().number);
      ASSERT_EQ(buffer.newest().row, reference.rows().back().number);
      sizes.insert(buffer.size());
      if (i % 100 == 0 || i > 2400) {
        ASSERT_EQ(RowsOf(buffer), reference.rows()) << "seed " << seed << " row " << i;
      }
    }
    if (seed % 6 == 0) {
      ASSERT_GT(sizes.size(), 100u) << "arrivals too dull to show anything";
    }
  }
}

TEST(TrainingBufferTest, EachRuleChangesTheKeysThatItNames) {
  int times[4] = {};
  for (uint64_t seed = 0; seed < 30; ++seed) {
    RandomArrivals arrivals(seed);
    TrainingBuffer buffer(OptionsFor(seed), "prefix/");
    MemoryByteMap map;
    std::map<RowNumber, std::string> key_of;  // by row, what the map holds
    for (int i = 0; i < 1500; ++i) {
      const size_t size_before = buffer.size();
      const RowNumber oldest_before = size_before == 0 ? RowNumber(0) : buffer.oldest().row;
      const Row row = arrivals.Next();
      Add(buffer, row);
      WriteBatch batch;
      buffer.WriteTo(batch);
      ASSERT_TRUE(map.Write(batch).ok());

      std::vector<std::string> written;
      std::set<std::string> deleted;
      for (const WriteBatch::Change& change : batch.changes()) {
        ASSERT_EQ(change.key.size(), std::string_view("prefix/").size() + 4);
        ASSERT_TRUE(change.key.starts_with("prefix/"));
        if (change.key.ends_with("\xff\xff\xff\xff")) continue;  // the state of the rate
        ASSERT_LT(DecodeBigEndian32(change.key.substr(7)).value(), OptionsFor(seed).max_rows);
        if (change.value) {
          written.push_back(change.key);
        } else {
          deleted.insert(change.key);
        }
      }
      ASSERT_EQ(written.size(), 1u);
      const std::string& key = written.front();
      const bool was_used = std::any_of(key_of.begin(), key_of.end(),
                                        [&](const auto& entry) { return entry.second == key; });
      if (size_before < buffer.target()) {
        ++times[1];
        EXPECT_FALSE(was_used) << "rule I fills an empty key";
        EXPECT_THAT(deleted, IsEmpty());
      } else if (size_before == buffer.target()) {
        ++times[2];
        EXPECT_EQ(key, key_of[oldest_before]) << "rule II replaces the oldest";
        EXPECT_THAT(deleted, IsEmpty());
      } else {
        ++times[3];
        std::set<std::string> oldest;
        auto entry = key_of.begin();
        for (size_t n = size_before; n > buffer.target(); --n) oldest.insert((entry++)->second);
        EXPECT_EQ(deleted, oldest) << "rule III deletes the oldest down to the target";
        EXPECT_EQ(key, entry->second) << "rule III then replaces the oldest";
      }
      std::erase_if(key_of, [&](const auto& entry) {
        return entry.second == key || deleted.contains(entry.second);
      });
      key_of[row.number] = key;
      ASSERT_EQ(key_of.size(), buffer.size());
      if (i % 50 == 0) {
        ASSERT_EQ(ContentOf(map).size(), buffer.size() + 1);
      }
    }
  }
  for (int rule = 1; rule <= 3; ++rule) EXPECT_GT(times[rule], 200) << "rule " << rule;
}

TEST(TrainingBufferTest, OneRowThatComesAnHourLateShrinksTheBufferToItsMinimum) {
  TrainingBuffer buffer({}, "b");
  for (RowNumber i = 0; i < 3000; ++i) buffer.Add(i, static_cast<int64_t>(i) * 10, "v");
  EXPECT_EQ(buffer.size(), 1024u);
  buffer.Add(3000, 30'000 + 3'600'000, "late");
  EXPECT_EQ(buffer.size(), 128u);
  EXPECT_EQ(buffer.newest().value, "late");
  EXPECT_EQ(buffer.oldest().row, 3000u - 127);
}

TEST(TrainingBufferTest, WithoutARateTheTargetIsTheMinimumAndWithoutGapsTheMaximum) {
  TrainingBuffer buffer({.min_rows = 2, .max_rows = 5, .coefficient = 0.3}, "b");
  EXPECT_EQ(buffer.target(), 2u);
  buffer.Add(0, 7, "v");
  EXPECT_EQ(buffer.target(), 2u);
  buffer.Add(1, 7, "v");
  EXPECT_EQ(buffer.target(), 5u);
}

// The read-back bound of the header: max_rows + kWindow rows always give the same buffer, now and
// in all that follows.
TEST(TrainingBufferTest, ItsStateIsAFunctionOfTheLastMaxRowsPlus500Rows) {
  for (uint64_t seed = 0; seed < 120; ++seed) {
    const TrainingBufferOptions options = OptionsFor(seed);
    RandomArrivals arrivals(seed);
    std::mt19937_64 random(seed);
    std::vector<Row> rows;
    for (uint64_t i = 1600 + random() % 2400; i > 0; --i) rows.push_back(arrivals.Next());
    TrainingBuffer live(options, "b");
    for (const Row& row : rows) Add(live, row);
    const size_t read_back = std::min(rows.size(), options.max_rows + ArrivalRate::kWindow);
    TrainingBuffer rebuilt(options, "b");
    for (size_t i = rows.size() - read_back; i < rows.size(); ++i) Add(rebuilt, rows[i]);
    ASSERT_EQ(RowsOf(rebuilt), RowsOf(live)) << "seed " << seed;
    for (int i = 0; i < 700; ++i) {
      const Row row = arrivals.Next();
      Add(live, row);
      Add(rebuilt, row);
      ASSERT_EQ(rebuilt.target(), live.target()) << "seed " << seed;
      ASSERT_EQ(rebuilt.size(), live.size()) << "seed " << seed;
    }
    ASSERT_EQ(RowsOf(rebuilt), RowsOf(live)) << "seed " << seed;
  }
}

// The worst case of the same bound: max - min + kWindow rows are enough, one fewer is not.
TEST(TrainingBufferTest, TheLastMaxMinusMinPlus500RowsAreEnoughAndOneFewerIsNot) {
  for (const TrainingBufferOptions& options :
       {TrainingBufferOptions{1, 1024, 0.3}, {128, 1024, 0.3}, {1, 40, 0.3}}) {
    const size_t enough = options.max_rows - options.min_rows + ArrivalRate::kWindow;
    // The gap before the second row of the last `enough` holds the target at its minimum until it
    // is the last of the window; from the next row on the target is the maximum.
    std::vector<Row> rows;
    for (RowNumber i = 0; i < 3000; ++i) {
      const bool is_after_gap = i >= 3000 - enough + 1;
      rows.push_back({i, is_after_gap ? 1'000'000'000 : 0, "v"});
    }
    const auto size_after_last = [&](size_t count) {
      TrainingBuffer buffer(options, "b");
      for (size_t i = rows.size() - count; i < rows.size(); ++i) Add(buffer, rows[i]);
      return buffer.size();
    };
    EXPECT_EQ(size_after_last(rows.size()), options.max_rows - 1);
    EXPECT_EQ(size_after_last(enough), options.max_rows - 1);
    EXPECT_EQ(size_after_last(enough - 1), options.max_rows);
  }
}

TEST(TrainingBufferTest, ARestoredBufferIsTheLiveOneNowAndInAllThatFollows) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const TrainingBufferOptions options = OptionsFor(seed);
    RandomArrivals arrivals(seed);
    std::mt19937_64 random(seed);
    MemoryByteMap map;
    TrainingBuffer live(options, "b");
    for (int life = 0; life < 4; ++life) {
      for (uint64_t i = random() % 1200; i > 0; --i) {
        Add(live, arrivals.Next());
        if (random() % 50 == 0) Save(live, map);
      }
      Save(live, map);
      TrainingBuffer restored(options, "b");
      ASSERT_TRUE(restored.Restore(map).ok()) << restored.Restore(map);
      ASSERT_EQ(RowsOf(restored), RowsOf(live)) << "seed " << seed;
      ASSERT_EQ(restored.target(), live.target());
      const std::unique_ptr<MemoryByteMap> clone = map.Clone();
      for (uint64_t i = 0; i < 100 + seed * 10; ++i) {
        const Row row = arrivals.Next();
        Add(live, row);
        Add(restored, row);
        ASSERT_EQ(restored.size(), live.size());
      }
      ASSERT_EQ(RowsOf(restored), RowsOf(live)) << "seed " << seed;
      Save(restored, *clone);
      TrainingBuffer again(options, "b");
      ASSERT_TRUE(again.Restore(*clone).ok()) << again.Restore(*clone);
      ASSERT_EQ(RowsOf(again), RowsOf(live)) << "seed " << seed;
    }
  }
}

TEST(TrainingBufferTest, ARowThatIsOverwrittenBeforeTheNextWriteIsNotWritten) {
  TrainingBuffer buffer({.min_rows = 4, .max_rows = 4, .coefficient = 0.3}, "b");
  for (RowNumber i = 0; i < 1000; ++i) buffer.Add(i, static_cast<int64_t>(i), "v");
  WriteBatch batch;
  buffer.WriteTo(batch);
  EXPECT_EQ(batch.changes().size(), 5u) << "four rows and the state of the rate";
  batch.Clear();
  buffer.WriteTo(batch);
  EXPECT_TRUE(batch.empty()) << "nothing has changed since";
}

TEST(TrainingBufferTest, WhatWasThereBeforeAClearIsDeletedByTheNextWriteOnly) {
  constexpr TrainingBufferOptions kFour = {.min_rows = 4, .max_rows = 4, .coefficient = 0};
  MemoryByteMap map;
  TrainingBuffer before(kFour, "b");
  for (RowNumber i = 0; i < 4; ++i) Add(before, {i, 0, "before"});
  Save(before, map);

  TrainingBuffer buffer(kFour, "b");
  ASSERT_TRUE(buffer.Clear(map).ok());
  Add(buffer, {10, 1, "ten"});
  Save(buffer, map);
  // The second write must not delete what the first one has put in place of the old rows.
  Add(buffer, {11, 2, "eleven"});
  Save(buffer, map);
  TrainingBuffer restored(kFour, "b");
  ASSERT_TRUE(restored.Restore(map).ok()) << restored.Restore(map);
  EXPECT_THAT(RowsOf(restored), ElementsAre(Row{10, 1, "ten"}, Row{11, 2, "eleven"}));
}

TEST(TrainingBufferTest, ASmallerTargetIsWrittenThoughNoRowHasCome) {
  MemoryByteMap map;
  TrainingBuffer large({.min_rows = 6, .max_rows = 6, .coefficient = 0}, "b");
  for (RowNumber i = 0; i < 6; ++i) Add(large, {i, 0, "v"});
  Save(large, map);

  constexpr TrainingBufferOptions kTwo = {.min_rows = 2, .max_rows = 2, .coefficient = 0};
  TrainingBuffer small(kTwo, "b");
  ASSERT_TRUE(small.Restore(map).ok());
  Save(small, map);
  TrainingBuffer restored(kTwo, "b");
  ASSERT_TRUE(restored.Restore(map).ok()) << restored.Restore(map);
  EXPECT_THAT(RowsOf(restored), ElementsAre(Row{4, 0, "v"}, Row{5, 0, "v"}));
}

TEST(TrainingBufferTest, AnEmptyStoreGivesAnEmptyBuffer) {
  MemoryByteMap map;
  TrainingBuffer buffer({}, "b");
  buffer.Add(0, 0, "v");
  ASSERT_TRUE(buffer.Restore(map).ok());
  EXPECT_EQ(buffer.size(), 0u);
  EXPECT_EQ(buffer.target(), 128u);
  buffer.Add(0, 0, "v");
  EXPECT_EQ(buffer.size(), 1u);
}

TEST(TrainingBufferTest, BuffersAndOtherKeysLiveSideBySide) {
  MemoryByteMap map;
  TrainingBuffer first({}, "buffer\xff");
  TrainingBuffer second({}, "c");
  first.Add(1, 0, "one");
  second.Add(2, 0, "two");
  Save(first, map);
  Save(second, map);
  WriteBatch position;
  position.Put("buffe", "1");
  position.Put("buffes", "1");
  ASSERT_TRUE(map.Write(position).ok());
  ASSERT_TRUE(first.Restore(map).ok());
  ASSERT_TRUE(second.Restore(map).ok());
  EXPECT_THAT(RowsOf(first), ElementsAre(Row{1, 0, "one"}));
  EXPECT_THAT(RowsOf(second), ElementsAre(Row{2, 0, "two"}));
}

class DamagedBufferTest : public ::testing::Test {
 protected:
  DamagedBufferTest() {
    TrainingBuffer buffer(kOptions, "b");
    for (RowNumber i = 0; i < 6; ++i) {
      buffer.Add(i, static_cast<int64_t>(i) * 10, "v" + std::to_string(i));
    }
    Save(buffer, map_);
  }

  static std::string Key(uint32_t slot) { return "b" + EncodeBigEndian32(slot); }
  static std::string StateKey() { return Key(0xffffffff); }
  std::string Value(const std::string& key) { return **map_.Get(key); }
  void Put(const std::string& key, const std::string& value) {
    WriteBatch batch;
    batch.Put(key, value);
    ASSERT_TRUE(map_.Write(batch).ok());
  }
  void Delete(const std::string& key) {
    WriteBatch batch;
    batch.Delete(key);
    ASSERT_TRUE(map_.Write(batch).ok());
  }
  // Restoring fails, names the key and says what is wrong, and leaves the buffer as it was.
  void ExpectDamage(const std::string& named_key, const std::string& what = "") {
    TrainingBuffer buffer(kOptions, "b");
    buffer.Add(77, 7, "mine");
    const Status status = buffer.Restore(map_);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("'" + named_key + "'"), HasSubstr(what), HasSubstr("input-data")));
    EXPECT_THAT(RowsOf(buffer), ElementsAre(Row{77, 7, "mine"}));
  }

  static constexpr TrainingBufferOptions kOptions = {4, 8, 1000};
  MemoryByteMap map_;
};

constexpr char kSlotZero[] = R"(b\x00\x00\x00\x00)";
constexpr char kSlotThree[] = R"(b\x00\x00\x00\x03)";
constexpr char kState[] = R"(b\xff\xff\xff\xff)";

TEST_F(DamagedBufferTest, IsFineUndamaged) {
  TrainingBuffer buffer(kOptions, "b");
  ASSERT_TRUE(buffer.Restore(map_).ok());
  EXPECT_EQ(buffer.size(), 6u);
}
TEST_F(DamagedBufferTest, ARowCutShortIsDataLoss) {
  Put(Key(3), Value(Key(3)).substr(0, 16));
  ExpectDamage(kSlotThree);
}
TEST_F(DamagedBufferTest, AnEmptyEntryIsDataLoss) {
  Put(Key(3), "");
  ExpectDamage(kSlotThree);
}
TEST_F(DamagedBufferTest, ARowOfAnUnknownFormatIsDataLoss) {
  Put(Key(3), '\2' + Value(Key(3)).substr(1));
  ExpectDamage(kSlotThree);
}
TEST_F(DamagedBufferTest, AMissingRowIsDataLoss) {
  Delete(Key(3));
  ExpectDamage(kState);
}
TEST_F(DamagedBufferTest, ARowTooManyIsDataLoss) {
  Put(Key(7), Value(Key(3)));
  ExpectDamage(kState);
}
TEST_F(DamagedBufferTest, ARowThatIsThereTwiceIsDataLoss) {
  Put(Key(3), Value(Key(0)));
  TrainingBuffer buffer(kOptions, "b");
  const Status status = buffer.Restore(map_);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("is in it twice"),
                    ::testing::AnyOf(HasSubstr(kSlotZero), HasSubstr(kSlotThree))));
}
TEST_F(DamagedBufferTest, ASlotThatTheBufferDoesNotHaveIsDataLoss) {
  Put(Key(8), Value(Key(3)));
  Delete(Key(3));
  ExpectDamage(R"(b\x00\x00\x00\x08)");
}
TEST_F(DamagedBufferTest, AKeyThatIsNoSlotsIsDataLoss) {
  Put("bx", "1");
  ExpectDamage("bx");
}
TEST_F(DamagedBufferTest, AMissingStateIsDataLoss) {
  Delete(StateKey());
  ExpectDamage(kState, "its state is missing");
}
TEST_F(DamagedBufferTest, AStateCutShortIsDataLoss) {
  const std::string whole = Value(StateKey());
  for (const size_t size : {size_t{0}, size_t{1}, size_t{8}, size_t{12}}) {
    Put(StateKey(), whole.substr(0, size));
    ExpectDamage(kState, "not the state of a buffer");
  }
}
TEST_F(DamagedBufferTest, AStateOfABufferBeyondAllBoundsIsDataLoss) {
  Put(StateKey(), Value(StateKey()).replace(1, 4, "\x7f\xff\xff\xff"));
  ExpectDamage(kState);
}
TEST_F(DamagedBufferTest, AStateOlderThanTheRowsIsDataLoss) {
  TrainingBuffer buffer(kOptions, "b");
  ASSERT_TRUE(buffer.Restore(map_).ok());
  std::string old_state;
  // Full both times, so that only the time of the newest row tells.
  for (RowNumber i = 6; i < 12; ++i) {
    buffer.Add(i, static_cast<int64_t>(i) * 10, "v");
    if (buffer.size() == kOptions.max_rows && old_state.empty()) {
      Save(buffer, map_);
      old_state = Value(StateKey());
    }
  }
  Save(buffer, map_);
  ASSERT_FALSE(old_state.empty());
  Put(StateKey(), old_state);
  TrainingBuffer restored(kOptions, "b");
  const Status status = restored.Restore(map_);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the newest row"));
}
TEST_F(DamagedBufferTest, ClearedItStartsAgainAndLeavesNothingBehind) {
  Put("bx", "1");
  TrainingBuffer buffer(kOptions, "b");
  ASSERT_FALSE(buffer.Restore(map_).ok());
  ASSERT_TRUE(buffer.Clear(map_).ok());
  EXPECT_EQ(buffer.size(), 0u);
  buffer.Add(3, 5, "new");
  Save(buffer, map_);
  EXPECT_EQ(ContentOf(map_).size(), 2u) << "the row and the state";
  TrainingBuffer restored(kOptions, "b");
  ASSERT_TRUE(restored.Restore(map_).ok());
  EXPECT_THAT(RowsOf(restored), ElementsAre(Row{3, 5, "new"}));
}

TEST(TrainingBufferTest, ASmallerMaximumAfterARestartKeepsTheNewestRows) {
  MemoryByteMap map;
  TrainingBuffer large({.min_rows = 1, .max_rows = 100, .coefficient = 1}, "b");
  for (RowNumber i = 0; i < 250; ++i) large.Add(i, 0, "v" + std::to_string(i));
  Save(large, map);
  const TrainingBufferOptions smaller = {.min_rows = 1, .max_rows = 10, .coefficient = 1};
  TrainingBuffer small(smaller, "b");
  ASSERT_TRUE(small.Restore(map).ok()) << small.Restore(map);
  EXPECT_EQ(small.size(), 10u);
  EXPECT_EQ(small.oldest().row, 240u);
  small.Add(250, 0, "v");
  Save(small, map);
  EXPECT_EQ(ContentOf(map).size(), 11u);
  TrainingBuffer restored(smaller, "b");
  ASSERT_TRUE(restored.Restore(map).ok()) << restored.Restore(map);
  EXPECT_EQ(RowsOf(restored), RowsOf(small));
}

TEST(TrainingBufferTest, AddsWithoutNewMemoryOnceItIsFull) {
  TrainingBuffer buffer({.min_rows = 50, .max_rows = 50, .coefficient = 0.3}, "b");
  const auto memory = [&] {
    std::set<const char*> places;
    buffer.ForEach([&](const auto& slot) { places.insert(slot.value.data()); });
    return places;
  };
  RowNumber row = 0;
  for (; row < 50; ++row) buffer.Add(row, 0, std::string(500, 'a'));
  const std::set<const char*> before = memory();
  for (; row < 5000; ++row) buffer.Add(row, 0, std::string(400 + row % 100, 'b'));
  EXPECT_EQ(memory(), before);
}

TEST(TrainingBufferTest, OneHugeRowDoesNotKeepItsMemory) {
  TrainingBuffer buffer({.min_rows = 2, .max_rows = 50, .coefficient = 1}, "b");
  const auto held_bytes = [&] {
    size_t sum = 0;
    buffer.ForEach([&](const auto& slot) { sum += slot.value.capacity(); });
    return sum;
  };
  RowNumber row = 0;
  for (; row < 50; ++row) buffer.Add(row, 0, std::string(1 << 20, 'a'));
  EXPECT_GE(held_bytes(), size_t{49} << 20);
  // All but two are deleted, and their slots used again.
  buffer.Add(row++, 100'000'000, "small");
  EXPECT_EQ(buffer.size(), 2u);
  for (; row < 700; ++row) buffer.Add(row, 100'000'000, "small");
  EXPECT_EQ(buffer.size(), 50u);
  EXPECT_LE(held_bytes(), 50u * 4096);
}

TEST(TrainingBufferDeathTest, RowsMustComeInAscendingOrder) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  TrainingBuffer buffer({}, "b");
  buffer.Add(5, 0, "v");
  EXPECT_DEATH(buffer.Add(5, 0, "v"), "broken invariant");
}

}  // namespace
}  // namespace millrace
