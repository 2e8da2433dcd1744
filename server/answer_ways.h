// How this process's answers travel: by streams, through Kafka, or both.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "job/job_registry.h"
#include "kafka/wakeup.h"
#include "messages/job.pb.h"
#include "rpc/answer_server.h"
#include "topics/outgoing_record.h"

namespace millrace {

// Used by one thread.
class AnswerWays {
 public:
  // With --answers direct serves the streams, and publishes for the shards `hosted` where. Without
  // it takes back what an earlier server of them has published. `shared_partition`: of `weights`.
  static StatusOr<std::unique_ptr<AnswerWays>> Open(const JobConfig& config, JobRegistry& registry,
                                                    const std::vector<ShardId>& hosted,
                                                    int32_t shared_partition, Wakeup* wakeup);

  // Gives a record of `weights` to the streams that get it. Returns it if it is to go to Kafka.
  std::optional<OutgoingRecord> Send(OutgoingRecord record);
  // To be called when all records of a moment have been given.
  void Advance();
  // The workers whose streams have ended since the last call: they are to be answered again.
  std::vector<WorkerId> TakeLost();
  // The shards whose newest values went to workers by streams only, since the last call: who
  // follows the job has not got them.
  std::set<ShardId> TakeUnpublished();

 private:
  explicit AnswerWays(int32_t shared_partition) : shared_partition_(shared_partition) {}
  Status Serve(const JobConfig& config, JobRegistry& registry, const std::vector<ShardId>& hosted,
               Wakeup* wakeup);

  const int32_t shared_partition_;
  std::unique_ptr<AnswerServer> server_;  // null: through Kafka only
  std::set<ShardId> unpublished_;
};

}  // namespace millrace
