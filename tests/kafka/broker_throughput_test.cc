// Figures, with bounds so wide that only a collapse breaks them.
#include <gmock/gmock.h>

#include <cstdio>
#include <fstream>

#include "kafka/consumer.h"
#include "tests/kafka/real_broker.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

int ResidentMegabytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::atoi(line.c_str() + 6) / 1024;
  }
  return -1;
}

class BrokerThroughputTest : public RealBrokerTest {};

TEST_F(BrokerThroughputTest, AReaderThatIsSlowerThanTheBrokerIsFedSteadilyInLittleMemory) {
  const std::string topic = CreateTopic(1);
  constexpr int kRecords = 400000;
  const std::string value(500, 'x');
  {
    const auto producer = MakeProducer({.client_id = "bulk", .linger_ms = 5});
    // The leader then knows this producer, and refuses what overtakes.
    ASSERT_TRUE(producer->Send(topic, 0, "12345678", value).ok());
    ASSERT_TRUE(producer->Flush(seconds(60)).ok());
    const auto began = Clock::now();
    for (int i = 1; i < kRecords; ++i) {
      while (!producer->Send(topic, 0, "12345678", value).ok()) producer->Poll(milliseconds(10));
      if (i % 64 == 0) producer->Poll(milliseconds(0));
    }
    ASSERT_TRUE(producer->Flush(seconds(60)).ok());
    std::printf("sent %.0f rows/s of 500 bytes\n", kRecords / Seconds(began));
  }
  const int before = ResidentMegabytes();
  for (const size_t queue_kbytes : {4096, 16384}) {
    for (const double row_us : {0.0, 3.0}) {
      Wakeup wakeup;
      auto reader = PartitionConsumer::Create(
          kafka_, {.client_id = "slow", .queue_kbytes = queue_kbytes}, topic, &wakeup);
      ASSERT_TRUE(reader.ok() && (*reader)->Assign(0, 0).ok());
      int count = 0;
      double longest_gap = 0;
      Clock::time_point last = Clock::now();
      Clock::time_point first{};
      ConsumerHandler handler;
      handler.on_record = [&](const ConsumedRecord&) {
        if (count++ == 0) {
          first = Clock::now();
        } else {
          longest_gap = std::max(longest_gap, Seconds(last));
        }
        const auto row = Clock::now();
        while (Seconds(row) * 1e6 < row_us) {
        }
        last = Clock::now();
        return absl::OkStatus();
      };
      int most = 0;
      ASSERT_TRUE(Until(
          [&] {
            const StatusOr<size_t> events = (*reader)->Poll(2000, handler);
            EXPECT_TRUE(events.ok());
            if (events.value_or(0) == 0) wakeup.WaitFor(milliseconds(100));
            most = std::max(most, ResidentMegabytes());
            return count == kRecords;
          },
          seconds(60)));
      std::printf(
          "read %.0f rows/s at %.0f us a row, queue of %zu kB: longest gap %.0f ms, %d MB "
          "more\n",
          count / Seconds(first), row_us, queue_kbytes, longest_gap * 1000, most - before);
      EXPECT_LT(most - before, 60);
      EXPECT_GT(count / Seconds(first), 20000);
    }
  }
}

TEST_F(BrokerThroughputTest, OneRecordGoesRoundInMilliseconds) {
  const std::string topic = CreateTopic(1);
  Wakeup wakeup;
  auto producer = KafkaProducer::Create(kafka_, {.client_id = "p"}, &wakeup);
  ASSERT_TRUE(producer.ok() && (*producer)->Prepare({topic}).ok());
  auto reader = PartitionConsumer::Create(kafka_, {.client_id = "c"}, topic, &wakeup);
  ASSERT_TRUE(reader.ok() && (*reader)->Assign(0, 0).ok());
  size_t count = 0;
  ConsumerHandler handler;
  handler.on_record = [&](const ConsumedRecord&) {
    ++count;
    return absl::OkStatus();
  };
  std::vector<double> times;
  const std::string value(24600, 'x');
  while (times.size() < 200) {
    const auto began = Clock::now();
    ASSERT_TRUE((*producer)->Send(topic, 0, "", value).ok());
    while (count <= times.size()) {
      ASSERT_TRUE((*reader)->Poll(100, handler).ok());
      (*producer)->Poll(milliseconds(0));
      if (count <= times.size()) wakeup.WaitFor(seconds(60));
    }
    times.push_back(Seconds(began) * 1000);
  }
  const double first = times[0];
  std::ranges::sort(times);
  std::printf(
      "24.6 kB to the broker and back: first %.1f ms, median %.2f, 99 %% %.1f, longest "
      "%.1f\n",
      first, times[100], times[198], times[199]);
  EXPECT_LT(times[100], 50);
  // Not a whole wait of the run loop: every record has woken it.
  EXPECT_LT(times[199], 50'000);
}

}  // namespace
}  // namespace millrace
