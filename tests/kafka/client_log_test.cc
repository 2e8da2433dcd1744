#include "kafka/client_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace::kafka_internal {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr char kRefused[] =
    "[thrd:127.0.0.1:9092/1]: 127.0.0.1:9092/1: Connect to ipv4#127.0.0.1:9092 failed: Connection "
    "refused (after 0ms in state CONNECT)";
constexpr char kRefusedAgain[] =
    "[thrd:127.0.0.1:9092/1]: 127.0.0.1:9092/1: Connect to ipv4#127.0.0.1:9092 failed: Connection "
    "refused (after 3ms in state CONNECT, 61 identical error(s) suppressed)";

class ClientLogTest : public testing::Test {
 protected:
  std::vector<std::string> lines_;
  ClientLog::Time now_{};
  ClientLog log_{[this](const std::string& line) { lines_.push_back(line); },
                 [this] { return now_; }};
};

TEST_F(ClientLogTest, AnOutageIsOneLineAndItsEndAnother) {
  log_.Line(3, "FAIL", kRefused);
  for (int i = 0; i < 5; ++i) {
    now_ += std::chrono::seconds(31);
    log_.Line(3, "FAIL", kRefusedAgain);
  }
  log_.BrokerUp("127.0.0.1", 9092);
  log_.BrokerUp("127.0.0.1", 9092);
  EXPECT_THAT(lines_, ElementsAre("kafka: no connection to 127.0.0.1:9092 (Connection refused); "
                                  "retrying until it is reachable",
                                  "kafka: connected to 127.0.0.1:9092 after 155.0 s"));
}

TEST_F(ClientLogTest, WhoIsFencedSaysSoItself) {
  log_.Line(3, "TXNERR",
            "[thrd:main]: Fatal transaction error: Failed to end transaction: Local: This instance "
            "has been fenced by a newer instance (_FENCED)");
  log_.Line(0, "FATAL",
            "[thrd:main]: Fatal error: Local: This instance has been fenced by a newer instance: "
            "Failed to end transaction");
  EXPECT_THAT(lines_, IsEmpty());
}

TEST_F(ClientLogTest, CoordinatorsAndBrokersOfOneAddressAreOneOutage) {
  log_.Line(3, "FAIL", kRefused);
  log_.Line(3, "FAIL",
            "[thrd:GroupCoordinator]: GroupCoordinator: 127.0.0.1:9092: Connect to "
            "ipv4#127.0.0.1:9092 failed: Connection refused (after 0ms in state CONNECT)");
  log_.Line(3, "FAIL", "sasl_ssl://127.0.0.1:9092/1: Disconnected (after 12ms in state CONNECT)");
  EXPECT_THAT(lines_, SizeIs(1));
}

// What librdkafka and OpenSSL say of a wrong setting is for those who wrote them.
TEST_F(ClientLogTest, AWrongSettingIsToldWithItsSideAndItsRemedy) {
  log_.Line(3, "FAIL",
            "ssl://10.0.0.1:9092/bootstrap: SSL handshake failed: error:0A00010B:SSL "
            "routines::wrong version number: (after 3ms in state SSL_HANDSHAKE)");
  log_.Line(3, "FAIL",
            "10.0.0.2:9093/bootstrap: Disconnected while requesting ApiVersion: might be caused by "
            "incorrect security.protocol configuration (connecting to a SSL listener?) or broker "
            "version is < 0.10 (see api.version.request) (after 5ms in state APIVERSION_QUERY)");
  log_.Line(3, "FAIL",
            "sasl_ssl://10.0.0.3:9093/bootstrap: SASL authentication error: Authentication failed "
            "during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256 "
            "(after 317ms in state AUTH_REQ)");
  ASSERT_THAT(lines_, SizeIs(3));
  EXPECT_THAT(lines_[2], testing::HasSubstr("Kafka 4 refuses every login by SCRAM"));
  EXPECT_THAT(lines_[0], testing::HasSubstr("TLS was tried, but this port does not speak it"));
  EXPECT_THAT(lines_[0], testing::Not(testing::HasSubstr("routines")));
  EXPECT_THAT(lines_[1], testing::HasSubstr("give --kafka security.protocol=SSL"));
}

TEST_F(ClientLogTest, WhatIsUndeliveredAtTheEndIsLeftToThoseWhoKnowWhatItMeans) {
  log_.Line(4, "TERMINATE",
            "Producer terminating with 3 messages (92 bytes) still in queue or transit: use "
            "flush() to wait for outstanding message delivery");
  EXPECT_THAT(lines_, IsEmpty());
}

