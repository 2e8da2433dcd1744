#include "follower/job_follower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/big_endian.h"
#include "base/hash.h"
#include "job/job_registry.h"
#include "kafka/producer.h"
#include "tests/kafka/mock_cluster.h"
#include "topics/frame.h"
#include "topics/partitioning.h"
#include "topics/row_codec.h"
#include "topics/topics.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kWorkers = 2;
constexpr uint32_t kShards = 2;
constexpr uint64_t kWeights = 3 * 2;  // two features and the bias, two classes

Status TakeAll(const JobFeatures&, const JobTraining&) { return absl::OkStatus(); }

class JobFollowerTest : public testing::Test {
 protected:
  JobFollowerTest() {
    config_.set_name("followed");
    config_.set_brokers(cluster_.options().brokers);
    for (const TopicPlan& plan : PlanTopics(
             "followed", kWorkers, TopicSizes{.shards = kShards, .most_workers = kWorkers})) {
      cluster_.CreateTopic(plan.name, static_cast<int>(plan.partitions));
    }
    features_.set_epoch(config_.epoch());
    features_.set_workers(kWorkers);
    features_.set_job("followed");
    features_.set_feature_count(2);
    FeatureSpec& spec = *features_.mutable_spec();
    spec.set_label("y");
    spec.add_classes("no");
    spec.add_classes("yes");
    spec.add_categorical("c");
    spec.set_categorical_buckets(2);
    training_.set_epoch(config_.epoch());
    training_.set_shards(kShards);
    training_.mutable_training()->mutable_update()->set_kind(Training::Update::GRADIENT);
  }

  void PublishJob() {
    auto registry = JobRegistry::Create(config_, stop_);
    ASSERT_TRUE(registry.ok()) << registry.status();
    ASSERT_TRUE((*registry)->PublishFeatures(features_).ok());
    ASSERT_TRUE((*registry)->PublishTraining(training_).ok());
  }

  // Of a shard, all of them `weight`, `times` with versions from this one on.
  void Send(ShardId shard, uint64_t version, float weight, int times = 1) {
    auto producer = KafkaProducer::Create(cluster_.options(), {.client_id = "server"}, nullptr);
    ASSERT_TRUE(producer.ok()) << producer.status();
    const KeyRange range = RangeOfShard(shard, kShards, kWeights);
    for (int i = 0; i < times; ++i) {
      SharedWeights message;
      message.set_epoch(config_.epoch());
      message.set_job(Fnv1a64("followed"));
      message.set_shard(shard);
      message.set_version(version + static_cast<uint64_t>(i));
      Slice& slice = *message.mutable_slice();
      slice.set_begin(range.begin);
      slice.set_end(range.end);
      slice.mutable_dense()->Resize(static_cast<int>(range.size()), weight);
      const std::string frame = MakeFrames(message.SerializeAsString(), 0).front();
      ASSERT_TRUE((*producer)
                      ->Send(TopicName("followed", Topic::kWeights),
                             SharedWeightsPartition(kWorkers),
                             EncodeBigEndian32(shard) + EncodeBigEndian32(0), frame)
                      .ok());
    }
    ASSERT_TRUE((*producer)->Flush(std::chrono::seconds(20)).ok());
  }
  void SendBoth(uint64_t version, float weight) {
    for (ShardId shard = 0; shard < kShards; ++shard) Send(shard, version, weight);
  }

  void Follow() { follower_ = JobFollower::Start(config_, TakeAll); }
  // Whether the weights of the shards become these.
  bool WeightsBecome(float first, float second) {
    std::vector<float> expected(kWeights / 2, first);
    expected.insert(expected.end(), kWeights / 2, second);
    return Until([&] {
      const auto model = follower_->model();
      return model != nullptr && model->model().weights == expected;
    });
  }
  bool SaysThat(const std::string& part) {
    const bool said = Until(
        [&] { return std::string(follower_->newer().message()).find(part) != std::string::npos; });
    EXPECT_TRUE(said) << follower_->newer();
    return said;
  }

  MockCluster cluster_;
  JobConfig config_;
  JobFeatures features_;
  JobTraining training_;
  const std::atomic<bool> stop_ = false;
  std::unique_ptr<JobFollower> follower_;
};

TEST_F(JobFollowerTest, WaitsForAJobThatHasNotBegunAndSaysForWhat) {
  cluster_.Forget(TopicName("followed", Topic::kJob));
  Follow();
  EXPECT_TRUE(SaysThat("there is no job followed at"));
  cluster_.Remember(TopicName("followed", Topic::kJob));
  EXPECT_TRUE(SaysThat("published its features"));
  PublishJob();
  EXPECT_TRUE(SaysThat("no weights of the job followed are there yet"));
  EXPECT_EQ(follower_->model(), nullptr);
  Send(0, 1, 0.5f);
  EXPECT_TRUE(SaysThat("none of 1 of its shards"));
  Send(1, 1, 0.25f);
  EXPECT_TRUE(WeightsBecome(0.5f, 0.25f));
  EXPECT_TRUE(follower_->newer().ok()) << follower_->newer();
  EXPECT_TRUE(follower_->failed().ok()) << follower_->failed();
  Send(0, 2, 0.75f);
  EXPECT_TRUE(WeightsBecome(0.75f, 0.25f));
}

TEST_F(JobFollowerTest, BeginsWithTheNewestWeightsHoweverFarBackAShardsAre) {
  PublishJob();
  Send(1, 1, 0.25f);
  Send(0, 1, 0.5f, 3000);
  Follow();
  EXPECT_TRUE(WeightsBecome(0.5f, 0.25f));
}

