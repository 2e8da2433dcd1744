#include "producer/published_batch_wait.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "job/job_registry.h"
#include "tests/kafka/mock_cluster.h"
#include "topics/topics.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;

class PublishedBatchWaitTest : public testing::Test {
 protected:
  PublishedBatchWaitTest() {
    config_.set_name("wait");
    config_.set_brokers(cluster_.options().brokers);
    cluster_.CreateTopic(TopicName("wait", Topic::kJob), 1);
  }

  void Publish(double batch_wait_s) {
    StatusOr<std::unique_ptr<JobRegistry>> registry = JobRegistry::Create(config_, stop_);
    ASSERT_TRUE(registry.ok()) << registry.status();
    JobTraining training;
    training.set_epoch(config_.epoch());
    training.set_shards(1);
    training.mutable_training()->set_batch_wait_s(batch_wait_s);
    ASSERT_TRUE((*registry)->PublishTraining(training).ok());
  }

  MockCluster cluster_;
  JobConfig config_;
  std::atomic<bool> stop_ = false;
};

TEST_F(PublishedBatchWaitTest, IsKnownOnceTheJobHasToldIt) {
  const PublishedBatchWait wait(config_);
  EXPECT_EQ(wait.Get(), std::nullopt);
  Publish(0.25);
  EXPECT_TRUE(Until([&] { return wait.Get() == milliseconds(250); }));
}

TEST_F(PublishedBatchWaitTest, OfLessThanAMillisecondIsAMillisecond) {
  Publish(1e-9);
  const PublishedBatchWait wait(config_);
  EXPECT_TRUE(Until([&] { return wait.Get() == milliseconds(1); }));
}

TEST_F(PublishedBatchWaitTest, OfAJobWhoseBatchesWaitUntilTheyAreFullIsNone) {
  Publish(0);
  const PublishedBatchWait wait(config_);
  EXPECT_FALSE(Until([&] { return wait.Get().has_value(); }, std::chrono::seconds(2)));
}

}  // namespace
}  // namespace millrace