TEST_F(ClientLogTest, AnotherReasonIsAnotherLine) {
  log_.Line(3, "FAIL", kRefused);
  log_.Line(3, "FAIL", "127.0.0.1:9092/1: SASL authentication error: no (after 3ms in state X)");
  EXPECT_THAT(lines_, SizeIs(2));
}

TEST_F(ClientLogTest, TheReturnOfAnyBrokerEndsTheOutageOfTheAddressThatTheUserGave) {
  log_.Line(3, "FAIL",
            "localhost:9092/bootstrap: Connect to ipv6#[::1]:9092 failed: Connection refused "
            "(after 0ms in state CONNECT)");
  now_ += std::chrono::milliseconds(2600);
  log_.BrokerUp("127.0.0.1", 19092);
  EXPECT_THAT(lines_, ElementsAre("kafka: no connection to localhost:9092 (Connection refused); "
                                  "retrying until it is reachable",
                                  "kafka: connected to 127.0.0.1:19092 after 2.6 s"));
}

TEST_F(ClientLogTest, AnotherBrokersReturnDoesNotEndTheOutageOfABroker) {
  log_.Line(3, "FAIL", kRefused);
  log_.BrokerUp("127.0.0.1", 9093);
  EXPECT_THAT(lines_, SizeIs(1));
}

TEST_F(ClientLogTest, LinesThatDifferInNumbersOnlyAreOneInHalfAMinute) {
  for (int i = 0; i < 40; ++i) {
    log_.Line(4, "COMMITFAIL", "Offset commit failed for " + std::to_string(i) + " partitions");
    now_ += std::chrono::seconds(1);
  }
  EXPECT_THAT(lines_, ElementsAre("kafka: COMMITFAIL: Offset commit failed for 0 partitions",
                                  "kafka: COMMITFAIL: Offset commit failed for 30 partitions (and "
                                  "29 more like it before)"));
}

TEST_F(ClientLogTest, AWarningOfWhatStaysAsItIsIsToldOnceHoweverLateItIsFoundAgain) {
  log_.WarnOnce("one replica of a.job");
  now_ += std::chrono::hours(1);
  log_.WarnOnce("one replica of a.job");
  EXPECT_THAT(lines_, ElementsAre("kafka: warning: one replica of a.job"));
  for (const char* text :
       {"one replica of a.layout-1.weights", "one replica of a.layout-2.weights"}) {
    log_.WarnOnce(text);
    EXPECT_EQ(lines_.back(), std::string("kafka: warning: ") + text);
  }
}

TEST_F(ClientLogTest, ARetryIsToldWhenItGoesOn) {
  log_.Line(4, "GETPID", "Coordinator load in progress: retrying");
  now_ += std::chrono::seconds(4);
  log_.Line(4, "GETPID", "Coordinator load in progress: retrying");
  EXPECT_THAT(lines_, IsEmpty());
  now_ += std::chrono::seconds(2);
  log_.Line(4, "GETPID", "Coordinator load in progress: retrying");
  EXPECT_THAT(lines_, SizeIs(1));
}

TEST_F(ClientLogTest, WhatAnOutageDoesToRequestsIsNotTold) {
  log_.Line(3, "FAIL", kRefused);
  log_.Line(4, "COMMITFAIL", "Offset commit failed: Local: Broker transport failure");
  EXPECT_THAT(lines_, SizeIs(1));
}

TEST_F(ClientLogTest, ASettingForAnotherKindOfClientIsNoNews) {
  log_.Line(4, "CONFWARN",
            "Configuration property linger.ms is a producer property and will be ignored by this "
            "consumer instance");
  EXPECT_THAT(lines_, IsEmpty());
}

TEST_F(ClientLogTest, WhatTheDebugSettingAsksForIsPrintedInFull) {
  log_.Line(7, "FETCH", "1");
  log_.Line(7, "FETCH", "2");
  EXPECT_THAT(lines_, SizeIs(2));
}

TEST_F(ClientLogTest, SecretsAreBlottedOut) {
  log_.AddSecret("hunter2");
  log_.AddSecret("hunter2-and-more");
  log_.AddSecret("a");  // would blot out every text
  log_.Line(3, "SASL", "user joe, password hunter2-and-more, not hunter2hunter2");
  EXPECT_THAT(lines_, ElementsAre("kafka: SASL: user joe, password ***, not ******"));
  EXPECT_EQ(log_.Redact("hunter2!"), "***!");
}

}  // namespace
}  // namespace millrace::kafka_internal
