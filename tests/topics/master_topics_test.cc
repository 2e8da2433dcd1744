#include "topics/master_topics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "topics/topics.h"

namespace millrace {
namespace {

std::string SettingOf(MasterTopic topic, const std::string& name) {
  for (const auto& [key, value] : MasterTopicConfig(topic)) {
    if (key == name) return value;
  }
  return "";
}

TEST(MasterTopicsTest, CarryTheJobsPrefixAndAreNoneOfItsOtherTopics) {
  EXPECT_EQ(MasterTopicName("flights", MasterTopic::kControl), "flights.control");
  EXPECT_EQ(MasterTopicName("flights", MasterTopic::kPlan), "flights.plan");
  for (const Topic topic : kAllTopics) {
    for (const MasterTopic own : kMasterTopics) {
      EXPECT_NE(TopicName("flights", topic), MasterTopicName("flights", own));
    }
  }
}

TEST(MasterTopicsTest, NeitherTimeNorSizeTakesACommandThatIsNotFoldedYet) {
  EXPECT_EQ(SettingOf(MasterTopic::kControl, "cleanup.policy"), "delete");
  EXPECT_EQ(SettingOf(MasterTopic::kControl, "retention.ms"), "-1");
  EXPECT_EQ(SettingOf(MasterTopic::kControl, "retention.bytes"), "-1");
}

TEST(MasterTopicsTest, ThePlanIsCompactedButNotAwayFromUnderItsReader) {
  EXPECT_EQ(SettingOf(MasterTopic::kPlan, "cleanup.policy"), "compact");
  EXPECT_GE(std::stoll(SettingOf(MasterTopic::kPlan, "min.compaction.lag.ms")), 30'000);
  EXPECT_LE(std::stoll(SettingOf(MasterTopic::kPlan, "max.compaction.lag.ms")), 600'000);
}

TEST(MasterTopicsTest, NoneTakesALeaderThatLacksAcknowledgedRecords) {
  for (const MasterTopic topic : kMasterTopics) {
    EXPECT_EQ(SettingOf(topic, "unclean.leader.election.enable"), "false");
  }
}

}  // namespace
}  // namespace millrace
