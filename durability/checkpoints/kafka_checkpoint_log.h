// The checkpoint log on Kafka: a transactional producer for the shard, DeleteRecords for the trim.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/status.h"
#include "base/types.h"
#include "kafka/admin.h"
#include "kafka/broker_retry.h"
#include "kafka/producer.h"
#include "messages/job.pb.h"
#include "tasks/checkpoint.h"
#include "tasks/checkpoint_transaction.h"

namespace millrace {

// Used by one thread at a time.
class KafkaCheckpointLog final : public CheckpointLog, private TransactionPort {
 public:
  // Fences any older instance of the shard (init_transactions): call it before anything of the
  // shard's state is read. Waits for the broker until `stop`.
  static StatusOr<std::unique_ptr<KafkaCheckpointLog>> Create(const JobConfig& config,
                                                              ShardId shard,
                                                              const std::atomic<bool>& stop);

  StatusOr<Offset> CommitTransaction(const Checkpoint& checkpoint, Offset previous_end) override;
  Status TrimGradients(Offset position) override;

 private:
  KafkaCheckpointLog(const JobConfig& config, ShardId shard, const std::atomic<bool>& stop);

  Status Send(const std::string& topic, int32_t partition, std::string_view key,
              std::string_view value);
  // Aborted when a record is in no log, which librdkafka's commit does not report.
  Status TryToDeliver();

  Status Begin() override;
  Status Append(std::string_view key, std::string_view value) override;
  Status AppendDeadLetter(std::string_view letter) override;
  StatusOr<Offset> AwaitDelivery() override;
  Status Commit() override;
  Status Abort() override;

  std::string parameters_;
  std::string dead_letters_;
  std::string gradients_;
  ShardId shard_;
  const std::atomic<bool>& stop_;
  const BrokerRetry broker_retry_;  // no time limit: a started transaction is finished
  CheckpointTransaction transaction_{*this};
  std::unique_ptr<KafkaProducer> producer_;
  std::unique_ptr<KafkaAdmin> admin_;
};

}  // namespace millrace
