// Embedding rows against a plain map of all of them, under evictions, checkpoints and crashes.
#include "stores/embedding_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "stores/memory_byte_map.h"
#include "tests/stores/temporary_folder.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

EmbeddingTableOptions Options(size_t width = 3) {
  EmbeddingTableOptions options;
  options.seed = 5;
  options.initial_limit = std::vector<float>(width, 0.5f);
  options.slot_floats = options.width();
  return options;
}

EmbeddingTableOptions WithScratch(size_t cache_bytes, size_t scratch_bytes,
                                  const std::string& folder) {
  EmbeddingTableOptions options = Options();
  options.cache_bytes = cache_bytes;
  options.scratch_bytes = scratch_bytes;
  options.scratch_folder = folder;
  return options;
}

// AdaGrad's shape, simple to write a second time.
void Step(std::span<const float> gradient, std::span<float> values, std::span<float> slots) {
  for (size_t i = 0; i < values.size(); ++i) {
    slots[i] += gradient[i] * gradient[i];
    values[i] -= 0.1f * gradient[i] / (1 + slots[i]);
  }
}

// What no penalty is like, but exact in floats.
void CatchUp(double missed, std::span<float> values, std::span<const float> /*slots*/) {
  for (float& value : values) value *= std::exp2(static_cast<float>(-missed));
}

std::vector<float> ReadOne(EmbeddingTable& table, EmbeddingId id, const RowTime& now = {}) {
  std::vector<float> values(table.width());
  EXPECT_TRUE(table.Read(std::vector<EmbeddingId>{id}, now, values).ok());
  return values;
}
std::vector<float> ReadOne(EmbeddingTable& table, EmbeddingId id, int64_t now_ms) {
  return ReadOne(table, id, RowTime{.ms = now_ms});
}

void UpdateOne(EmbeddingTable& table, EmbeddingId id, float gradient, const RowTime& now = {}) {
  const std::vector<float> gradients(table.width(), gradient);
  EXPECT_TRUE(table.Update(std::vector<EmbeddingId>{id}, gradients, now, now.shrinkage, Step).ok());
}
void UpdateOne(EmbeddingTable& table, EmbeddingId id, float gradient, int64_t now_ms) {
  UpdateOne(table, id, gradient, RowTime{.ms = now_ms});
}

// A checkpoint: what was updated goes to the store.
void Save(EmbeddingTable& table, MemoryByteMap& store) {
  const FrozenRows rows = table.FreezeUpdated();
  WriteBatch batch;
  rows.Encode(0, [&](std::string_view key, std::string_view value) {
    batch.Put(std::string(key), std::string(value));
    return true;
  });
  ASSERT_TRUE(store.Write(batch).ok());
  table.Saved(rows);
}

// Ascending.
std::vector<std::string> KeysOf(FrozenRows rows) {
  std::vector<std::string> keys;
  rows.SortById();
  rows.Encode(0, [&](std::string_view key, std::string_view) {
    keys.emplace_back(key);
    return true;
  });
  return keys;
}

// ---- birth ----

TEST(EmbeddingTable, ANewRowIsAFunctionOfSeedTableIdAndColumn) {
  EmbeddingTableOptions other_seed = Options();
  other_seed.seed = 6;
  EmbeddingTableOptions other_table = Options();
  other_table.table = 1;
  EmbeddingTable a(Options(), nullptr);
  EmbeddingTable b(Options(), nullptr);
  EmbeddingTable c(other_seed, nullptr);
  EmbeddingTable d(other_table, nullptr);
  UpdateOne(b, 7, 0);  // born by an update, not by reading
  EXPECT_EQ(ReadOne(a, 7), ReadOne(b, 7));
  EXPECT_NE(ReadOne(a, 7), ReadOne(a, 8));
  EXPECT_NE(ReadOne(a, 7), ReadOne(c, 7));
  EXPECT_NE(ReadOne(a, 7), ReadOne(d, 7));
}

