// What users may set by --kafka KEY=VALUE, and what they are told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kafka/admin.h"
#include "tests/kafka/mock_cluster.h"

namespace millrace {
namespace {

using testing::HasSubstr;
using testing::Not;

Status CreateWith(std::vector<std::pair<std::string, std::string>> settings) {
  KafkaOptions kafka;
  kafka.settings = std::move(settings);
  return KafkaProducer::Create(kafka, {.client_id = "test"}, nullptr).status();
}

TEST(Settings, AnUnknownSettingIsNamedAndItsValueIsNotShown) {
  const Status status = CreateWith({{"sasl.pasword", "hunter2"}});
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("sasl.pasword"));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("hunter2")));
}

TEST(Settings, AnInvalidValueIsShownWithTheSetting) {
  const Status status = CreateWith({{"linger.ms", "soon"}});
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("linger.ms"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("soon"));
}

TEST(Settings, ANulIsRefusedAndNotTakenForTheEnd) {
  const std::string nul("a\0b", 3);
  for (const auto& setting : {std::pair<std::string, std::string>("client.rack", nul),
                              std::pair<std::string, std::string>(nul, "a")}) {
    const Status status = CreateWith({setting});
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("has a NUL character"));
  }
}

TEST(Settings, AnInvalidSecretIsNamedAndNotShown) {
  const Status status = CreateWith({{"sasl.oauthbearer.method", "hunter2"}});
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("sasl.oauthbearer.method"));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("hunter2")));
}

TEST(Settings, SettingsThatDoNotFitTogetherAreAnErrorWithoutSecrets) {
  const Status status = CreateWith({{"security.protocol", "SSL"},
                                    {"ssl.keystore.password", "hunter2"},
                                    {"ssl.keystore.location", "/nowhere/hunter2"}});
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nowhere/"));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("hunter2")));
}

TEST(Settings, ASettingOnWhichNothingIsLostRestsIsRefused) {
  for (const char* name : {"auto.offset.reset", "isolation.level", "enable.gapless.guarantee",
                           "acks", "bootstrap.servers"}) {
    const Status status = CreateWith({{name, "1"}});
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(name));
  }
}

TEST(Settings, TheUsersSettingsWin) {
  MockCluster cluster;
  cluster.CreateTopic("t", 1);
  KafkaOptions kafka = cluster.options();
  kafka.settings = {{"message.max.bytes", "2000"}};
  auto producer = KafkaProducer::Create(kafka, {.client_id = "test"}, nullptr);
  ASSERT_TRUE(producer.ok()) << producer.status();
  EXPECT_TRUE(absl::IsInvalidArgument((*producer)->Send("t", 0, "k", std::string(3000, 'x'))));
  EXPECT_TRUE((*producer)->Send("t", 0, "k", std::string(1000, 'x')).ok());
}

// In OpenSSL's words: "error:0A00010B:SSL routines::wrong version number".
TEST(Settings, TlsToAPortWithoutItIsToldInWordsForUsers) {
  MockCluster cluster;
  KafkaOptions kafka = cluster.options();
  kafka.settings = {{"security.protocol", "SSL"}};
  // On a busy machine the mock broker may close the connection before OpenSSL has read its answer.
  std::string said;
  for (int i = 0; i < 20 && said.find("does not speak it") == std::string::npos; ++i) {
    testing::internal::CaptureStderr();
    {
      auto producer = KafkaProducer::Create(kafka, {.client_id = "test"}, nullptr);
      ASSERT_TRUE(producer.ok()) << producer.status();
      EXPECT_FALSE((*producer)->Prepare({"t"}).ok());
    }
    said = testing::internal::GetCapturedStderr();
  }
  EXPECT_THAT(said, HasSubstr("TLS was tried, but this port does not speak it"));
  EXPECT_THAT(said, Not(HasSubstr("error:")));
}

TEST(Settings, SettingsOfAllKindsOfClientsAreTakenByEach) {
  MockCluster cluster;
  KafkaOptions kafka = cluster.options();
  kafka.settings = {{"linger.ms", "3"}, {"fetch.wait.max.ms", "7"}};
  EXPECT_TRUE(KafkaProducer::Create(kafka, {.client_id = "a"}, nullptr).ok());
  EXPECT_TRUE(PartitionConsumer::Create(kafka, {.client_id = "b"}, "t", nullptr).ok());
  EXPECT_TRUE(GroupConsumer::Create(kafka, {.client_id = "c", .group_id = "g"}, "t", nullptr).ok());
  EXPECT_TRUE(KafkaAdmin::Create(kafka, "d").ok());
}

TEST(Settings, AGroupWithoutANameIsAnError) {
  EXPECT_TRUE(absl::IsInvalidArgument(
      GroupConsumer::Create({}, {.client_id = "c"}, "t", nullptr).status()));
}

}  // namespace
}  // namespace millrace
