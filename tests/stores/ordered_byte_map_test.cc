// The contract of OrderedByteMap, held by each implementation.
#include "stores/ordered_byte_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/big_endian.h"
#include "stores/memory_byte_map.h"
#include "stores/rocksdb_byte_map.h"
#include "tests/stores/temporary_folder.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using Entries = std::vector<std::pair<std::string, std::string>>;

// A map, and the worst that may happen to it.
class Disk {
 public:
  virtual ~Disk() = default;
  virtual OrderedByteMap& map() = 0;
  // The process ends and another one opens the map.
  virtual void Restart() = 0;
};

class MemoryDisk : public Disk {
 public:
  OrderedByteMap& map() override { return map_; }
  void Restart() override { map_.Crash(std::numeric_limits<size_t>::max()); }

 private:
  MemoryByteMap map_;
};

class RocksDbDisk : public Disk {
 public:
  RocksDbDisk() { Open(); }
  OrderedByteMap& map() override { return *map_; }
  void Restart() override {
    map_.reset();
    Open();
  }

 private:
  void Open() {
    RocksDbOptions options;
    options.write_buffer_bytes = 256 << 10;  // so that the tests reach files too
    auto map = OpenRocksDb(folder_ / "map", options);
    MILLRACE_CHECK(map.ok());
    map_ = *std::move(map);
  }

  TemporaryFolder folder_;
  std::unique_ptr<OrderedByteMap> map_;
};

struct Implementation {
  const char* name;
  std::unique_ptr<Disk> (*make)();
};

class OrderedByteMapTest : public ::testing::TestWithParam<Implementation> {
 protected:
  OrderedByteMap& map() { return disk_->map(); }
  void Restart() { disk_->Restart(); }

  void Put(std::string_view key, std::string_view value) {
    WriteBatch batch;
    batch.Put(std::string(key), std::string(value));
    ASSERT_TRUE(map().Write(batch).ok());
  }
  Status PutRun(const Entries& entries) {
    return map().WriteSortedRun([&entries](const OrderedByteMap::Take& take) -> Status {
      for (const auto& [key, value] : entries) MILLRACE_RETURN_IF_ERROR(take(key, value));
      return absl::OkStatus();
    });
  }
  std::optional<std::string> Get(std::string_view key) {
    auto value = map().Get(key);
    EXPECT_TRUE(value.ok()) << value.status();
    return value.ok() ? *value : std::nullopt;
  }
  Entries Scan(std::string_view begin, std::string_view end) {
    Entries entries;
    EXPECT_TRUE(map()
                    .Scan(begin, end,
                          [&](std::string_view key, std::string_view value) {
                            entries.emplace_back(key, value);
                            return true;
                          })
                    .ok());
    return entries;
  }

 private:
  std::unique_ptr<Disk> disk_ = GetParam().make();
};

TEST_P(OrderedByteMapTest, AKeyThatWasNeverWrittenIsNotThere) {
  EXPECT_EQ(Get("a"), std::nullopt);
  Put("b", "1");
  EXPECT_EQ(Get("a"), std::nullopt);
  EXPECT_EQ(Get(""), std::nullopt);
}

TEST_P(OrderedByteMapTest, GivesBackTheBytesThatWereWritten) {
  const std::string key("\0k\xff\n", 4);
  std::string value;
  for (int i = 0; i < 1000; ++i) value += static_cast<char>(i);
  Put(key, value);
  EXPECT_EQ(Get(key), value);
  Put(key, "new");
  EXPECT_EQ(Get(key), "new");
}

TEST_P(OrderedByteMapTest, AnEmptyValueIsNotAMissingOne) {
  Put("a", "");
  EXPECT_EQ(Get("a"), "");
  EXPECT_THAT(Scan("", ""), ElementsAre(Pair("a", "")));
}

TEST_P(OrderedByteMapTest, GetManyVisitsTheKeysThatAreThereHoweverManyAreAskedFor) {
  WriteBatch batch;
  std::vector<std::string> keys;
  for (uint32_t i = 0; i < 1500; ++i) {
    keys.push_back(EncodeBigEndian32(i));
    if (i % 3 != 0) batch.Put(keys.back(), "value " + std::to_string(i));
  }
  ASSERT_TRUE(map().Write(batch).ok());
  for (const size_t many : {0, 1, 127, 255, 256, 259, 1023, 1500}) {
    std::map<size_t, std::string> visited, expected;
    const auto visit = [&](size_t i, std::string_view value) {
      EXPECT_TRUE(visited.emplace(i, value).second) << "twice: " << i;
    };
    ASSERT_TRUE(map().GetMany(std::span(keys).first(many), visit).ok());
    for (size_t i = 0; i < many; ++i) {
      if (i % 3 != 0) expected[i] = "value " + std::to_string(i);
    }
    EXPECT_EQ(visited, expected);
  }
}

TEST_P(OrderedByteMapTest, GetManyIsAskedForAscendingKeys) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // RocksDB has threads
  const auto visit = [](size_t, std::string_view) {};
  const std::vector<std::string> keys = {"a", "c", "b"};
  EXPECT_TRUE(map().GetMany(std::span(keys).first(2), visit).ok());
  EXPECT_DEATH((void)map().GetMany(keys, visit), "broken invariant");
}

