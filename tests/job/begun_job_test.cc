#include "job/begun_job.h"

#include <gtest/gtest.h>

#include <atomic>

#include "job/job_registry.h"
#include "tests/kafka/mock_cluster.h"
#include "topics/topics.h"

namespace millrace {
namespace {

class ReadBegunJobTest : public testing::Test {
 protected:
  ReadBegunJobTest() {
    config_.set_name("begun");
    config_.set_brokers(cluster_.options().brokers);
  }

  BegunJob Read() {
    const StatusOr<BegunJob> job = ReadBegunJob(config_, never_);
    EXPECT_TRUE(job.ok()) << job.status();
    return job.value_or(BegunJob());
  }

  MockCluster cluster_;
  JobConfig config_;
  std::atomic<bool> never_ = false;
};

TEST_F(ReadBegunJobTest, AJobThatNobodyHasBegunIsEmpty) {
  const BegunJob job = Read();
  EXPECT_FALSE(job.features);
  EXPECT_FALSE(job.training);
  EXPECT_FALSE(job.has_ended);
}

TEST_F(ReadBegunJobTest, ReadsWhatIsPublishedUntilEveryShardHasEnded) {
  cluster_.CreateTopic(TopicName("begun", Topic::kJob), 1);
  JobFeatures features;
  features.set_epoch(config_.epoch());
  features.set_workers(3);
  JobTraining training;
  training.set_epoch(config_.epoch());
  training.set_shards(2);
  const auto registry = JobRegistry::Create(config_, never_);
  ASSERT_TRUE((*registry)->PublishFeatures(features).ok());
  ASSERT_TRUE((*registry)->PublishTraining(training).ok());
  ASSERT_TRUE((*registry)->PublishEnded(ShardId(0)).ok());
  const BegunJob job = Read();
  ASSERT_TRUE(job.features && job.training);
  EXPECT_EQ(job.features->workers(), 3u);
  EXPECT_EQ(job.training->shards(), 2u);
  EXPECT_FALSE(job.has_ended);
  ASSERT_TRUE((*registry)->PublishEnded(ShardId(1)).ok());
  EXPECT_TRUE(Read().has_ended);
}

}  // namespace
}  // namespace millrace
