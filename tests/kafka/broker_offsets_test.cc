#include <gmock/gmock.h>

#include "kafka/offsets_at_time.h"
#include "tests/kafka/real_broker.h"

namespace millrace {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;

class BrokerOffsetsTest : public RealBrokerTest {};

TEST_F(BrokerOffsetsTest, OfATimeAreThoseOfTheFirstRecordsThatAreNotBefore) {
  // Kept, since these are times of 1970.
  const std::string topic = CreateTopic(3, {{"retention.ms", "-1"}});
  const auto producer = MakeProducer({.client_id = "test"});
  for (const int64_t time : {1000, 2000, 3000}) {
    ASSERT_TRUE(producer->Send(topic, 0, "k", "v", time).ok());
  }
  ASSERT_TRUE(producer->Send(topic, 1, "k", "v", 1500).ok());
  ASSERT_TRUE(producer->Flush(seconds(30)).ok());
  const auto offsets = [&](int64_t time) {
    const std::vector<Offset> found = OffsetsAtTime(kafka_, topic, 3, time, seconds(30)).value();
    return std::vector<int64_t>(found.begin(), found.end());
  };
  EXPECT_THAT(offsets(0), ElementsAre(0, 0, -1));
  EXPECT_THAT(offsets(1500), ElementsAre(1, 0, -1));
  EXPECT_THAT(offsets(2001), ElementsAre(2, -1, -1));
  EXPECT_THAT(offsets(3001), ElementsAre(-1, -1, -1));
}

TEST_F(BrokerOffsetsTest, OfATopicThatIsNotThereAreAnError) {
  const auto offsets = OffsetsAtTime(kafka_, FreshName(), 1, 0, seconds(10));
  EXPECT_TRUE(absl::IsNotFound(offsets.status())) << offsets.status();
}

}  // namespace
}  // namespace millrace