TEST_P(OrderedByteMapTest, OfSeveralChangesOfAKeyInABatchTheLastCounts) {
  Put("kept", "old");
  WriteBatch batch;
  batch.Put("a", "1");
  batch.Put("a", "2");
  batch.Put("b", "1");
  batch.Delete("b");
  batch.Delete("kept");
  batch.Put("kept", "new");
  batch.Delete("never there");
  ASSERT_TRUE(map().Write(batch).ok());
  EXPECT_THAT(Scan("", ""), ElementsAre(Pair("a", "2"), Pair("kept", "new")));
}

TEST_P(OrderedByteMapTest, AnEmptyBatchChangesNothing) {
  Put("a", "1");
  ASSERT_TRUE(map().Write(WriteBatch()).ok());
  EXPECT_THAT(Scan("", ""), ElementsAre(Pair("a", "1")));
}

TEST_P(OrderedByteMapTest, ASortedRunReplacesWhatWasWrittenBeforeItAndNothingElse) {
  for (const char* key : {"a", "b", "d", "f"}) Put(key, "old");
  WriteBatch batch;
  batch.Delete("d");
  ASSERT_TRUE(map().Write(batch).ok());
  ASSERT_TRUE(PutRun({{"b", "run"}, {"c", "run"}, {"d", "run"}, {"e", ""}}).ok());
  Put("c", "new");
  const auto expected = ElementsAre(Pair("a", "old"), Pair("b", "run"), Pair("c", "new"),
                                    Pair("d", "run"), Pair("e", ""), Pair("f", "old"));
  EXPECT_THAT(Scan("", ""), expected);
  EXPECT_EQ(Get("b"), "run");
  EXPECT_EQ(Get("c"), "new");
  ASSERT_TRUE(map().Flush().ok());
  Restart();
  EXPECT_THAT(Scan("", ""), expected);
}

TEST_P(OrderedByteMapTest, ASortedRunWhoseEntriesFailWritesNothing) {
  Put("a", "old");
  const Status failed = map().WriteSortedRun([](const OrderedByteMap::Take& take) -> Status {
    MILLRACE_RETURN_IF_ERROR(take("a", "run"));
    return absl::DataLossError("no more");
  });
  EXPECT_EQ(failed, absl::DataLossError("no more"));
  EXPECT_THAT(Scan("", ""), ElementsAre(Pair("a", "old")));
  ASSERT_TRUE(PutRun({}).ok()) << "nor does one of nothing";
  EXPECT_THAT(Scan("", ""), ElementsAre(Pair("a", "old")));
  Put("a", "new");
  EXPECT_EQ(Get("a"), "new") << "and the map goes on";
}

TEST_P(OrderedByteMapTest, ASortedRunIsAskedForAscendingKeys) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // RocksDB has threads
  EXPECT_DEATH((void)PutRun({{"a", "1"}, {"c", "1"}, {"b", "1"}}), "broken invariant");
  EXPECT_DEATH((void)PutRun({{"a", "1"}, {"a", "2"}}), "broken invariant");
}

TEST_P(OrderedByteMapTest, ScanGoesInTheOrderOfUnsignedBytesFromBeginToBeforeEnd) {
  const std::string high = "\x80";
  for (const std::string& key : {high, std::string("b"), std::string("a"), std::string("ab"),
                                 std::string("a\0", 2), std::string("c")}) {
    Put(key, "v" + key);
  }
  EXPECT_THAT(
      Scan("", ""),
      ElementsAre(Pair("a", "va"), Pair(std::string("a\0", 2), std::string("va\0", 3)),
                  Pair("ab", "vab"), Pair("b", "vb"), Pair("c", "vc"), Pair(high, "v" + high)));
  EXPECT_THAT(Scan("ab", "c"), ElementsAre(Pair("ab", "vab"), Pair("b", "vb")));
  EXPECT_THAT(Scan("aa", "b"), ElementsAre(Pair("ab", "vab")));
  EXPECT_THAT(Scan("c", ""), ElementsAre(Pair("c", "vc"), Pair(high, "v" + high)));
  EXPECT_THAT(Scan("b", "b"), IsEmpty());
  EXPECT_THAT(Scan("c", "a"), IsEmpty());
}

TEST_P(OrderedByteMapTest, ScanEndsWhenTheVisitorHasSeenEnough) {
  for (const char* key : {"a", "b", "c"}) Put(key, "1");
  std::vector<std::string> seen;
  ASSERT_TRUE(map()
                  .Scan("", "",
                        [&](std::string_view key, std::string_view) {
                          seen.emplace_back(key);
                          return seen.size() < 2;
                        })
                  .ok());
  EXPECT_THAT(seen, ElementsAre("a", "b"));
}

