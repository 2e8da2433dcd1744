#include "kafka/status_of_error.h"

#include <gtest/gtest.h>

namespace millrace::kafka_internal {
namespace {

TEST(StatusOfErrorTest, ACreatedTopicWaitsForBrokersOfWhichTheControllerHasNotHeardForAWhile) {
  const Status status = StatusOfError(RD_KAFKA_RESP_ERR_INVALID_REPLICATION_FACTOR, "creating t",
                                      "Unable to replicate the partition 1 time(s): All brokers "
                                      "are currently fenced.");
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

TEST(StatusOfErrorTest, ACreatedTopicOfMoreReplicasThanThereAreBrokersIsWrongUsage) {
  const Status status = StatusOfError(
      RD_KAFKA_RESP_ERR_INVALID_REPLICATION_FACTOR, "creating t",
      "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be "
      "reached because only 1 broker(s) are registered.");
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
}

}  // namespace
}  // namespace millrace::kafka_internal
