#include <gtest/gtest.h>

#include <thread>

#include "kafka/offsets_at_time.h"
#include "tests/kafka/mock_cluster.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(OffsetRangeTest, ATopicThatIsNotThereIsNotFoundAlsoIfTheLastQuestionGetsNoAnswer) {
  MockCluster cluster;
  cluster.CreateTopic("t", 1);
  cluster.Forget("t");
  std::thread slower([&] {
    std::this_thread::sleep_for(seconds(3));
    cluster.SetRoundTrip(seconds(20));
  });
  const auto offsets = OffsetsAtTime(cluster.options(), "t", 1, 0, seconds(6));
  slower.join();
  cluster.SetRoundTrip(milliseconds(0));
  EXPECT_TRUE(absl::IsNotFound(offsets.status())) << offsets.status();
}

}  // namespace
}  // namespace millrace
