// What is said of topics that are there already. (Of a real broker: broker_admin_test.cc.)
#include "kafka/topic_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kafka/client_config.h"

namespace millrace {
namespace {

using kafka_internal::CheckTopic;
using kafka_internal::DurabilityReport;
using kafka_internal::FoundTopic;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

FoundTopic Found(int replicas, int brokers, const std::string& min_insync) {
  return {.partitions = 1,
          .replicas = replicas,
          .brokers = brokers,
          .settings = {{"min.insync.replicas", min_insync}}};
}

std::vector<std::string> SentencesOf(const FoundTopic& found) {
  DurabilityReport report;
  report.Add("job.gradients", found);
  report.Add("job.parameters", found);
  return report.Sentences();
}

TEST(TopicRules, ATopicThatNoRecordCouldBeWrittenToIsAnError) {
  const Status status = CheckTopic({.name = "t"}, Found(2, 3, "3"));
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  for (const char* part : {"'t'", "min.insync.replicas=3", "--replication-factor 3"}) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
  EXPECT_TRUE(CheckTopic({.name = "t"}, Found(3, 3, "3")).ok());
}

TEST(TopicRules, AnUncleanLeaderIsAnErrorWhereItIsNotWanted) {
  FoundTopic found = Found(3, 3, "2");
  const TopicSettings wanted = {.name = "t",
                                .config = {{"unclean.leader.election.enable", "false"}}};
  found.settings["unclean.leader.election.enable"] = "true";
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckTopic(wanted, found)));
  found.settings["unclean.leader.election.enable"] = "false";
  EXPECT_TRUE(CheckTopic(wanted, found).ok());
}

TEST(TopicRules, TheWritersTimeIsAnErrorWhereTheBrokersIsNeeded) {
  FoundTopic found = Found(3, 3, "2");
  const TopicSettings wanted = {.name = "t",
                                .config = {{"message.timestamp.type", "LogAppendTime"}}};
  found.settings["message.timestamp.type"] = "CreateTime";
  const Status status = CheckTopic(wanted, found);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("message.timestamp.type=CreateTime"));
  found.settings["message.timestamp.type"] = "LogAppendTime";
  EXPECT_TRUE(CheckTopic(wanted, found).ok());
}

TEST(TopicRules, RecordsThatOneBrokerConfirmsAreWarnedOfOnceForAllTopics) {
  const std::vector<std::string> sentences = SentencesOf(Found(3, 3, "1"));
  ASSERT_THAT(sentences, testing::SizeIs(1));
  EXPECT_THAT(sentences[0], HasSubstr("job.gradients, job.parameters"));
  EXPECT_THAT(sentences[0], HasSubstr("min.insync.replicas=2"));
  EXPECT_THAT(SentencesOf(Found(3, 3, "2")), IsEmpty());
  EXPECT_THAT(SentencesOf(Found(2, 3, "1")), IsEmpty());  // more would stand still with one broker
}

TEST(TopicRules, AnOnlyReplicaIsWarnedOfWhereThereAreMoreBrokers) {
  EXPECT_THAT(SentencesOf(Found(1, 3, "1")), ElementsAre(HasSubstr("3 brokers")));
  EXPECT_THAT(SentencesOf(Found(1, 1, "1")), IsEmpty());
}

TEST(TopicRules, ReadersCheckTheChecksumsOfWhatTheyFetch) {
  EXPECT_THAT(kafka_internal::ConsumerSettings({}, 1024),
              testing::Contains(Pair("check.crcs", "true")));
}

}  // namespace
}  // namespace millrace
