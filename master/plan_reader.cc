#include "master/plan_reader.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "job/kafka_options.h"
#include "kafka/broker_retry.h"
#include "kafka/read_partition.h"
#include "processors/master_processor.h"
#include "topics/master_topics.h"
#include "topics/node_codec.h"
#include "topics/process_name.h"
#include "topics/task_codec.h"
#include "topics/topics.h"

namespace millrace {
namespace {

using PlanRecords = std::map<std::string, std::string>;

struct Plan {
  PlanRecords records;
  int64_t newest_ms = 0;  // since 1970, by the clock of the master's machine; 0: not known
};

constexpr size_t kMostKeys = size_t{4} * kMostProcesses + kMostTaskSets + kMostOpenTasks +
                             kMostNodes + kMostBarriers + size_t{2} * kMostWorkers +
                             1;  // leases, and how far partitions are cut

StatusOr<Plan> ReadPlanOnce(const KafkaOptions& kafka, const std::string& topic,
                            const std::atomic<bool>& stop) {
  Plan plan;
  PlanRecords& records = plan.records;
  const auto take = [&](const ConsumedRecord& record) -> Status {
    plan.newest_ms = std::max<int64_t>(plan.newest_ms, record.timestamp_ms);
    const std::string key(record.key);
    if (record.value.data() == nullptr) {
      records.erase(key);
      return absl::OkStatus();
    }
    if (records.size() == kMostKeys && !records.contains(key)) {
      return absl::DataLossError(
          absl::StrCat(topic, " holds more than ", kMostKeys,
                       " keys, which no master writes: another program writes to this topic. "
                       "Start a new job (another --job)"));
    }
    records[key] = std::string(record.value);
    return absl::OkStatus();
  };
  MILLRACE_RETURN_IF_ERROR(ReadPartition(kafka, "master-plan", topic, 0, stop, take));
  return plan;
}

StatusOr<Plan> ReadWholePlan(const JobConfig& config, const std::atomic<bool>& stop) {
  const std::string topic = MasterTopicName(config.name(), MasterTopic::kPlan);
  const BrokerRetry broker_retry(stop, config.broker_timeout_s());
  return broker_retry.Run([&] { return ReadPlanOnce(ToKafkaOptions(config), topic, stop); });
}

}  // namespace

Status NoMasterError(const JobConfig& config) {
  return absl::FailedPreconditionError(absl::StrCat("no MasterApp has run the job ", config.name(),
                                                    " at ", config.brokers(),
                                                    ": check --job and --brokers"));
}

StatusOr<PlanRecords> ReadPlan(const JobConfig& config, const std::atomic<bool>& stop) {
  MILLRACE_ASSIGN_OR_RETURN(Plan plan, ReadWholePlan(config, stop));
  return std::move(plan.records);
}

StatusOr<JobProcesses> ReadJobProcesses(const JobConfig& config, const std::atomic<bool>& stop) {
  const StatusOr<Plan> plan = ReadWholePlan(config, stop);
  if (absl::IsNotFound(plan.status()) || (plan.ok() && plan->records.empty())) {
    return NoMasterError(config);
  }
  MILLRACE_RETURN_IF_ERROR(plan.status());
  const StatusOr<MasterProcessor> master = MasterProcessor::Restore(config.epoch(), plan->records);
  if (!master.ok()) return absl::FailedPreconditionError(master.status().message());
  JobProcesses job{master->state(), master->processes(), TaskSetsOf(master->tasks()),
                   NodesOf(master->nodes()), LeasesOf(master->leases())};
  if (plan->newest_ms > 0) {
    job.silent_s = static_cast<uint64_t>(std::max<int64_t>(NowMs() - plan->newest_ms, 0) / 1000);
  }
  return job;
}

}  // namespace millrace
