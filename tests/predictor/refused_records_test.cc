#include "predictor/refused_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

RefusedRecords Batch(Refused refused) {
  return {
      .output = "delays",
      .input = "departures",
      .reason = "Broker: no",
      .refused = refused,
      .records = {{.partition = 2, .offset = 7, .timestamp_ms = 2000, .has_key = true, .bytes = 9},
                  {.partition = 0, .offset = 5, .timestamp_ms = 1000, .has_key = false},
                  {.partition = 2, .offset = 9, .timestamp_ms = 9000, .has_key = false}}};
}

TEST(RefusalText, NamesTopicReasonAndRecords) {
  EXPECT_THAT(RefusalText(Batch(Refused::kOther)),
              AllOf(HasSubstr("the output topic delays refuses a batch of 3 answers, to departures "
                              "[0] offset 5, departures [2] offsets 7 to 9 (Broker: no). "),
                    HasSubstr("policies"), HasSubstr("then start Predictor again")));
  RefusedRecords one = Batch(Refused::kOther);
  one.records.resize(1);
  EXPECT_THAT(RefusalText(one), HasSubstr("refuses the answer to departures [2] offset 7 (Bro"));
  RefusedRecords many = Batch(Refused::kOther);
  for (int32_t i = 0; i < 100; ++i) many.records.push_back({.partition = i});
  EXPECT_THAT(RefusalText(many), HasSubstr("departures [1] offset 0, departures [2] offsets 0 to 9,"
                                           " and of 97 more partitions ("));
}

TEST(RefusalText, OfTimesNamesTheEarliestAndTheLatest) {
  EXPECT_THAT(RefusalText(Batch(Refused::kTime)),
              AllOf(HasSubstr("departures [0] offset 5 has the time 1970-01-01T00:00:01Z, the "
                              "earliest of them, and departures [2] offset 9 1970-01-01T00:00:09Z"),
                    HasSubstr("message.timestamp.type=LogAppendTime of delays"),
                    HasSubstr("message.timestamp.before.max.ms"),
                    HasSubstr("message.timestamp.difference.max.ms")));
  RefusedRecords one = Batch(Refused::kTime);
  one.records.resize(1);
  one.records[0].timestamp_ms = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(RefusalText(one), AllOf(HasSubstr("has the time 9223372036854775807 ms. Set"),
                                      Not(HasSubstr("latest"))));
}

TEST(RefusalText, OfRecordsNamesTheFirstWithoutAKey) {
  RefusedRecords batch = Batch(Refused::kRecord);
  EXPECT_THAT(RefusalText(batch), AllOf(HasSubstr("departures [0] offset 5 has no key"),
                                        HasSubstr("cleanup.policy=delete of delays")));
  batch.records.resize(1);
  EXPECT_THAT(RefusalText(batch),
              AllOf(HasSubstr("the settings of delays"), Not(HasSubstr("key"))));
}

TEST(RefusalText, OfSizesNamesTheLargest) {
  EXPECT_THAT(RefusalText(Batch(Refused::kSize)),
              AllOf(HasSubstr("departures [2] offset 7 is the largest of them"),
                    HasSubstr("9 bytes. Set max.message.bytes=1048588 of delays")));
}

}  // namespace
}  // namespace millrace
