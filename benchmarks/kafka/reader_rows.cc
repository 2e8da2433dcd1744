// Reads input-data from its beginning to its end by PartitionConsumer; prints rows per second and
// how many MiB that took at most. Its floor is bare_ingest --from.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <set>
#include <string>

#include "apps/program.h"
#include "kafka/consumer.h"
#include "topics/row_codec.h"

namespace millrace {
namespace {

using SteadyClock = std::chrono::steady_clock;

int ResidentMebibytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::atoi(line.c_str() + 6) / 1024;
  }
  return -1;
}

Status Read(const std::string& brokers, const std::string& topic, int partitions) {
  KafkaOptions kafka;
  kafka.brokers = brokers;
  Wakeup wakeup;
  MILLRACE_ASSIGN_OR_RETURN(
      const std::unique_ptr<PartitionConsumer> reader,
      PartitionConsumer::Create(kafka, {.client_id = "reader-rows"}, topic, &wakeup));
  std::set<int32_t> unread;
  for (int i = 0; i < partitions; ++i) {
    MILLRACE_RETURN_IF_ERROR(reader->Assign(i, 0));
    unread.insert(i);
  }
  size_t rows = 0;
  SteadyClock::time_point begin{};
  ConsumerHandler handler;
  handler.on_record = [&](const ConsumedRecord& record) {
    if (rows == 0) begin = SteadyClock::now();
    const auto key = DecodeInputKey(record.key);
    rows += key ? key->count : 0;
    return absl::OkStatus();
  };
  handler.on_end = [&](int32_t partition, Offset) { unread.erase(partition); };
  int most = 0;
  while (!unread.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(const size_t events, reader->Poll(2000, handler));
    if (events == 0) wakeup.WaitFor(std::chrono::milliseconds(100));
    most = std::max(most, ResidentMebibytes());
  }
  const std::chrono::duration<double> passed = SteadyClock::now() - begin;
  std::printf("%.0f %d\n", static_cast<double>(rows) / passed.count(), most);
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  CLI::App app("Reads a topic to its end", "reader_rows");
  std::string brokers;
  std::string topic;
  int partitions = 0;
  app.add_option("--brokers", brokers)->required();
  app.add_option("--topic", topic)->required();
  app.add_option("--partitions", partitions)->required();
  return millrace::RunProgram(app, "reader_rows", argc, argv,
                              [&] { return millrace::Read(brokers, topic, partitions); });
}