TEST(EmbeddingTable, NewValuesAreSpreadEvenlyWithinEachColumnsLimit) {
  EmbeddingTableOptions options = Options();
  options.initial_limit = {0, 0.25f, 2};
  EmbeddingTable table(options, nullptr);
  constexpr int kRows = 20000;
  std::vector<double> sums(3);
  std::vector<double> squares(3);
  std::set<float> distinct;
  for (EmbeddingId id = 0; id < kRows; ++id) {
    const std::vector<float> values = ReadOne(table, id);
    distinct.insert(values[2]);
    for (size_t i = 0; i < 3; ++i) {
      ASSERT_LE(std::abs(values[i]), options.initial_limit[i]);
      sums[i] += static_cast<double>(values[i]);
      squares[i] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    }
  }
  for (size_t i = 0; i < 3; ++i) {
    const auto limit = static_cast<double>(options.initial_limit[i]);
    EXPECT_NEAR(sums[i] / kRows, 0, 0.02 * limit);
    EXPECT_NEAR(squares[i] / kRows, limit * limit / 3, 0.02 * limit * limit);
  }
  EXPECT_GT(distinct.size(), kRows * 99 / 100);
}

TEST(EmbeddingTable, ReadingCreatesNothing) {
  EmbeddingTable table(Options(), nullptr);
  ReadOne(table, 1);
  EXPECT_EQ(table.rows_at_hand(), 0u);
  EXPECT_EQ(table.FreezeUpdated().size(), 0u);
}

// ---- admission and expiry ----

TEST(EmbeddingTable, ARowIsStoredFromItsNthUpdateOn) {
  EmbeddingTableOptions options = Options();
  options.admit_after = 3;
  MemoryByteMap store;
  EmbeddingTable table(options, &store);
  const std::vector<float> born = ReadOne(table, 4);
  for (int update = 1; update <= 2; ++update) {
    UpdateOne(table, 4, 1);
    EXPECT_EQ(ReadOne(table, 4), born) << update;
    Save(table, store);
  }
  EmbeddingTable restarted(options, &store);  // the count is kept, too
  UpdateOne(restarted, 4, 1);
  std::vector<float> stepped = born;
  std::vector<float> slots(3);
  Step(std::vector<float>(3, 1.0f), stepped, slots);
  EXPECT_EQ(ReadOne(restarted, 4), stepped);
}

TEST(EmbeddingTable, ARowNotUpdatedForLongIsAsIfItHadNeverBeen) {
  EmbeddingTableOptions options = Options();
  options.expire_after_ms = 1000;
  EmbeddingTable table(options, nullptr);
  const std::vector<float> born = ReadOne(table, 4);
  UpdateOne(table, 4, 1, 500);
  const std::vector<float> once = ReadOne(table, 4, 1500);
  EXPECT_NE(once, born);
  EXPECT_EQ(ReadOne(table, 4, 1501), born) << "read does not keep it alive";
  UpdateOne(table, 4, 1, 2000);
  EXPECT_EQ(ReadOne(table, 4, 2000), once) << "born again: no state of its former life";
}

TEST(EmbeddingTable, ARowCatchesUpWithWhatItHasMissedSinceItsLastUpdate) {
  EmbeddingTableOptions options = Options();
  options.catch_up = CatchUp;
  MemoryByteMap store;
  EmbeddingTable table(options, &store);
  const std::vector<float> born = ReadOne(table, 4, {.shrinkage = 5});
  UpdateOne(table, 4, 1, {.shrinkage = 5});
  const std::vector<float> once = ReadOne(table, 4, {.shrinkage = 5});
  EXPECT_NE(once, born) << "the first update drew it, and it had missed nothing before";
  std::vector<float> halves = once;
  for (float& value : halves) value /= 4;
  EXPECT_EQ(ReadOne(table, 4, {.shrinkage = 7}), halves);
  EXPECT_EQ(ReadOne(table, 4, {.shrinkage = 5}), once) << "reading changes nothing";
  Save(table, store);
  EmbeddingTable restarted(options, &store);
  EXPECT_EQ(ReadOne(restarted, 4, {.shrinkage = 7}), halves);
  UpdateOne(restarted, 4, 0, {.shrinkage = 7});
  EXPECT_EQ(ReadOne(restarted, 4, {.shrinkage = 7}), halves) << "once";
}

// ---- the cache ----

