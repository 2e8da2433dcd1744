#include "tests/simulation/memory_log.h"

#include <gtest/gtest.h>

#include <string>

namespace millrace::simulation {
namespace {

std::string ReadAll(const MemoryLog& log, Topic topic) {
  std::string text;
  for (Offset at = log.Begin(topic, 0); const LogRecord* record = log.Next(topic, 0, at);) {
    text += record->key + "=" + record->value + "@" + std::to_string(record->offset) + " ";
    at = record->offset + 1;
  }
  return text;
}

TEST(MemoryLog, WhatIsOpenIsNotReadAndHidesWhatFollows) {
  MemoryLog log(1, 1);
  const uint64_t epoch = log.InitTransactions("t");
  log.Append(Topic::kParameters, 0, "a", "1");
  ASSERT_TRUE(log.AppendInTransaction("t", epoch, Topic::kParameters, 0, "b", "2").ok());
  log.Append(Topic::kParameters, 0, "c", "3");
  EXPECT_EQ(ReadAll(log, Topic::kParameters), "a=1@0 ");
  ASSERT_TRUE(log.CommitTransaction("t", epoch).ok());
  EXPECT_EQ(ReadAll(log, Topic::kParameters), "a=1@0 b=2@1 c=3@2 ");
  EXPECT_EQ(log.End(Topic::kParameters, 0), 4);  // after the marker
}

TEST(MemoryLog, ANewerInstanceAbortsAndFences) {
  MemoryLog log(1, 1);
  const uint64_t old_epoch = log.InitTransactions("t");
  ASSERT_TRUE(log.AppendInTransaction("t", old_epoch, Topic::kParameters, 0, "a", "1").ok());
  const uint64_t epoch = log.InitTransactions("t");
  EXPECT_EQ(ReadAll(log, Topic::kParameters), "");
  EXPECT_TRUE(absl::IsFailedPrecondition(log.CommitTransaction("t", old_epoch)));
  EXPECT_FALSE(log.AppendInTransaction("t", old_epoch, Topic::kParameters, 0, "a", "2").ok());
  EXPECT_TRUE(log.IsNewest("t", epoch));
  EXPECT_FALSE(log.IsNewest("t", old_epoch));
}

TEST(MemoryLog, ATimeoutAbortsAndFencesWithoutANewerInstance) {
  MemoryLog log(1, 1);
  const uint64_t epoch = log.InitTransactions("t");
  EXPECT_FALSE(log.HasOpenTransaction("t", epoch));
  ASSERT_TRUE(log.AppendInTransaction("t", epoch, Topic::kParameters, 0, "a", "1").ok());
  EXPECT_TRUE(log.HasOpenTransaction("t", epoch));
  log.Append(Topic::kParameters, 0, "b", "2");
  log.TimeOutTransaction("t");
  EXPECT_EQ(ReadAll(log, Topic::kParameters), "b=2@1 ");
  EXPECT_TRUE(log.IsNewest("t", epoch));
  EXPECT_TRUE(log.IsFenced("t", epoch));
  EXPECT_TRUE(absl::IsFailedPrecondition(log.CommitTransaction("t", epoch)));
  const uint64_t next = log.InitTransactions("t");
  EXPECT_FALSE(log.IsNewest("t", epoch));
  EXPECT_FALSE(log.IsFenced("t", next));
}

TEST(MemoryLog, CompactionLeavesTheNewestOfEachKeyAndAllOffsets) {
  MemoryLog log(1, 1);
  for (const char* value : {"1", "2", "3"}) log.Append(Topic::kParameters, 0, "a", value);
  log.Append(Topic::kParameters, 0, "b", "4");
  EXPECT_EQ(log.Compact(Topic::kParameters, 0, 2), 1u);  // only what lies below the limit
  EXPECT_EQ(ReadAll(log, Topic::kParameters), "a=2@1 a=3@2 b=4@3 ");
  EXPECT_EQ(log.Compact(Topic::kParameters, 0, 4), 1u);
  EXPECT_EQ(ReadAll(log, Topic::kParameters), "a=3@2 b=4@3 ");
}

TEST(MemoryLog, ADeletionMovesTheBegin) {
  MemoryLog log(1, 1);
  for (const char* value : {"1", "2", "3"}) log.Append(Topic::kGradients, 0, "a", value);
  log.DeleteBefore(Topic::kGradients, 0, 2);
  EXPECT_EQ(log.Begin(Topic::kGradients, 0), 2);
  EXPECT_EQ(log.Append(Topic::kGradients, 0, "a", "4"), 3);
  EXPECT_EQ(ReadAll(log, Topic::kGradients), "a=3@2 a=4@3 ");
}

}  // namespace
}  // namespace millrace::simulation