TEST_P(OrderedByteMapTest, ScanSeesTheMapAsItWasWhenItBegan) {
  for (const char* key : {"a", "b", "c"}) Put(key, "old");
  Entries seen;
  ASSERT_TRUE(map()
                  .Scan("", "",
                        [&](std::string_view key, std::string_view value) {
                          WriteBatch batch;
                          batch.Put("b", "new");
                          batch.Delete("c");
                          batch.Put("d", "new");
                          EXPECT_TRUE(map().Write(batch).ok());
                          EXPECT_EQ(Get("b"), "new");
                          seen.emplace_back(key, value);
                          return true;
                        })
                  .ok());
  EXPECT_THAT(seen, ElementsAre(Pair("a", "old"), Pair("b", "old"), Pair("c", "old")));
}

TEST_P(OrderedByteMapTest, ScanDoesNotSeeASortedRunThatIsWrittenMeanwhile) {
  for (const char* key : {"a", "b", "c"}) Put(key, "old");
  Entries seen;
  ASSERT_TRUE(map()
                  .Scan("", "",
                        [&](std::string_view key, std::string_view value) {
                          EXPECT_TRUE(PutRun({{"b", "new"}, {"d", "new"}}).ok());
                          EXPECT_EQ(Get("b"), "new");
                          seen.emplace_back(key, value);
                          return true;
                        })
                  .ok());
  EXPECT_THAT(seen, ElementsAre(Pair("a", "old"), Pair("b", "old"), Pair("c", "old")));
}

TEST_P(OrderedByteMapTest, AReaderBesideTheWriterSeesWholeBatches) {
  std::atomic<bool> is_done = false;
  std::thread reader([&] {
    while (!is_done) {
      const Entries entries = Scan("", "");
      for (const auto& [key, value] : entries) EXPECT_EQ(value, entries.front().second);
      EXPECT_TRUE(entries.empty() || entries.size() == 3);
      Get("b");
    }
  });
  for (int i = 0; i < 2000; ++i) {
    const std::string value = std::to_string(i);
    WriteBatch batch;
    for (const char* key : {"a", "b", "c"}) batch.Put(key, value);
    ASSERT_TRUE(map().Write(batch).ok());
    if (i % 400 != 0) continue;
    ASSERT_TRUE(PutRun({{"a", value}, {"b", value}, {"c", value}}).ok());
  }
  is_done = true;
  reader.join();
}

TEST_P(OrderedByteMapTest, WhatWasFlushedSurvivesARestart) {
  Put("a", "1");
  Put("b", "1");
  WriteBatch batch;
  batch.Put("a", "2");
  batch.Delete("b");
  ASSERT_TRUE(map().Write(batch).ok());
  ASSERT_TRUE(map().Flush().ok());
  Restart();
  EXPECT_THAT(Scan("", ""), ElementsAre(Pair("a", "2")));
}

TEST_P(OrderedByteMapTest, BehavesAsAStdMapUnderRandomBatchesAndRestarts) {
  std::mt19937_64 random(7);
  std::map<std::string, std::string> expected;
  const auto random_key = [&] { return std::to_string(random() % 200); };
  for (int round = 0; round < 2000; ++round) {
    WriteBatch batch;
    for (uint64_t changes = random() % 20; changes > 0; --changes) {
      const std::string key = random_key();
      if (random() % 3 == 0) {
        batch.Delete(key);
        expected.erase(key);
      } else {
        const std::string value(random() % 300, static_cast<char>('a' + random() % 26));
        batch.Put(key, value);
        expected[key] = value;
      }
    }
    ASSERT_TRUE(map().Write(batch).ok());
    if (random() % 60 == 0) {
      std::map<std::string, std::string> run;
      for (uint64_t entries = random() % 50; entries > 0; --entries) {
        run[random_key()] = std::string(random() % 300, static_cast<char>('A' + random() % 26));
      }
      for (const auto& [key, value] : run) expected[key] = value;
      ASSERT_TRUE(PutRun(Entries(run.begin(), run.end())).ok());
    }
    if (random() % 200 == 0) {
      ASSERT_TRUE(map().Flush().ok());
      Restart();
    }
    const std::string key = random_key();
    const auto entry = expected.find(key);
    ASSERT_EQ(Get(key), entry == expected.end() ? std::nullopt : std::optional(entry->second));
    if (round % 50 == 0) {
      const std::string begin = random_key();
      const std::string end = random_key();
      Entries range;
      for (const auto& [k, v] : expected) {
        if (k >= begin && k < end) range.emplace_back(k, v);
      }
      ASSERT_EQ(Scan(begin, end), range);
    }
  }
  EXPECT_EQ(Scan("", ""), Entries(expected.begin(), expected.end()));
}

INSTANTIATE_TEST_SUITE_P(, OrderedByteMapTest,
                         ::testing::Values(Implementation{"MemoryByteMap",
                                                          []() -> std::unique_ptr<Disk> {
                                                            return std::make_unique<MemoryDisk>();
                                                          }},
                                           Implementation{"RocksDbByteMap",
                                                          []() -> std::unique_ptr<Disk> {
                                                            return std::make_unique<RocksDbDisk>();
                                                          }}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace millrace
