#include "kafka/read_partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "tests/kafka/mock_cluster.h"

namespace millrace {
namespace {

StatusOr<std::vector<std::string>> ReadAll(const MockCluster& cluster) {
  const std::atomic<bool> stop = false;
  std::vector<std::string> values;
  MILLRACE_RETURN_IF_ERROR(
      ReadPartition(cluster.options(), "test", "t", 0, stop, [&](const ConsumedRecord& record) {
        values.emplace_back(record.value);
        return absl::OkStatus();
      }));
  return values;
}

TEST(ReadPartition, HandsOutWhatIsThereFromTheFirstToTheLast) {
  MockCluster cluster;
  cluster.CreateTopic("t", 1);
  EXPECT_THAT(*ReadAll(cluster), testing::IsEmpty());
  ProduceNumbers(cluster.options(), "t", 0, 0, 3);
  EXPECT_THAT(*ReadAll(cluster), testing::ElementsAre("0", "1", "2"));
}

}  // namespace
}  // namespace millrace
