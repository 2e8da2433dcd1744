// How fast a reader is, scripts/bench reader measures.
#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "kafka/consumer.h"
#include "tests/kafka/real_broker.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

int ResidentMegabytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::atoi(line.c_str() + 6) / 1024;
  }
  return -1;
}

class BrokerMemoryTest : public RealBrokerTest {};

TEST_F(BrokerMemoryTest, AReaderThatIsSlowerThanTheBrokerTakesLittleMemory) {
  const std::string topic = CreateTopic(1);
  constexpr int kRecords = 200'000;  // 100 MB
  const std::string value(500, 'x');
  {
    const auto producer = MakeProducer({.client_id = "bulk", .linger_ms = 5});
    // The leader then knows this producer, and refuses what overtakes.
    ASSERT_TRUE(producer->Send(topic, 0, "12345678", value).ok());
    ASSERT_TRUE(producer->Flush(seconds(60)).ok());
    for (int i = 1; i < kRecords; ++i) {
      while (!producer->Send(topic, 0, "12345678", value).ok()) producer->Poll(milliseconds(10));
      if (i % 64 == 0) producer->Poll(milliseconds(0));
    }
    ASSERT_TRUE(producer->Flush(seconds(60)).ok());
  }
  const int before = ResidentMegabytes();
  for (const size_t queue_kbytes : {4096, 16384}) {
    Wakeup wakeup;
    auto reader = PartitionConsumer::Create(
        kafka_, {.client_id = "slow", .queue_kbytes = queue_kbytes}, topic, &wakeup);
    ASSERT_TRUE(reader.ok() && (*reader)->Assign(0, 0).ok());
    int count = 0;
    ConsumerHandler handler;
    handler.on_record = [&](const ConsumedRecord&) {
      ++count;
      return absl::OkStatus();
    };
    int most = 0;
    ASSERT_TRUE(Until(
        [&] {
          // A few at a time, so that the broker is always in front.
          EXPECT_TRUE((*reader)->Poll(500, handler).ok());
          if (count < kRecords) wakeup.WaitFor(milliseconds(100));
          most = std::max(most, ResidentMegabytes());
          return count == kRecords;
        },
        seconds(240)));
    EXPECT_LT(most - before, 60);
  }
}

}  // namespace
}  // namespace millrace
