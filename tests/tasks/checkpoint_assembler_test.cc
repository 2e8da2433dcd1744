#include "tasks/checkpoint_assembler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/big_endian.h"
#include "stores/memory_byte_map.h"
#include "topics/frame.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;

// Hands records in at ascending offsets.
class Partition {
 public:
  std::optional<CheckpointAssembler::Part> Block(uint64_t begin, const std::string& value) {
    return Add("p" + EncodeBigEndian64(begin), MakeFrames(value, 0).front());
  }
  // A state of so many chunks, or those of them that are still there.
  std::optional<CheckpointAssembler::Part> State(uint64_t position, uint32_t chunks,
                                                 uint32_t first = 0) {
    const std::vector<std::string> frames =
        chunks == 1 ? MakeFrames("state", position)
                    : MakeFrames(std::string(chunks * 100, 's'), position, kChunkHeader + 100);
    EXPECT_EQ(frames.size(), chunks);
    std::optional<CheckpointAssembler::Part> whole;
    for (uint32_t chunk = first; chunk < chunks; ++chunk) {
      EXPECT_FALSE(whole) << "whole before its last chunk";
      whole = Add("state" + EncodeBigEndian32(chunk), frames[chunk]);
    }
    return whole;
  }
  // The control record of a transaction, and what compaction took, use up offsets, too.
  void Skip(int64_t records) { next_ += records; }
  Offset next() const { return next_; }

 private:
  static constexpr size_t kChunkHeader = 18;

  std::optional<CheckpointAssembler::Part> Add(const std::string& key, const std::string& value) {
    StatusOr<std::optional<CheckpointAssembler::Part>> whole = assembler_.Add(next_++, key, value);
    EXPECT_TRUE(whole.ok()) << whole.status();
    return *std::move(whole);
  }

  CheckpointAssembler assembler_;
  Offset next_ = 100;
};

std::vector<std::string> Keys(const CheckpointAssembler::Part& whole) {
  std::vector<std::string> keys;
  for (const Checkpoint::Entry& entry : whole.entries) {
    keys.push_back(entry.key.starts_with("state") ? "state" : entry.key.substr(0, 1));
  }
  return keys;
}

TEST(CheckpointAssembler, HandsOutACheckpointWithTheLastChunkOfItsState) {
  for (uint32_t chunks : {1, 2, 5}) {
    Partition partition;
    for (int round = 0; round < 3; ++round) {
      EXPECT_FALSE(partition.Block(0, "a"));
      EXPECT_FALSE(partition.Block(4096, "b"));
      const auto whole = partition.State(static_cast<uint64_t>(round), chunks);
      ASSERT_TRUE(whole);
      EXPECT_EQ(whole->end, partition.next());
      EXPECT_EQ(whole->entries.size(), 2 + chunks);
      partition.Skip(1);
    }
  }
}

TEST(CheckpointAssembler, ACheckpointWithoutBlocksIsOneToo) {
  Partition partition;
  EXPECT_THAT(Keys(*partition.State(1, 1)), ElementsAre("state"));
}

TEST(CheckpointAssembler, WhatCompactionLeftOfOlderOnesComesWithTheNextWholeOne) {
  Partition partition;
  EXPECT_FALSE(partition.Block(0, "old"));
  EXPECT_FALSE(partition.State(7, 4, 2)) << "chunks 0 and 1 have been replaced since";
  partition.Skip(3);
  EXPECT_FALSE(partition.Block(4096, "new"));
  EXPECT_THAT(Keys(*partition.State(9, 2)),
              ElementsAre("p", "state", "state", "p", "state", "state"));
}

