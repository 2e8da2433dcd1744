#include "job/metric_points.h"

#include <gtest/gtest.h>

#include "tests/kafka/mock_cluster.h"
#include "topics/topics.h"

namespace millrace {
namespace {

class MetricPointsTest : public testing::Test {
 protected:
  MetricPointsTest() {
    config_.set_name("points");
    config_.set_brokers(cluster_.options().brokers);
    cluster_.CreateTopic(topic_, 1);
    ProduceNumbers(cluster_.options(), topic_, 0, 0, 5);
  }

  MetricPoints Open(int64_t back) {
    return MetricPoints::Open(config_, "test", back, stop_, &wakeup_).value();
  }
  void Poll(MetricPoints& points) {
    const StatusOr<size_t> events = points.Poll([this](const ConsumedRecord&) {
      ++points_;
      return absl::OkStatus();
    });
    ASSERT_TRUE(events.ok()) << events.status();
    if (*events == 0) wakeup_.WaitFor(std::chrono::milliseconds(20));
  }

  MockCluster cluster_;
  const std::string topic_ = TopicName("points", Topic::kMetrics);
  JobConfig config_;
  const std::atomic<bool> stop_ = false;
  Wakeup wakeup_;
  int points_ = 0;
};

TEST_F(MetricPointsTest, AreReadFromSoManyBeforeTheEnd) {
  for (const auto& [back, expected] : {std::pair{0, 0}, {2, 2}, {9, 5}}) {
    points_ = 0;
    MetricPoints points = Open(back);
    while (!points.is_read()) Poll(points);
    EXPECT_EQ(points_, expected) << back;
  }
}

}  // namespace
}  // namespace millrace
