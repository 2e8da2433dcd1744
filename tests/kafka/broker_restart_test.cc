#include <gmock/gmock.h>

#include <atomic>
#include <cstdio>
#include <thread>

#include "kafka/consumer.h"
#include "tests/kafka/real_broker.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using SteadyClock = std::chrono::steady_clock;

class BrokerRestartTest : public RealBrokerTest {};

// Everyone waits and goes on; nothing is lost, nothing comes twice. A producer that the accident
// has ended (see KafkaProducer) is replaced, and the log says where the next one goes on.
TEST_F(BrokerRestartTest, AKilledBrokerThatComesBackFindsEveryoneWhereTheyWere) {
  const std::string topic = CreateTopic(1);
  Wakeup wakeup;
  std::unique_ptr<KafkaProducer> producer = MakeProducer({.client_id = "p"});
  // The leader then knows this producer, and refuses what overtakes.
  ASSERT_TRUE(producer->Send(topic, 0, "", "0").ok());
  ASSERT_TRUE(producer->Flush(seconds(30)).ok());

  std::vector<std::string> by_reader, by_member;
  auto reader = PartitionConsumer::Create(kafka_, {.client_id = "c"}, topic, &wakeup);
  ASSERT_TRUE(reader.ok() && (*reader)->Assign(0, 0).ok());
  ConsumerHandler reads;
  reads.on_record = [&](const ConsumedRecord& record) {
    by_reader.emplace_back(record.value);
    return absl::OkStatus();
  };
  reads.on_out_of_range = [](int32_t) {
    ADD_FAILURE() << "the log has lost records";
    return absl::OkStatus();
  };

  auto member = GroupConsumer::Create(
      kafka_, {.client_id = "g", .group_id = topic, .session_timeout_s = 6}, topic, &wakeup);
  ASSERT_TRUE(member.ok());
  Offset position = 0;
  int assignments = 0;
  GroupConsumer::Handler joins;
  joins.on_record = [&](const ConsumedRecord& record) {
    by_member.emplace_back(record.value);
    position = record.offset + 1;
    return absl::OkStatus();
  };
  joins.on_assigned = [&](int32_t, const std::optional<GroupConsumer::Committed>& committed) {
    ++assignments;
    if (committed.has_value()) {
      EXPECT_LE(committed->offset, position);
    }
    return position;
  };
  joins.on_out_of_range = reads.on_out_of_range;

  int sent = 1;
  int producers = 1;
  bool failed = false;
  const auto replace_failed_producer = [&] {
    failed |= !producer->TakeFailures().empty();
    if (!failed || producer->outstanding() > 0) return;
    const auto range = (*reader)->QueryRange(0, seconds(10));
    if (!range.ok() || static_cast<size_t>(range->end) != by_reader.size()) return;
    producer = MakeProducer({.client_id = "p"});
    sent = static_cast<int>(range->end);
    ++producers;
    failed = false;
  };

  size_t committed = 0;
  SteadyClock::time_point last_delivery = SteadyClock::now();
  std::chrono::duration<double> longest_pause{};
  const auto step = [&](bool send) {
    if (send && !failed) {
      const Status status = producer->Send(topic, 0, "", std::to_string(sent));
      if (status.ok()) ++sent;
      failed = absl::IsFailedPrecondition(status);
    }
    producer->Poll(milliseconds(0));
    replace_failed_producer();
    EXPECT_TRUE((*reader)->Poll(1000, reads).ok());
    EXPECT_TRUE((*member)->Poll(1000, joins).ok());
    if (by_member.size() >= committed + 100) {
      committed = by_member.size();
      (*member)->Commit(0, {.offset = position, .metadata = ""});
    }
    static size_t seen = 0;
    if (by_reader.size() != seen) {
      seen = by_reader.size();
      longest_pause = std::max<std::chrono::duration<double>>(longest_pause,
                                                              SteadyClock::now() - last_delivery);
      last_delivery = SteadyClock::now();
    }
    wakeup.WaitFor(milliseconds(1));
  };
  ASSERT_TRUE(Until([&] {
    step(true);
    return sent >= 500 && assignments > 0 && by_member.size() >= 300;
  }));

  testing::internal::CaptureStderr();
  std::thread accident([] {
    RunKafkaScript("kill");
    std::this_thread::sleep_for(seconds(2));
    RunKafkaScript("start");
  });
  const auto began = SteadyClock::now();
  SteadyClock::time_point back{};
  std::atomic<bool> started = false;
  std::thread waiter([&] {
    accident.join();
    back = SteadyClock::now();
    started = true;
  });
  EXPECT_TRUE(Until(
      [&] {
        step(SteadyClock::now() - began < seconds(40) && (!started || sent < 3000));
        return started && !failed && producer->outstanding() == 0 &&
               by_reader.size() == static_cast<size_t>(sent) &&
               by_member.size() == static_cast<size_t>(sent) &&
               SteadyClock::now() - back > seconds(1);
      },
      seconds(120)));
  waiter.join();
  const std::string lines = testing::internal::GetCapturedStderr();
  std::printf(
      "%d records by %d producer(s); longest pause %.1f s, of which the broker was away %.1f s; "
      "group %d assignment(s)\n%s",
      sent, producers, longest_pause.count(), std::chrono::duration<double>(back - began).count(),
      assignments, lines.c_str());
  EXPECT_EQ(by_reader, Numbers(0, sent));
  EXPECT_EQ(by_member, Numbers(0, sent));
  EXPECT_LE(producers, 3);
}

}  // namespace
}  // namespace millrace