TEST_F(JobFollowerTest, KeepsItsModelWhileNoBrokerAnswersAndGoesOnWhenOneDoes) {
  PublishJob();
  SendBoth(1, 0.5f);
  Follow();
  ASSERT_TRUE(WeightsBecome(0.5f, 0.5f));
  cluster_.SetDown();
  EXPECT_TRUE(Until([&] { return IsAway(follower_->newer()); })) << follower_->newer();
  EXPECT_EQ(follower_->model()->model().weights, std::vector<float>(kWeights, 0.5f));
  EXPECT_TRUE(follower_->failed().ok()) << follower_->failed();
  cluster_.SetUp();
  SendBoth(2, 0.75f);
  EXPECT_TRUE(WeightsBecome(0.75f, 0.75f));
  EXPECT_TRUE(Until([&] { return follower_->newer().ok(); })) << follower_->newer();
}

TEST_F(JobFollowerTest, SaysWhenTheJobHasEnded) {
  PublishJob();
  SendBoth(1, 0.5f);
  Follow();
  ASSERT_TRUE(WeightsBecome(0.5f, 0.5f));
  EXPECT_THAT(follower_->MoreJson(), HasSubstr("\"ended\":false"));
  auto registry = JobRegistry::Create(config_, stop_);
  ASSERT_TRUE(registry.ok()) << registry.status();
  for (ShardId shard = 0; shard < kShards; ++shard) {
    ASSERT_TRUE((*registry)->PublishEnded(shard).ok());
  }
  EXPECT_TRUE(
      Until([&] { return follower_->MoreJson().find("\"ended\":true") != std::string::npos; }));
  EXPECT_TRUE(follower_->newer().ok()) << follower_->newer();
}

TEST_F(JobFollowerTest, GivesUpAJobOfWhichThereIsNoModel) {
  training_.mutable_training()->set_model(Training::FACTORIZATION_MACHINE);
  PublishJob();
  Follow();
  EXPECT_TRUE(Until([&] { return !follower_->failed().ok(); }));
  EXPECT_THAT(std::string(follower_->failed().message()), HasSubstr("need id columns"));
}

TEST_F(JobFollowerTest, WaitsForTheFirstCheckpointOfAModelWithRows) {
  training_.mutable_training()->set_wide_above(1);
  PublishJob();
  SendBoth(1, 0.5f);
  Follow();
  EXPECT_TRUE(SaysThat("no checkpoint of 2 of the shards of the job followed is there yet"));
  EXPECT_EQ(follower_->model(), nullptr);
}

TEST_F(JobFollowerTest, GivesUpWhatTheProgramDoesNotTake) {
  PublishJob();
  follower_ = JobFollower::Start(config_, [](const JobFeatures&, const JobTraining&) {
    return absl::DataLossError("no such job");
  });
  EXPECT_TRUE(Until([&] { return absl::IsDataLoss(follower_->failed()); }));
}

TEST_F(JobFollowerTest, WaitsForABrokerForAsLongAsItMay) {
  cluster_.SetDown();
  config_.set_broker_timeout_s(0.3);
  Follow();
  EXPECT_TRUE(Until([&] { return absl::IsDeadlineExceeded(follower_->failed()); }))
      << follower_->failed();
  EXPECT_THAT(std::string(follower_->failed().message()), HasSubstr("--broker-timeout"));
}

TEST_F(JobFollowerTest, EndsWhileItWaits) {
  cluster_.SetDown();
  Follow();
  follower_.reset();
}

TEST_F(JobFollowerTest, MeasuresHowFreshItsWeightsAre) {
  PublishJob();
  SendBoth(1, 0.5f);
  Follow();
  ASSERT_TRUE(WeightsBecome(0.5f, 0.5f));
  auto producer = KafkaProducer::Create(cluster_.options(), {.client_id = "rows"}, nullptr);
  ASSERT_TRUE(producer.ok()) << producer.status();
  Row row;
  row.index = {1};
  row.value = {1};
  uint64_t rows = 0;
  // (Those that come before it looks at the worker are not measured.)
  EXPECT_TRUE(Until([&] {
    ++rows;
    EXPECT_TRUE((*producer)
                    ->Send(TopicName("followed", Topic::kInputData), 0,
                           EncodeInputKey({RowNumber(rows - 1), 1}), EncodeRow(row))
                    .ok());
    Weights answer;
    answer.set_epoch(config_.epoch());
    answer.set_job(Fnv1a64("followed"));
    answer.set_clock(rows);
    answer.mutable_rows()->set_end(rows);
    EXPECT_TRUE((*producer)
                    ->Send(TopicName("followed", Topic::kWeights), 0,
                           EncodeBigEndian32(0) + EncodeBigEndian32(0),
                           MakeFrames(answer.SerializeAsString(), 0).front())
                    .ok());
    EXPECT_TRUE((*producer)->Flush(std::chrono::seconds(20)).ok());
    SendBoth(1 + rows, 0.25f);
    return follower_->MoreJson().find("\"p50_ms\":") != std::string::npos;
  })) << follower_->MoreJson();
}

TEST_F(JobFollowerTest, PassesOverRecordsOfStrangers) {
  PublishJob();
  SendBoth(1, 0.5f);
  auto producer = KafkaProducer::Create(cluster_.options(), {.client_id = "stranger"}, nullptr);
  ASSERT_TRUE(producer.ok()) << producer.status();
  ASSERT_TRUE((*producer)
                  ->Send(TopicName("followed", Topic::kWeights), SharedWeightsPartition(kWorkers),
                         "key", "no weights")
                  .ok());
  ASSERT_TRUE((*producer)->Flush(std::chrono::seconds(20)).ok());
  Follow();
  EXPECT_TRUE(WeightsBecome(0.5f, 0.5f));
  SendBoth(2, 0.75f);
  EXPECT_TRUE(WeightsBecome(0.75f, 0.75f));
}

}  // namespace
}  // namespace millrace