TEST(EmbeddingTable, KeepsTheCacheAtItsSizeButForWhatIsNotSaved) {
  EmbeddingTableOptions options = Options();
  options.cache_bytes = 1;
  MemoryByteMap store;
  EmbeddingTable table(options, &store);
  for (EmbeddingId id = 0; id < 100; ++id) UpdateOne(table, id, 1);
  EXPECT_EQ(table.rows_at_hand(), 100u);
  EXPECT_EQ(table.unsaved(), 100u);
  EXPECT_TRUE(table.is_short_of_room());
  Save(table, store);
  EXPECT_EQ(table.unsaved(), 0u);
  EXPECT_FALSE(table.is_short_of_room());
  EXPECT_EQ(table.rows_at_hand(), 1u);
  EmbeddingTable all(Options(), &store);
  for (EmbeddingId id = 0; id < 100; ++id) EXPECT_EQ(ReadOne(table, id), ReadOne(all, id)) << id;
  EXPECT_EQ(table.rows_at_hand(), 1u);
  EXPECT_EQ(all.rows_at_hand(), 100u);
}

TEST(EmbeddingTable, TheRowsOfALargeUpdateLeaveTheCacheWithTheirCheckpoint) {
  EmbeddingTableOptions options = Options();
  options.cache_bytes = 1;
  MemoryByteMap store;
  EmbeddingTable table(options, &store);
  std::vector<EmbeddingId> ids(100);
  std::iota(ids.begin(), ids.end(), EmbeddingId{0});
  const std::vector<float> gradients(ids.size() * table.width(), 1.0f);
  ASSERT_TRUE(table.Update(ids, gradients, {}, 0, Step).ok());
  EXPECT_EQ(table.rows_at_hand(), 100u);
  Save(table, store);
  EXPECT_EQ(table.rows_at_hand(), 1u);
}

