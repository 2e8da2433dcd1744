#include "topics/frame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace millrace {
namespace {

constexpr size_t kHeaderBytes = 2;
constexpr size_t kChunkHeaderBytes = 18;

std::string RandomBytes(std::mt19937& random, size_t size) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

// What a reader of these frames gets, in order.
std::vector<std::string> Join(ChunkJoiner& joiner, const std::vector<std::string>& frames) {
  std::vector<std::string> messages;
  for (const std::string& bytes : frames) {
    const StatusOr<Frame> frame = ParseFrame(bytes);
    EXPECT_TRUE(frame.ok()) << frame.status();
    if (!frame.ok()) continue;
    const StatusOr<std::optional<std::string>> message = joiner.Add(0, *frame);
    EXPECT_TRUE(message.ok()) << message.status();
    if (message.ok() && *message) messages.push_back(**message);
  }
  return messages;
}

TEST(FrameTest, AMessageOfAnySizeAndAnyChunkSizeComesBackAsItWas) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 3000; ++trial) {
    const size_t max = kChunkHeaderBytes + 1 + random() % 100;
    const std::string message = RandomBytes(random, random() % 600);
    const std::vector<std::string> frames = MakeFrames(message, random(), max);
    for (const std::string& frame : frames) ASSERT_LE(frame.size(), max);
    ChunkJoiner joiner;
    ASSERT_EQ(Join(joiner, frames), std::vector<std::string>{message})
        << message.size() << " bytes in frames of " << max;
    ASSERT_TRUE(joiner.partials().empty());
  }
}

TEST(FrameTest, AMessageIsSplitOnlyWhenItDoesNotFit) {
  const size_t max = 100;
  for (size_t size = 0; size <= max - kHeaderBytes; ++size) {
    const std::vector<std::string> frames = MakeFrames(std::string(size, 'x'), 1, max);
    ASSERT_EQ(frames.size(), 1u) << size;
    ASSERT_EQ(frames[0].size(), size + kHeaderBytes);
    ASSERT_FALSE(ParseFrame(frames[0])->is_chunk);
  }
  const size_t chunk = max - kChunkHeaderBytes;
  EXPECT_EQ(MakeFrames(std::string(max - 1, 'x'), 1, max).size(), 2u);
  EXPECT_EQ(MakeFrames(std::string(2 * chunk, 'x'), 1, max).size(), 2u);
  EXPECT_EQ(MakeFrames(std::string(2 * chunk + 1, 'x'), 1, max).size(), 3u);
}

TEST(FrameTest, ByDefaultAFrameStaysBelowKafkasLimitWithRoomForKeyAndHeaders) {
  const std::vector<std::string> frames = MakeFrames(std::string(3'000'000, 'x'), 7);
  EXPECT_EQ(frames.size(), 4u);
  for (const std::string& frame : frames) EXPECT_LE(frame.size(), (1u << 20) - 4096);
  ChunkJoiner joiner;
  EXPECT_EQ(Join(joiner, frames), std::vector<std::string>{std::string(3'000'000, 'x')});
}

TEST(FrameTest, ChunksSayWhichOfWhichMessageTheyAre) {
  const std::vector<std::string> frames = MakeFrames(std::string(100, 'x'), 0x123456789abcdef0, 60);
  ASSERT_EQ(frames.size(), 3u);
  for (uint32_t i = 0; i < 3; ++i) {
    const Frame frame = *ParseFrame(frames[i]);
    EXPECT_TRUE(frame.is_chunk);
    EXPECT_EQ(frame.message_id, 0x123456789abcdef0u);
    EXPECT_EQ(frame.index, i);
    EXPECT_EQ(frame.count, 3u);
  }
}

