#include "tasks/log_reading.h"

#include <gtest/gtest.h>

#include "messages/records.pb.h"

namespace millrace {
namespace {

SharedWeights AnswerOf(uint32_t shard, uint64_t version) {
  SharedWeights shared;
  shared.set_shard(shard);
  shared.set_version(version);
  shared.add_answers();
  return shared;
}

void Straight(LogReading& reading, const SharedWeights& shared) {
  reading.Take(shared, LogReading::Way::kStream);
}
void Logged(LogReading& reading, const SharedWeights& shared) {
  reading.Take(shared, LogReading::Way::kLog);
}

// So many answers of shard 0, which come straight, from this version on; true: reading ended, with
// the last of them.
bool EndsAfter(LogReading& reading, size_t answers, uint64_t version) {
  for (size_t i = 1; i < answers; ++i) {
    Straight(reading, AnswerOf(0, ++version));
    if (reading.TakeEnd()) return false;
  }
  Straight(reading, AnswerOf(0, ++version));
  return reading.TakeEnd();
}

TEST(LogReading, EndsWhenAnswersHaveComeStraightForAWhile) {
  LogReading reading;
  EXPECT_TRUE(reading.reads());
  EXPECT_TRUE(EndsAfter(reading, LogReading::kEnough, 0));
  EXPECT_FALSE(reading.reads());
  EXPECT_FALSE(reading.TakeEnd()) << "that was said";
}

TEST(LogReading, GoesOnWhereAnAnswerComesThroughTheLogOnly) {
  LogReading reading;
  // One of two servers has no streams, or answers are too large for one now and then.
  for (uint64_t round = 1; round < 10 * LogReading::kEnough; ++round) {
    Straight(reading, AnswerOf(0, round));
    Logged(reading, AnswerOf(1, round));
    EXPECT_FALSE(reading.TakeEnd());
  }
}

TEST(LogReading, IsNotKeptUpByWhatIsPublishedForOthersOrHasComeBefore) {
  LogReading reading;
  for (uint64_t round = 1; round <= LogReading::kEnough; ++round) {
    EXPECT_FALSE(reading.TakeEnd());
    SharedWeights published = AnswerOf(0, 10 * round + 1);
    published.clear_answers();
    Straight(reading, AnswerOf(0, 10 * round));
    Logged(reading, AnswerOf(0, 10 * round));
    Logged(reading, published);
  }
  EXPECT_TRUE(reading.TakeEnd());
}

TEST(LogReading, DoesNotEndByAnswersThatTheLogHadFirst) {
  LogReading reading;
  for (uint64_t round = 1; round < 10 * LogReading::kEnough; ++round) {
    Logged(reading, AnswerOf(0, round));
    Straight(reading, AnswerOf(0, round));
    EXPECT_FALSE(reading.TakeEnd());
  }
}

TEST(LogReading, BeginsAgainOnceWhenAnAnswerMayBeLost) {
  LogReading reading;
  EXPECT_FALSE(reading.Begin()) << "it reads";
  ASSERT_TRUE(EndsAfter(reading, LogReading::kEnough, 1000));
  EXPECT_TRUE(reading.Begin());
  EXPECT_FALSE(reading.Begin());
  EXPECT_TRUE(reading.reads());
  // Of a server that has begun anew, too.
  EXPECT_TRUE(EndsAfter(reading, LogReading::kEnough, 0));
}

TEST(LogReading, CountsFromAnAnswerThatMayBeLost) {
  LogReading reading;
  EXPECT_FALSE(EndsAfter(reading, LogReading::kEnough - 1, 0));
  EXPECT_FALSE(reading.Begin());
  EXPECT_TRUE(EndsAfter(reading, LogReading::kEnough, 0));
}

TEST(LogReading, CountsRecordsOfWorkersOwnToo) {
  LogReading reading;
  for (size_t i = 0; i < LogReading::kEnough - 1; ++i) reading.TakeOwn(LogReading::Way::kStream);
  reading.TakeOwn(LogReading::Way::kLog);
  for (size_t i = 0; i < LogReading::kEnough - 1; ++i) reading.TakeOwn(LogReading::Way::kStream);
  EXPECT_FALSE(reading.TakeEnd());
  reading.TakeOwn(LogReading::Way::kStream);
  EXPECT_TRUE(reading.TakeEnd());
}

}  // namespace
}  // namespace millrace
