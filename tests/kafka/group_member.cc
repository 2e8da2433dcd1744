// A member of a consumer group that is there to be killed: reads, writes "partition offset" lines
// to standard output, then commits. kafka_group_member BROKERS TOPIC GROUP
#include <chrono>
#include <cstdio>
#include <thread>

#include "kafka/consumer.h"

int main(int argc, char** argv) {
  using millrace::GroupConsumer;
  if (argc != 4) return 2;
  millrace::KafkaOptions kafka;
  kafka.brokers = argv[1];
  auto consumer = GroupConsumer::Create(
      kafka, {.client_id = "victim", .group_id = argv[3], .session_timeout_s = 6}, argv[2],
      nullptr);
  if (!consumer.ok()) return 1;
  GroupConsumer::Handler handler;
  handler.on_record = [&](const millrace::ConsumedRecord& record) {
    std::printf("%d %lld\n", record.partition, static_cast<long long>(record.offset));
    std::fflush(stdout);
    (*consumer)->Commit(record.partition, {.offset = record.offset + 1, .metadata = "victim"});
    return absl::OkStatus();
  };
  handler.on_assigned = [](int32_t, const std::optional<GroupConsumer::Committed>& committed) {
    return committed.has_value() ? committed->offset : millrace::Offset(0);
  };
  for (;;) {
    if (!(*consumer)->Poll(1, handler).ok()) return 1;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}