TEST(FrameTest, RefusesAnotherFormatVersionAndNamesBoth) {
  for (int version = 0; version < 256; ++version) {
    if (version == kFormatVersion) continue;
    std::string bytes = MakeFrames("message", 0).front();
    bytes[0] = static_cast<char>(version);
    const StatusOr<Frame> frame = ParseFrame(bytes);
    ASSERT_FALSE(frame.ok());
    EXPECT_EQ(frame.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(frame.status().message(),
              "format version " + std::to_string(version) + ", but this program reads 2");
  }
}

TEST(FrameTest, RefusesWhatIsShorterThanItsHeader) {
  EXPECT_FALSE(ParseFrame("").ok());
  EXPECT_FALSE(ParseFrame("\x02").ok());
  EXPECT_TRUE(ParseFrame(std::string("\x02\x00", 2)).ok());
  const std::string chunk = MakeFrames(std::string(100, 'x'), 1, 60).front();
  for (size_t size = 0; size < kChunkHeaderBytes; ++size) {
    EXPECT_FALSE(ParseFrame(chunk.substr(0, size)).ok()) << size;
  }
}

TEST(FrameTest, RefusesChunkNumbersThatMakeNoSense) {
  const auto chunk = [](uint32_t index, uint32_t count) {
    std::string bytes = MakeFrames(std::string(100, 'x'), 1, 60).front();
    for (int i = 0; i < 4; ++i) {
      bytes[10 + i] = static_cast<char>(index >> (24 - 8 * i));
      bytes[14 + i] = static_cast<char>(count >> (24 - 8 * i));
    }
    return bytes;
  };
  EXPECT_TRUE(ParseFrame(chunk(0, 2)).ok());
  EXPECT_TRUE(ParseFrame(chunk(1, 2)).ok());
  EXPECT_FALSE(ParseFrame(chunk(2, 2)).ok());
  EXPECT_FALSE(ParseFrame(chunk(0, 0)).ok());
  EXPECT_FALSE(ParseFrame(chunk(0, 1)).ok());
  EXPECT_FALSE(ParseFrame(chunk(0xffffffff, 2)).ok());
}

TEST(FrameTest, RefusesASecondByteOtherThanWholeAndChunk) {
  std::string bytes = MakeFrames(std::string(100, 'x'), 1, 60).front();
  for (int kind = 2; kind < 256; ++kind) {
    bytes[1] = static_cast<char>(kind);
    EXPECT_FALSE(ParseFrame(bytes).ok()) << kind;
  }
}

TEST(FrameTest, NoDamageMakesItCrash) {
  std::mt19937 random(2);
  ChunkJoiner joiner;
  for (int trial = 0; trial < 20'000; ++trial) {
    std::string bytes = MakeFrames(RandomBytes(random, random() % 80), random(), 40).front();
    for (int change = random() % 4; change >= 0; --change) {
      if (!bytes.empty()) bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    bytes.resize(random() % (bytes.size() + 1));
    const StatusOr<Frame> frame = ParseFrame(bytes);
    if (!frame.ok()) continue;
    EXPECT_TRUE(joiner.Add(0, *frame).ok());
    ASSERT_LT(frame->index, frame->count);
    ASSERT_LE(joiner.partials().size(), ChunkJoiner::kKept);
  }
}

TEST(ChunkJoinerTest, AWholeMessagePassesBetweenTheChunksOfAnother) {
  const std::vector<std::string> chunks = MakeFrames(std::string(100, 'x'), 1, 60);
  std::vector<std::string> log = {chunks[0], MakeFrames("whole", 2).front(), chunks[1], chunks[2]};
  ChunkJoiner joiner;
  EXPECT_EQ(Join(joiner, log), (std::vector<std::string>{"whole", std::string(100, 'x')}));
}

TEST(ChunkJoinerTest, JoinsTwoInterleavedSendersInEveryOrder) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 2000; ++trial) {
    const std::string mine = RandomBytes(random, 100 + random() % 200);
    const std::string zombies = RandomBytes(random, 100 + random() % 200);
    const std::vector<std::string> a = MakeFrames(mine, 1, 60);
    const std::vector<std::string> b = MakeFrames(zombies, 2, 60);
    std::vector<std::string> log;
    size_t i = 0;
    size_t j = 0;
    while (i < a.size() || j < b.size()) {
      const bool take_a = j == b.size() || (i < a.size() && random() % 2 == 0);
      log.push_back(take_a ? a[i++] : b[j++]);
    }
    ChunkJoiner joiner;
    std::vector<std::string> messages = Join(joiner, log);
    ASSERT_EQ(messages.size(), 2u);
    const bool mine_first = messages[0] == mine;
    ASSERT_EQ(messages[mine_first ? 0 : 1], mine);
    ASSERT_EQ(messages[mine_first ? 1 : 0], zombies);
    ASSERT_TRUE(joiner.partials().empty());
  }
}