TEST(EmbeddingTable, WhatTheCacheDoesNotHoldIsAtHandInTheScratchFile) {
  TemporaryFolder folder;
  MemoryByteMap store;
  EmbeddingTable table(WithScratch(1000, 100'000, folder.path()), &store);
  for (EmbeddingId id = 0; id < 100; ++id) UpdateOne(table, id, 1);
  EXPECT_FALSE(table.is_short_of_room()) << "there is no hurry to save them";
  Save(table, store);
  EXPECT_EQ(table.rows_at_hand(), 100u);
  EmbeddingTable all(Options(), &store);
  for (EmbeddingId id = 0; id < 100; ++id) EXPECT_EQ(ReadOne(table, id), ReadOne(all, id)) << id;
}

TEST(EmbeddingTable, WithoutRoomForAScratchFileItGoesOnWithTheCache) {
  MemoryByteMap store;
  EmbeddingTable table(WithScratch(1000, 100'000, "/nowhere"), &store);
  EXPECT_TRUE(table.scratch_status().ok());
  for (EmbeddingId id = 0; id < 100; ++id) UpdateOne(table, id, 1);
  EXPECT_THAT(std::string(table.scratch_status().message()), HasSubstr("/nowhere"));
  EXPECT_TRUE(table.is_short_of_room());
  Save(table, store);
  EXPECT_LE(table.rows_at_hand(), 20u);
  EmbeddingTable all(Options(), &store);
  for (EmbeddingId id = 0; id < 100; ++id) EXPECT_EQ(ReadOne(table, id), ReadOne(all, id)) << id;
}

// Counts the keys that it is asked for.
class CountingByteMap final : public OrderedByteMap {
 public:
  explicit CountingByteMap(MemoryByteMap& map) : map_(map) {}
  StatusOr<std::optional<std::string>> Get(std::string_view key) const override {
    ++asked;
    return map_.Get(key);
  }
  Status Write(const WriteBatch& batch) override { return map_.Write(batch); }
  Status Flush() override { return map_.Flush(); }
  Status Scan(std::string_view begin, std::string_view end,
              const std::function<bool(std::string_view, std::string_view)>& visit) const override {
    return map_.Scan(begin, end, visit);
  }

  mutable size_t asked = 0;

 private:
  MemoryByteMap& map_;
};

TEST(EmbeddingTable, RowsAreLookedForInTheStoreOnceItMayHaveOthersThanThoseAtHand) {
  MemoryByteMap store;
  CountingByteMap counting(store);
  EmbeddingTableOptions options = Options();
  WriteBatch batch;
  batch.Put("another key", "");
  batch.Put("e, but of no row", "");
  batch.Put(EmbeddingRowKey(options.table + 1, 7), "of another table");
  ASSERT_TRUE(store.Write(batch).ok());
  {
    EmbeddingTable table(options, &counting);
    for (EmbeddingId id = 0; id < 10; ++id) UpdateOne(table, id, 1);
    Save(table, store);
    for (EmbeddingId id = 0; id < 20; ++id) ReadOne(table, id);
    EXPECT_EQ(counting.asked, 0u) << "it has all that were saved";
  }
  {
    EmbeddingTable restarted(options, &counting);
    for (EmbeddingId id = 5; id < 15; ++id) ReadOne(restarted, id);
    EXPECT_EQ(counting.asked, 10u);
  }
  MemoryByteMap other_store;
  CountingByteMap other(other_store);
  options.cache_bytes = 1;
  EmbeddingTable small(options, &other);
  EmbeddingTable all(Options(), nullptr);
  for (EmbeddingId id = 0; id < 10; ++id) {
    UpdateOne(small, id, 1);
    UpdateOne(all, id, 1);
  }
  EXPECT_EQ(other.asked, 0u);
  Save(small, other_store);
  for (EmbeddingId id = 0; id < 10; ++id) EXPECT_EQ(ReadOne(small, id), ReadOne(all, id)) << id;
  EXPECT_GT(other.asked, 0u) << "evicted ones are there";
}

// The index knows rows by half of their ids.
TEST(EmbeddingTable, RowsWhoseIdsAreHalfTheSameAreDifferentRows) {
  MemoryByteMap store;
  EmbeddingTable table(Options(), &store);
  constexpr EmbeddingId kApart = EmbeddingId{1} << 32;
  for (EmbeddingId id = 7; id < 20 * kApart; id += kApart)
    UpdateOne(table, id, static_cast<float>(id >> 32));
  for (EmbeddingId id = 7; id < 20 * kApart; id += kApart) {
    EmbeddingTable alone(Options(), nullptr);
    UpdateOne(alone, id, static_cast<float>(id >> 32));
    EXPECT_EQ(ReadOne(table, id), ReadOne(alone, id)) << id;
  }
}

TEST(EmbeddingTable, WhatIsUpdatedWhileItIsSavedIsSavedAgain) {
  EmbeddingTable table(Options(), nullptr);
  UpdateOne(table, 1, 1);
  UpdateOne(table, 2, 1);
  const size_t both = table.updated_bytes();
  EXPECT_GT(both, 0u);
  const FrozenRows first = table.FreezeUpdated();
  EXPECT_THAT(KeysOf(first), ElementsAre(EmbeddingRowKey(0, 1), EmbeddingRowKey(0, 2)));
  EXPECT_EQ(table.updated_bytes(), 0u);
  UpdateOne(table, 2, 1);
  EXPECT_EQ(table.unsaved(), 2u);
  EXPECT_EQ(table.updated_bytes(), both / 2);
  table.Saved(first);
  EXPECT_EQ(table.unsaved(), 1u);
  EXPECT_THAT(KeysOf(table.FreezeUpdated()), ElementsAre(EmbeddingRowKey(0, 2)));
}

std::vector<std::string> ValuesOf(const FrozenRows& rows) {
  std::vector<std::string> values;
  rows.Encode(0, [&](std::string_view, std::string_view value) {
    values.emplace_back(value);
    return true;
  });
  return values;
}

TEST(EmbeddingTable, FrozenRowsStayAsTheyWereWhateverIsFrozenAfterThem) {
  TemporaryFolder folder;
  MemoryByteMap store;
  EmbeddingTable table(WithScratch(500, 10'000, folder.path()), &store);
  for (EmbeddingId id = 0; id < 50; ++id) UpdateOne(table, id, 1);
  const FrozenRows first = table.FreezeUpdated();
  const std::vector<std::string> values = ValuesOf(first);
  for (EmbeddingId id = 0; id < 50; ++id) UpdateOne(table, id, 2);
  {
    const FrozenRows second = table.FreezeUpdated();
    EXPECT_EQ(ValuesOf(first), values);
    EXPECT_NE(ValuesOf(second), values);
    table.Saved(second);
  }
  for (EmbeddingId id = 0; id < 50; ++id) UpdateOne(table, id, 3);
  const FrozenRows third = table.FreezeUpdated();  // in the room of the second
  EXPECT_EQ(third.size(), 50u);
  EXPECT_EQ(ValuesOf(first), values);
}

TEST(EmbeddingTable, FrozenRowsWithoutADiskAreAReasonToFreezeFewer) {
  TemporaryFolder folder;
  EmbeddingTable table(WithScratch(/*cache_bytes=*/10'000, 100'000, folder / "gone"), nullptr);
  for (EmbeddingId id = 0; id < 135; ++id) UpdateOne(table, id, 1);  // the cache holds a few more
  EXPECT_FALSE(table.is_short_of_room());
  EXPECT_TRUE(table.scratch_status().ok());
  table.NotSaved(table.FreezeUpdated());  // half of the cache does not hold them
  EXPECT_THAT(std::string(table.scratch_status().message()), HasSubstr("gone"));
  EXPECT_TRUE(table.is_short_of_room());
  EXPECT_EQ(table.FreezeUpdated().size(), 135u) << "they went to memory all the same";
}

TEST(EmbeddingTable, WhatWasNotSavedIsUpdatedOnce) {
  EmbeddingTable table(Options(), nullptr);
  UpdateOne(table, 1, 1);
  UpdateOne(table, 2, 1);
  const FrozenRows first = table.FreezeUpdated();
  UpdateOne(table, 2, 1);
  table.NotSaved(first);
  EXPECT_THAT(KeysOf(table.FreezeUpdated()),
              ElementsAre(EmbeddingRowKey(0, 1), EmbeddingRowKey(0, 2)));
}

// ---- against a map of all rows ----

struct Reference {
  struct Row {
    std::vector<float> values;
    std::vector<float> slots;
    uint32_t updates = 0;
    int64_t updated_ms = 0;
    double shrinkage = 0;
  };
  const EmbeddingTableOptions options;
  std::map<EmbeddingId, Row> rows;

  bool Lives(EmbeddingId id, int64_t now_ms) const {
    const auto row = rows.find(id);
    if (row == rows.end() || row->second.updates < options.admit_after) return false;
    return options.expire_after_ms == 0 ||
           now_ms - row->second.updated_ms <= options.expire_after_ms;
  }
  std::vector<float> Born(EmbeddingId id) const {
    EmbeddingTable table(options, nullptr);
    return ReadOne(table, id);
  }
  std::vector<float> Read(EmbeddingId id, const RowTime& now) const {
    if (!Lives(id, now.ms)) return Born(id);
    std::vector<float> values = rows.at(id).values;
    CatchUp(now.shrinkage - rows.at(id).shrinkage, values, {});
    return values;
  }
  void Update(EmbeddingId id, std::span<const float> gradient, const RowTime& now, double after) {
    Row& row = rows[id];
    if (options.expire_after_ms > 0 && now.ms - row.updated_ms > options.expire_after_ms) row = {};
    row.updated_ms = now.ms;
    CatchUp(now.shrinkage - row.shrinkage, row.values, row.slots);
    row.shrinkage = after;
    if (row.updates < options.admit_after && ++row.updates == options.admit_after) {
      row.values = Born(id);
      row.slots.assign(row.values.size(), 0.0f);
    }
    if (row.updates == options.admit_after) Step(gradient, row.values, row.slots);
  }
};

TEST(EmbeddingTable, IsAPlainMapWhateverIsEvictedSavedAndLost) {
  TemporaryFolder folder;
  std::mt19937 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    EmbeddingTableOptions options = Options(1 + random() % 4);
    options.cache_bytes = random() % 2000;
    options.scratch_bytes = random() % 2 == 0 ? 0 : random() % 2000;
    options.scratch_folder = random() % 4 == 0 ? "/nowhere" : folder.path();
    options.admit_after = static_cast<uint32_t>(1 + random() % 3);
    options.expire_after_ms = random() % 2 == 0 ? 0 : 50;
    options.catch_up = CatchUp;
    MemoryByteMap store;
    std::vector<std::pair<std::string, std::string>> parameters;  // what was committed, in order
    size_t stored = 0;                                            // so many of them the store has
    auto table = std::make_unique<EmbeddingTable>(options, &store);
    Reference now{options, {}};
    Reference committed{options, {}};
    struct Checkpoint {
      FrozenRows frozen;
      std::map<EmbeddingId, Reference::Row> rows;
    };
    std::optional<Checkpoint> under_way;
    RowTime time{.ms = 1000};
    for (int step = 0; step < 300; ++step) {
      time.ms += random() % 5;
      std::set<EmbeddingId> chosen;
      while (chosen.size() < 1 + random() % 6) {
        chosen.insert(random() % 20 + (random() % 2 << 32));  // (some are half the same)
      }
      const std::vector<EmbeddingId> ids(chosen.begin(), chosen.end());
      std::vector<float> floats(ids.size() * table->width());
      const auto row = [&](size_t i) {
        return std::span(floats).subspan(i * table->width(), table->width());
      };
      const uint64_t what = random() % 20;
      if (what < 8) {
        ASSERT_TRUE(table->Read(ids, time, floats).ok());
        for (size_t i = 0; i < ids.size(); ++i) {
          ASSERT_THAT(row(i), testing::ElementsAreArray(now.Read(ids[i], time)));
        }
      } else if (what < 16) {
        for (float& value : floats) value = static_cast<float>(random() % 100) / 50.0f - 1;
        const double after = time.shrinkage + static_cast<double>(random() % 3);
        std::vector<float> were(floats.size());
        const bool keeps = random() % 2 == 0;
        EmbeddingTable::Before before;
        if (keeps) before = {time, were};
        ASSERT_TRUE(table->Update(ids, floats, time, after, Step, before).ok());
        for (size_t i = 0; i < ids.size(); ++i) {
          if (keeps) {
            ASSERT_THAT(std::span(were).subspan(i * table->width(), table->width()),
                        testing::ElementsAreArray(now.Read(ids[i], time)));
          }
          now.Update(ids[i], row(i), time, after);
        }
        time.shrinkage = after;
      } else if (what < 18) {
        // A checkpoint begins; the next time it fails, or is committed, and then it is stored or
        // the process dies before.
        if (!under_way) {
          under_way = Checkpoint{table->FreezeUpdated(), now.rows};
          continue;
        }
        const Checkpoint checkpoint = *std::exchange(under_way, std::nullopt);
        if (random() % 4 == 0) {
          table->NotSaved(checkpoint.frozen);
          continue;
        }
        checkpoint.frozen.Encode(0, [&](std::string_view key, std::string_view value) {
          parameters.emplace_back(key, value);
          return true;
        });
        committed.rows = checkpoint.rows;
        if (random() % 4 == 0) {
          table.reset();
        } else {
          WriteBatch batch;
          for (; stored < parameters.size(); ++stored) {
            batch.Put(parameters[stored].first, parameters[stored].second);
          }
          ASSERT_TRUE(store.Write(batch).ok());
          table->Saved(checkpoint.frozen);
        }
      } else if (what == 18) {
        table.reset();
      }
      if (table == nullptr) {
        // Recovery brings the store up to the end of `parameters` first.
        WriteBatch batch;
        for (; stored < parameters.size(); ++stored) {
          batch.Put(parameters[stored].first, parameters[stored].second);
        }
        ASSERT_TRUE(store.Write(batch).ok());
        table = std::make_unique<EmbeddingTable>(options, &store);
        now.rows = committed.rows;
        under_way.reset();
      }
    }
  }
}

// ---- what cannot be a row ----

TEST(EmbeddingTable, ADamagedOrForeignRowIsAnErrorThatNamesIt) {
  MemoryByteMap store;
  EmbeddingTable writer(Options(2), &store);
  UpdateOne(writer, 9, 1);
  Save(writer, store);
  EmbeddingTable wider(Options(3), &store);
  std::vector<float> values(3);
  const Status shape = wider.Read(std::vector<EmbeddingId>{9}, {}, values);
  EXPECT_TRUE(absl::IsDataLoss(shape));
  EXPECT_THAT(std::string(shape.message()),
              HasSubstr("row 9 of table 0 in this server's store has 2 values"));
  EXPECT_TRUE(absl::IsDataLoss(wider.Read(std::vector<EmbeddingId>{9}, {}, values)))
      << "and stays one";

  WriteBatch batch;
  batch.Put("e" + std::string(4, '\0') + std::string(7, '\0') + "\7", "damaged");
  ASSERT_TRUE(store.Write(batch).ok());
  EmbeddingTable table(Options(2), &store);
  values.resize(2);
  EXPECT_THAT(
      std::string(table.Read(std::vector<EmbeddingId>{7}, {}, values).message()),
      HasSubstr("row 7 of table 0 in this server's store cannot be decoded. Stop the server"));
}

TEST(EmbeddingTable, KeysOfRowsAreToldFromOthers) {
  EXPECT_TRUE(IsEmbeddingRowKey(EmbeddingRowKey(3, 1)));
  for (const char* other : {"", "e", "state", "parameters-offset", "p12345678"}) {
    EXPECT_FALSE(IsEmbeddingRowKey(other)) << other;
  }
}

}  // namespace
}  // namespace millrace