TEST(CheckpointAssembler, ALargeCheckpointComesInPartsOfWhichTheLastSaysWhereItEnds) {
  CheckpointAssembler assembler(100);
  const std::string block = MakeFrames(std::string(60, 'b'), 0).front();
  std::vector<size_t> parts;
  for (uint64_t i = 0; i < 5; ++i) {
    const auto part = assembler.Add(static_cast<Offset>(i), "p" + EncodeBigEndian64(i), block);
    ASSERT_TRUE(part.ok());
    EXPECT_TRUE(!*part || assembler.unfinished());
    if (!*part) continue;
    parts.push_back((*part)->entries.size());
    EXPECT_FALSE((*part)->end);
  }
  EXPECT_THAT(parts, ElementsAre(2, 2));
  const auto last =
      assembler.Add(9, "state" + EncodeBigEndian32(0), MakeFrames("state", 1).front());
  ASSERT_TRUE(last.ok() && *last);
  EXPECT_EQ((*last)->entries.size(), 2u);
  EXPECT_EQ((*last)->end, 10);
  EXPECT_FALSE(assembler.unfinished());
}

TEST(CheckpointAssembler, NamesThePlaceOfAStateThatIsDamaged) {
  for (const std::string& value : {std::string("x"), std::string("\0\0body", 6)}) {
    CheckpointAssembler assembler;
    const Status added = assembler.Add(7, "state" + EncodeBigEndian32(0), value).status();
    EXPECT_TRUE(absl::IsDataLoss(added)) << added;
    EXPECT_THAT(std::string(added.message()), testing::HasSubstr("parameters, offset 7: "));
  }
}

// Replicas are given away in the middle of a large checkpoint, too.
TEST(CheckpointAssembler, WhoGoesOnFromACopyOfAnyMomentHasTheSameInTheEnd) {
  struct Record {
    Offset offset;
    std::string key;
    std::string value;
  };
  std::vector<Record> log;
  Offset next = 0;
  for (uint64_t checkpoint = 0; checkpoint < 4; ++checkpoint) {
    for (uint64_t block = checkpoint % 2; block < 6; ++block) {
      const std::string value(40, static_cast<char>('a' + checkpoint));
      log.push_back({next++, "p" + EncodeBigEndian64(block), MakeFrames(value, 0).front()});
    }
    // A state of several chunks, and one of fewer: what is left of the older one is no harm.
    const std::vector<std::string> chunks =
        MakeFrames(std::string(checkpoint % 2 == 0 ? 90 : 30, 's'), checkpoint, 40);
    for (uint32_t i = 0; i < chunks.size(); ++i) {
      log.push_back({next++, kStateKeyPrefix + EncodeBigEndian32(i), chunks[i]});
    }
    ++next;  // of the transaction's end
  }
  const auto apply = [&](MemoryByteMap& map, size_t& parts, size_t most_parts) {
    Offset from = 0;
    if (const auto value = *map.Get(kParametersOffsetKey)) {
      from = static_cast<Offset>(*DecodeBigEndian64(*value));
    }
    CheckpointAssembler assembler(100);
    for (const Record& record : log) {
      if (record.offset < from || parts == most_parts) continue;
      const auto part = assembler.Add(record.offset, record.key, record.value);
      ASSERT_TRUE(part.ok()) << part.status();
      if (!*part) continue;
      ASSERT_TRUE(map.Write(BatchOf((*part)->entries, (*part)->end)).ok());
      ++parts;
    }
  };
  const auto contents = [](const MemoryByteMap& map) {
    std::vector<std::pair<std::string, std::string>> all;
    EXPECT_TRUE(map.Scan("", "",
                         [&](std::string_view key, std::string_view value) {
                           all.emplace_back(key, value);
                           return true;
                         })
                    .ok());
    return all;
  };
  MemoryByteMap whole;
  size_t all_parts = 0;
  apply(whole, all_parts, SIZE_MAX);
  ASSERT_GT(all_parts, 8u) << "some end within a checkpoint";
  for (size_t most = 0; most <= all_parts; ++most) {
    MemoryByteMap copy;
    size_t parts = 0;
    apply(copy, parts, most);
    parts = 0;
    apply(copy, parts, SIZE_MAX);
    EXPECT_EQ(contents(copy), contents(whole)) << "copied after " << most << " parts";
  }
}

TEST(CheckpointAssembler, ARecordOfSomethingElseIsAnError) {
  CheckpointAssembler assembler;
  const Status status = assembler.Add(3, "somebody's", "record").status();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("offset 3"));
}

}  // namespace
}  // namespace millrace