TEST(ChunkJoinerTest, ForgetsTheOldestUnfinishedMessageWhenAThirdBegins) {
  const auto message = [](char c) { return MakeFrames(std::string(70, c), c, 60); };
  const std::vector<std::string> a = message('a');
  const std::vector<std::string> b = message('b');
  const std::vector<std::string> c = message('c');
  ChunkJoiner joiner;
  EXPECT_EQ(Join(joiner, {a[0], b[0], c[0]}), std::vector<std::string>{});
  EXPECT_EQ(joiner.partials().size(), ChunkJoiner::kKept);
  EXPECT_EQ(Join(joiner, {a[1]}), std::vector<std::string>{});
  EXPECT_EQ(Join(joiner, {c[1], b[1]}),
            (std::vector<std::string>{std::string(70, 'c'), std::string(70, 'b')}));
}

TEST(ChunkJoinerTest, AMessageThatBeginsAgainReplacesItsUnfinishedSelf) {
  const std::vector<std::string> chunks = MakeFrames(std::string(120, 'x'), 1, 60);
  ASSERT_EQ(chunks.size(), 3u);
  ChunkJoiner joiner;
  EXPECT_EQ(Join(joiner, {chunks[0], chunks[1], chunks[0], chunks[1], chunks[2]}),
            std::vector<std::string>{std::string(120, 'x')});
}

TEST(ChunkJoinerTest, AChunkThatIsOutOfOrderStartsNothingAndSpoilsNothing) {
  const std::vector<std::string> chunks = MakeFrames(std::string(120, 'x'), 1, 60);
  ChunkJoiner joiner;
  EXPECT_EQ(Join(joiner, {chunks[1], chunks[2]}), std::vector<std::string>{});
  EXPECT_TRUE(joiner.partials().empty());
  EXPECT_EQ(Join(joiner, {chunks[0], chunks[2], chunks[1], chunks[1], chunks[2]}),
            std::vector<std::string>{std::string(120, 'x')});
}

TEST(ChunkJoinerTest, TheRestOfAMessageWhoseHeadWasLostIsNotJoinedToAnother) {
  const std::vector<std::string> a = MakeFrames(std::string(120, 'a'), 1, 60);
  const std::vector<std::string> b = MakeFrames(std::string(120, 'b'), 2, 60);
  ChunkJoiner joiner;
  EXPECT_EQ(Join(joiner, {a[0], b[1], b[2], a[1], b[2], a[2]}),
            std::vector<std::string>{std::string(120, 'a')});
}

// An encoder of another version, or another size limit, may split the message of an id otherwise.
TEST(ChunkJoinerTest, AMessageIsJoinedOfChunksOfOneCountOnly) {
  const std::string message(120, 'x');
  const std::vector<std::string> three = MakeFrames(message, 1, 60);
  const std::vector<std::string> four = MakeFrames(std::string(120, 'y'), 1, 50);
  ASSERT_EQ(three.size(), 3u);
  ASSERT_EQ(four.size(), 4u);
  ChunkJoiner joiner;
  EXPECT_EQ(Join(joiner, {three[0], four[1], three[1], four[2], three[2]}),
            std::vector<std::string>{message});
  EXPECT_EQ(Join(joiner, {three[0], four[0], three[1], three[2]}),
            std::vector<std::string>{message})
      << "one that begins does not replace another of the same id";
}

// Whatever stands in the log in whatever order: what comes out is only what somebody put in.
TEST(ChunkJoinerTest, NeverJoinsAMessageThatNobodySent) {
  std::mt19937 random(4);
  for (int trial = 0; trial < 1000; ++trial) {
    std::map<std::string, int> sent;
    std::vector<std::string> log;
    for (uint64_t id = 0; id < 5; ++id) {
      const std::string message = RandomBytes(random, 50 + random() % 150);
      ++sent[message];
      for (const std::string& frame : MakeFrames(message, id, 60)) log.push_back(frame);
    }
    std::shuffle(log.begin(), log.end(), random);
    ChunkJoiner joiner;
    for (const std::string& message : Join(joiner, log)) ASSERT_TRUE(sent.contains(message));
  }
}

TEST(ChunkJoinerTest, RestoredInTheMiddleItGoesOnAsIfNothingHadHappened) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<std::string> log;
    for (int step = 0; step < 30; ++step) {
      const uint64_t id = random() % 3;
      const std::vector<std::string> frames = MakeFrames(std::string(100 + 30 * id, 'x'), id, 60);
      log.push_back(frames[random() % frames.size()]);
    }
    ChunkJoiner live;
    const size_t cut = random() % log.size();
    Join(live, {log.begin(), log.begin() + static_cast<ptrdiff_t>(cut)});
    ChunkJoiner restored;
    restored.Restore(live.partials());
    const std::vector<std::string> rest(log.begin() + static_cast<ptrdiff_t>(cut), log.end());
    ASSERT_EQ(Join(restored, rest), Join(live, rest));
    ASSERT_EQ(restored.partials(), live.partials());
  }
}

