// What a crash leaves of a MemoryByteMap.
#include "stores/memory_byte_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace millrace {
namespace {

using Content = std::map<std::string, std::string>;

Content ContentOf(const MemoryByteMap& map) {
  Content content;
  EXPECT_TRUE(map.Scan("", "",
                       [&](std::string_view key, std::string_view value) {
                         content.emplace(key, value);
                         return true;
                       })
                  .ok());
  return content;
}

void Put(MemoryByteMap& map, std::string_view key, std::string_view value) {
  WriteBatch batch;
  batch.Put(std::string(key), std::string(value));
  ASSERT_TRUE(map.Write(batch).ok());
}

TEST(MemoryByteMapTest, ACrashForgetsTheLastUnflushedBatches) {
  MemoryByteMap map;
  Put(map, "a", "1");
  ASSERT_TRUE(map.Flush().ok());
  Put(map, "a", "2");
  Put(map, "b", "2");
  Put(map, "a", "3");
  EXPECT_EQ(map.unflushed_batches(), 3u);
  map.Crash(2);
  EXPECT_EQ(ContentOf(map), (Content{{"a", "2"}}));
}

TEST(MemoryByteMapTest, ACrashNeverForgetsWhatWasFlushed) {
  MemoryByteMap map;
  Put(map, "a", "1");
  ASSERT_TRUE(map.Flush().ok());
  Put(map, "a", "2");
  map.Crash(100);
  EXPECT_EQ(ContentOf(map), (Content{{"a", "1"}}));
}

TEST(MemoryByteMapTest, WhatACrashLeftIsNotLostByTheNextOne) {
  MemoryByteMap map;
  Put(map, "a", "1");
  Put(map, "b", "1");
  map.Crash(1);
  EXPECT_EQ(map.unflushed_batches(), 0u);
  map.Crash(1);
  EXPECT_EQ(ContentOf(map), (Content{{"a", "1"}}));
}

TEST(MemoryByteMapTest, ACrashGivesBackWhatABatchChangedTwice) {
  MemoryByteMap map;
  Put(map, "a", "old");
  ASSERT_TRUE(map.Flush().ok());
  WriteBatch batch;
  batch.Put("a", "new");
  batch.Delete("a");
  batch.Put("b", "1");
  batch.Put("b", "2");
  ASSERT_TRUE(map.Write(batch).ok());
  map.Crash(1);
  EXPECT_EQ(ContentOf(map), (Content{{"a", "old"}}));
}

TEST(MemoryByteMapTest, ACloneLivesAndDiesAlone) {
  MemoryByteMap map;
  Put(map, "a", "1");
  ASSERT_TRUE(map.Flush().ok());
  Put(map, "a", "2");
  const std::unique_ptr<MemoryByteMap> clone = map.Clone();
  Put(*clone, "b", "1");
  EXPECT_EQ(ContentOf(map), (Content{{"a", "2"}}));
  EXPECT_EQ(ContentOf(*clone), (Content{{"a", "2"}, {"b", "1"}}));
  clone->Crash(2);
  EXPECT_EQ(ContentOf(map), (Content{{"a", "2"}}));
  EXPECT_EQ(ContentOf(*clone), (Content{{"a", "1"}}));
}

TEST(MemoryByteMapTest, AfterAnyCrashTheMapIsAPrefixOfItsBatches) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    MemoryByteMap map;
    Content content;
    std::vector<Content> history = {content};  // since the last flush or crash
    for (int step = 0; step < 100; ++step) {
      const uint64_t action = random() % 12;
      if (action == 0) {
        ASSERT_TRUE(map.Flush().ok());
        history = {content};
      } else if (action == 1) {
        const size_t lost = random() % (history.size() + 2);
        map.Crash(lost);
        content = history[history.size() - 1 - std::min(lost, history.size() - 1)];
        history = {content};
      } else {
        WriteBatch batch;
        for (uint64_t changes = random() % 5; changes > 0; --changes) {
          const std::string key(1, static_cast<char>('a' + random() % 6));
          if (random() % 3 == 0) {
            batch.Delete(key);
            content.erase(key);
          } else {
            const std::string value = std::to_string(step);
            batch.Put(key, value);
            content[key] = value;
          }
        }
        ASSERT_TRUE(map.Write(batch).ok());
        history.push_back(content);
      }
      ASSERT_EQ(ContentOf(map), content) << "seed " << seed << " step " << step;
    }
  }
}

}  // namespace
}  // namespace millrace
