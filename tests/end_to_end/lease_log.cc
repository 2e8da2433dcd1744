// Prints the leases that a job's master gave its workers, a line for each, in their order: WORKER
// PARTITION BEGIN END JOINED. JOINED is the clock at which the worker had joined the running job;
// 0: it was there from the beginning.
//
//     lease_log BROKERS JOB
#include <atomic>
#include <cstdio>
#include <map>
#include <string>
#include <utility>

#include "kafka/read_partition.h"
#include "processors/master_processor.h"
#include "topics/master_topics.h"

namespace millrace {
namespace {

// By worker and number; with the clock at which the worker had joined.
using Leases = std::map<std::pair<uint32_t, uint64_t>, std::pair<Lease, uint64_t>>;

// Each lease is open after the record that gave it.
void Note(const LeaseTable& table, Leases& leases) {
  for (const auto& [number, worker] : table.workers()) {
    for (const Lease& lease : worker.open()) {
      leases.insert({{number, lease.number()}, {lease, worker.joined()}});
    }
  }
}

Status Print(const std::string& brokers, const std::string& job) {
  KafkaOptions kafka;
  kafka.brokers = brokers;
  const std::string topic = MasterTopicName(job, MasterTopic::kControl);
  MasterProcessor master(1);
  Leases leases;
  Offset next = 0;
  const std::atomic<bool> never = false;
  const auto take = [&](const ConsumedRecord& record) -> Status {
    if (next == 0 && record.offset > 0) {
      return absl::DataLossError(topic + " does not have its first records any more");
    }
    next = record.offset + 1;
    (void)master.Fold(record.offset, record.value);
    Note(master.leases(), leases);
    return absl::OkStatus();
  };
  MILLRACE_RETURN_IF_ERROR(ReadPartition(kafka, "lease-log", topic, 0, never, take));
  for (const auto& [key, lease] : leases) {
    const InputRange& range = lease.first.range();
    std::printf("%u %u %llu %llu %llu\n", key.first, range.partition(),
                static_cast<unsigned long long>(range.begin()),
                static_cast<unsigned long long>(range.end()),
                static_cast<unsigned long long>(lease.second));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const millrace::Status printed = millrace::Print(argv[1], argv[2]);
  if (printed.ok()) return 0;
  std::fprintf(stderr, "%s\n", std::string(printed.message()).c_str());
  return 1;
}