// Chunks of 42 bytes, but the last.
std::vector<Frame> Chunks(const std::vector<std::string>& frames) {
  std::vector<Frame> chunks;
  for (const std::string& frame : frames) chunks.push_back(*ParseFrame(frame));
  return chunks;
}

TEST(ChunkJoinerTest, AMessageThatOutgrowsWhatIsKeptOfASenderIsRefusedAndForgotten) {
  const std::vector<std::string> frames = MakeFrames(std::string(200, 'x'), 1, 60);
  const std::vector<Frame> chunks = Chunks(frames);
  ChunkJoiner joiner({.sender_bytes = 100, .bytes = 1000});
  EXPECT_TRUE(joiner.Add(7, chunks[0]).ok());
  EXPECT_TRUE(joiner.Add(7, chunks[1]).ok());
  EXPECT_EQ(joiner.bytes(), 84u);
  const Status refused = joiner.Add(7, chunks[2]).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_TRUE(joiner.partials().empty());
  EXPECT_EQ(joiner.bytes(), 0u);
  const StatusOr<std::optional<std::string>> rest = joiner.Add(7, chunks[3]);
  EXPECT_TRUE(rest.ok() && !rest->has_value()) << "the rest is out of order";
}

TEST(ChunkJoinerTest, HundredsOfSendersNeverTakeMoreThanTheBoundForAll) {
  const std::vector<std::string> frames = MakeFrames(std::string(200, 'x'), 1, 60);
  const std::vector<Frame> chunks = Chunks(frames);
  ChunkJoiner joiner({.sender_bytes = 1000, .bytes = 500});
  for (uint32_t sender = 0; sender < 300; ++sender) {
    EXPECT_TRUE(joiner.Add(sender, chunks[0]).ok());
    EXPECT_TRUE(joiner.Add(sender, chunks[1]).ok());
    EXPECT_LE(joiner.bytes(), 500u);
  }
  // The oldest were forgotten; the newest is joined.
  for (size_t i = 2; i + 1 < chunks.size(); ++i) EXPECT_TRUE(joiner.Add(299, chunks[i]).ok());
  EXPECT_EQ(**joiner.Add(299, chunks.back()), std::string(200, 'x'));
  const StatusOr<std::optional<std::string>> oldest = joiner.Add(0, chunks[2]);
  EXPECT_TRUE(oldest.ok() && !oldest->has_value());
}

TEST(ChunkJoinerTest, SendersDoNotDisturbEachOther) {
  const std::vector<std::string> frames = MakeFrames(std::string(100, 'x'), 1, 60);
  const std::vector<Frame> chunks = Chunks(frames);
  ChunkJoiner joiner;
  for (const Frame& chunk : chunks) {
    const bool is_last = &chunk == &chunks.back();
    for (uint32_t sender = 0; sender < 5; ++sender) {
      EXPECT_EQ(joiner.Add(sender, chunk)->has_value(), is_last);
    }
  }
  EXPECT_TRUE(joiner.Add(3, chunks[0]).ok());
  joiner.Forget(3);
  EXPECT_TRUE(joiner.partials().empty());
  EXPECT_EQ(joiner.bytes(), 0u);
}

TEST(FrameTest, AMessageInPartsIsTheSameFramesAsInOnePiece) {
  std::mt19937 random(6);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<std::string> parts(random() % 5);
    std::string whole;
    for (std::string& part : parts) whole += part = RandomBytes(random, random() % 150);
    EXPECT_EQ(MakeFrames(std::span<const std::string>(parts), 9, 60), MakeFrames(whole, 9, 60));
  }
}

TEST(FrameTest, EachFrameIsGivenAsItIsMadeAndAnErrorEndsIt) {
  const std::string message(100, 'x');
  const std::string_view part = message;
  const std::vector<std::string> all = MakeFrames(message, 9, 60);
  ASSERT_EQ(all.size(), 3u);
  std::vector<std::string> given;
  const Status status = GiveFrames({&part, 1}, 9, 60, [&](std::string frame) -> Status {
    given.push_back(std::move(frame));
    if (given.size() < 2) return absl::OkStatus();
    return absl::UnavailableError("no more");
  });
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(given, std::vector<std::string>(all.begin(), all.begin() + 2));
}

}  // namespace
}  // namespace millrace
