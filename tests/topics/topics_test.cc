#include "topics/topics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "messages/job.pb.h"
#include "topics/frame.h"
#include "topics/most_workers.h"

namespace millrace {
namespace {

constexpr uint32_t kWorkers = 4;
constexpr uint32_t kShards = 2;
constexpr uint32_t kMostWorkersOfJob = 6;  // while it runs
constexpr TopicSizes kSizes = {.shards = kShards, .most_workers = kMostWorkersOfJob};

TopicPlan Plan(Topic topic) {
  for (const TopicPlan& plan : PlanTopics("job", kWorkers, kSizes)) {
    if (plan.topic == topic) return plan;
  }
  ADD_FAILURE() << "a topic is not planned";
  return {};
}

// A setting of the topic; empty when it is the broker's default.
std::string Setting(Topic topic, const std::string& name) {
  const TopicPlan plan = Plan(topic);
  const auto setting = std::find_if(plan.config.begin(), plan.config.end(),
                                    [&](const auto& entry) { return entry.first == name; });
  return setting == plan.config.end() ? "" : setting->second;
}

TEST(TopicsTest, EveryNameCarriesTheJobsPrefixAndIsDifferent) {
  std::set<std::string> names;
  for (Topic topic : kAllTopics) {
    const std::string name = TopicName("flights", topic);
    EXPECT_EQ(name.rfind("flights.", 0), 0u) << name;
    names.insert(name);
  }
  EXPECT_EQ(names.size(), std::size(kAllTopics));
  EXPECT_EQ(TopicName("flights", Topic::kInputData), "flights.input-data");
  EXPECT_EQ(TopicName("flights", Topic::kDeadLetter), "flights.dead-letter");
}

TEST(TopicsTest, LayoutsOfShardsShareNoTopicThatHasToDoWithShards) {
  JobConfig config;
  config.set_name("flights");
  EXPECT_EQ(TopicName(config, Topic::kGradients), "flights.gradients");
  config.set_layout(2);
  EXPECT_EQ(TopicName(config, Topic::kGradients), "flights.layout-2.gradients");
  EXPECT_EQ(TopicName(config, Topic::kWeights), "flights.layout-2.weights");
  EXPECT_EQ(TopicName(config, Topic::kParameters), "flights.layout-2.parameters");
  for (const Topic topic : {Topic::kJob, Topic::kInputData, Topic::kMetrics, Topic::kDeadLetter}) {
    EXPECT_EQ(TopicName(config, topic), TopicName("flights", topic));
  }
  for (const TopicPlan& plan : PlanTopics("flights", kWorkers, kSizes, 2)) {
    EXPECT_EQ(plan.name, TopicName(config, plan.topic));
  }
}

TEST(TopicsTest, TwoJobsShareNoTopic) {
  std::set<std::string> names;
  for (const char* job : {"a", "b", "a.b"}) {
    for (Topic topic : kAllTopics) names.insert(TopicName(job, topic));
  }
  EXPECT_EQ(names.size(), 3 * std::size(kAllTopics));
}

TEST(TopicsTest, EachTopicIsPlannedOnceUnderItsName) {
  std::set<std::string> names;
  for (const TopicPlan& plan : PlanTopics("job", kWorkers, kSizes)) {
    EXPECT_EQ(plan.name, TopicName("job", plan.topic));
    EXPECT_TRUE(names.insert(plan.name).second) << plan.name;
  }
  EXPECT_EQ(names.size(), std::size(kAllTopics));
}

// One worker's clock a month ahead would let every embedding row expire.
TEST(TopicsTest, TheTimeOfGradientsIsTheBrokers) {
  for (const TopicPlan& plan : PlanTopics("job", kWorkers, kSizes)) {
    const bool is_brokers =
        std::ranges::count(plan.config, std::pair<std::string, std::string>(
                                            "message.timestamp.type", "LogAppendTime")) == 1;
    EXPECT_EQ(is_brokers, plan.topic == Topic::kGradients) << plan.name;
  }
}

TEST(TopicsTest, RowsHaveAPartitionPerWorkerWeightsForAllThatThereMayBeOthersOnePerShard) {
  const std::map<Topic, uint32_t> expected = {{Topic::kJob, 1},
                                              {Topic::kInputData, kWorkers},
                                              {Topic::kGradients, kShards},
                                              {Topic::kWeights, kMostWorkersOfJob + 1},
                                              {Topic::kParameters, kShards},
                                              {Topic::kMetrics, 1},
                                              {Topic::kDeadLetter, 1}};
  for (const auto& [topic, partitions] : expected) EXPECT_EQ(Plan(topic).partitions, partitions);
}

TEST(TopicsTest, NeitherTimeNorSizeTakesWhatATaskStillNeeds) {
  for (Topic topic : {Topic::kGradients, Topic::kInputData}) {
    EXPECT_EQ(Setting(topic, "cleanup.policy"), "delete");
    EXPECT_EQ(Setting(topic, "retention.ms"), "-1");
    EXPECT_EQ(Setting(topic, "retention.bytes"), "-1");
  }
}

TEST(TopicsTest, TheDurableModelAndTheJobAreCompactedAndNeverDeleted) {
  for (Topic topic : {Topic::kParameters, Topic::kJob}) {
    EXPECT_EQ(Setting(topic, "cleanup.policy"), "compact");
  }
}

TEST(TopicsTest, NothingNewIsCompactedAwayFromUnderAReaderOfParameters) {
  // A reader that starts at the beginning takes seconds, and an absent copy may be a week old.
  EXPECT_GE(std::stoll(Setting(Topic::kParameters, "min.compaction.lag.ms")), 30'000);
  EXPECT_GE(std::stoll(Setting(Topic::kParameters, "max.compaction.lag.ms")),
            std::stoll(Setting(Topic::kParameters, "min.compaction.lag.ms")));
  EXPECT_GE(std::stoll(Setting(Topic::kParameters, "delete.retention.ms")), 86'400'000);
}

TEST(TopicsTest, WhatIsDeletedSoonStandsInSmallSegmentsSinceBrokersFreeWholeOnes) {
  for (Topic topic : {Topic::kGradients, Topic::kInputData, Topic::kWeights}) {
    const std::string bytes = Setting(topic, "segment.bytes");
    ASSERT_NE(bytes, "");
    EXPECT_LE(std::stoll(bytes), 64 << 20);
    EXPECT_GT(std::stoll(bytes), static_cast<int64_t>(kMaxFrameBytes));
  }
}

TEST(TopicsTest, EveryTopicTakesTheLargestFrameWhateverTheClustersDefault) {
  for (Topic topic : kAllTopics) {
    const std::string bytes = Setting(topic, "max.message.bytes");
    ASSERT_NE(bytes, "");
    EXPECT_GT(std::stoll(bytes), static_cast<int64_t>(kMaxFrameBytes) + 50'000);
  }
}

TEST(TopicsTest, NoTopicTakesALeaderThatLacksAcknowledgedRecords) {
  for (Topic topic : kAllTopics)
    EXPECT_EQ(Setting(topic, "unclean.leader.election.enable"), "false");
}

TEST(TopicsTest, WeightsAreShortLivedSinceAWorkerAsksAgain) {
  EXPECT_EQ(Setting(Topic::kWeights, "cleanup.policy"), "delete");
  EXPECT_GT(std::stoll(Setting(Topic::kWeights, "retention.ms")), 0);
  EXPECT_GT(std::stoll(Setting(Topic::kWeights, "retention.bytes")), 0);
}

TEST(TopicsTest, DeadLettersAreKeptForAMonthSinceTheyHoldWholeRows) {
  const auto days = std::stoll(Setting(Topic::kDeadLetter, "retention.ms")) / 86'400'000;
  EXPECT_EQ(days, 30);
}

TEST(TopicsTest, WhoDoesNotKnowTheTrainingSettingsLeavesTheTopicsThatNeedThemAlone) {
  std::set<Topic> left_out(std::begin(kAllTopics), std::end(kAllTopics));
  for (const TopicPlan& plan : PlanTopics("job", kWorkers, std::nullopt))
    left_out.erase(plan.topic);
  EXPECT_EQ(left_out, (std::set<Topic>{Topic::kGradients, Topic::kWeights, Topic::kParameters}));
}

TEST(TopicsTest, AJobMayHaveMoreWorkersWhileItRunsWhereRowsAreLeased) {
  Training training;
  EXPECT_EQ(MostWorkers(training, 3), 3u);
  training.set_sharding(Training::DYNAMIC);
  EXPECT_EQ(MostWorkers(training, 3), 16u);
  EXPECT_EQ(MostWorkers(training, 30), 120u);
  EXPECT_EQ(MostWorkers(training, kMostWorkers), kMostWorkers);
  training.set_max_workers(5);
  EXPECT_EQ(MostWorkers(training, 3), 5u);
}

TEST(TopicsDeathTest, AJobWithoutWorkersOrShardsIsAnErrorOfOurOwn) {
  EXPECT_DEATH(PlanTopics("job", 0, TopicSizes()), "broken invariant");
  EXPECT_DEATH(PlanTopics("job", 1, TopicSizes{.shards = 0}), "broken invariant");
}

}  // namespace
}  // namespace millrace
