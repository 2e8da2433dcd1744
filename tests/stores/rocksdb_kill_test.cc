// A process that writes to RocksDB and is killed.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <random>
#include <thread>

#include "base/big_endian.h"
#include "stores/rocksdb_byte_map.h"
#include "tests/stores/batch_script.h"
#include "tests/stores/child_process.h"
#include "tests/stores/temporary_folder.h"

namespace millrace {
namespace {

void Apply(uint64_t n, bool in_runs, std::map<std::string, std::string>& content) {
  if (in_runs && IsScriptedRun(n)) {
    for (const auto& [key, value] : ScriptedRun(n)) content[key] = value;
    return;
  }
  const WriteBatch batch = ScriptedBatch(n);
  for (const WriteBatch::Change& change : batch.changes()) {
    if (change.value) {
      content[change.key] = *change.value;
    } else {
      content.erase(change.key);
    }
  }
}

// Kills the child again and again while it does `what`.
void ExpectPrefixes(const std::string& what) {
  TemporaryFolder folder;
  std::mt19937_64 random(11);
  std::map<std::string, std::string> expected;
  uint64_t applied = 0;  // batches in `expected`
  int lives_that_wrote = 0;
  for (int life = 0; life < 30; ++life) {
    uint64_t written = applied;
    uint64_t flushed = applied;
    {
      ChildProcess child({STORES_CHILD, what, folder.path()});
      // Some are killed while they open the map, the others while they write.
      if (life % 3 != 0) {
        ASSERT_EQ(child.ReadLine(), "open");
      }
      if (life % 3 == 2) {
        const std::string line = child.ReadLine().value_or("");
        ASSERT_TRUE(line.starts_with("written ")) << line;
        written = std::stoull(line.substr(8));
      }
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 40'000));
      child.Kill();
      while (const std::optional<std::string> line = child.ReadLine()) {
        if (line->starts_with("written ")) {
          written = std::stoull(line->substr(8));
        } else if (line->starts_with("flushed ")) {
          flushed = std::stoull(line->substr(8));
        } else {
          ASSERT_EQ(*line, "open");
        }
      }
    }
    if (written > applied) ++lives_that_wrote;

    auto map = OpenRocksDb(folder.path());
    ASSERT_TRUE(map.ok()) << map.status();
    const auto position = (*map)->Get(kPositionKey);
    ASSERT_TRUE(position.ok()) << position.status();
    const uint64_t last = *position ? DecodeBigEndian64(**position).value() : 0;
    ASSERT_GE(last, flushed) << "a flushed batch is lost, life " << life;
    ASSERT_LE(last, written + 1) << "a batch that was never written, life " << life;
    for (; applied < last; ++applied) Apply(applied + 1, what == "runs", expected);
    std::map<std::string, std::string> found;
    ASSERT_TRUE((*map)
                    ->Scan("", "",
                           [&](std::string_view key, std::string_view value) {
                             found.emplace(key, value);
                             return true;
                           })
                    .ok());
    ASSERT_EQ(found, expected) << "not the batches 1 to " << last << ", life " << life;
  }
  EXPECT_GE(lives_that_wrote, 10) << "too few to say anything";
}

TEST(RocksDbKillTest, AfterSigkillTheMapHoldsAPrefixOfTheBatchesWithAllThatWereFlushed) {
  ExpectPrefixes("write");
}

TEST(RocksDbKillTest, AlsoWhereSomeOfThemAreWrittenInBulk) { ExpectPrefixes("bulk"); }

TEST(RocksDbKillTest, AlsoWhereSomeOfThemAreSortedRuns) { ExpectPrefixes("runs"); }

}  // namespace
}  // namespace millrace
