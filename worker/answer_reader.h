// What servers answer the logical workers of a process: read from `weights`, and taken from
// streams.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "kafka/consumer.h"
#include "kafka/wakeup.h"
#include "messages/job.pb.h"
#include "models/model.h"
#include "rpc/answer_receiver.h"
#include "tasks/log_reading.h"
#include "tasks/shared_weights_reader.h"
#include "topics/outgoing_record.h"
#include "worker/hosted_task.h"

namespace millrace {

// Used by one thread.
class AnswerReader {
 public:
  // What a partition holds, as this reader of it finds; waits for a broker.
  using RangeOf =
      std::function<StatusOr<PartitionConsumer::Range>(PartitionConsumer&, int32_t partition)>;

  // References, and `wakeup`, which is notified of answers, outlive it. `tasks`: of the workers
  // that are here. Errors are those of PartitionConsumer and AnswerReceiver.
  static StatusOr<std::unique_ptr<AnswerReader>> Create(const JobConfig& config,
                                                        const JobFeatures& features,
                                                        const JobTraining& training,
                                                        const Model& model, HostedTasks& tasks,
                                                        RangeOf range_of, Wakeup* wakeup);

  // Hands to the tasks what has come, without waiting; what they have to say of it goes to `out`.
  // Returns how many answers there were. Errors are PartitionConsumer::Poll's.
  StatusOr<size_t> Poll(std::vector<OutgoingRecord>& out);

  // Reads what the worker, which is not among the tasks yet, is answered from now on: so it misses
  // no answer to its first question. Errors are those of RangeOf.
  Status Begin(WorkerId worker, const WorkerTask& task);
  // The tasks are others than before.
  void TasksHaveChanged();
  // The worker is no more among the tasks. `shared`: its WorkerOptions::SharedPartition.
  Status End(WorkerId worker, int32_t shared);

  // Weights are short-lived: workers that were away for longer than they are kept ask again. Errors
  // are those of RangeOf.
  Status CatchUp(std::vector<OutgoingRecord>& out);
  // Waits as the wakeup does, for answers and for all that notifies it.
  void WaitFor(std::chrono::milliseconds timeout) { straight_->WaitFor(timeout); }
  // Servers do not answer: they may have new addresses.
  void LookAgain();

  // The topic.
  const std::string& topic() const { return topic_; }

 private:
  AnswerReader(std::string topic, HostedTasks& tasks, RangeOf range_of)
      : topic_(std::move(topic)), tasks_(tasks), range_of_(std::move(range_of)) {}
  Status Open(const JobConfig& config, uint32_t shards, Wakeup* wakeup);
  void Take(const ConsumedRecord& record, std::vector<OutgoingRecord>& out);
  void TakeShared(const ConsumedRecord& record, std::vector<OutgoingRecord>& out);
  Status TakeStraight(int32_t partition, std::string_view key, std::string_view value);
  Status ReadFromEnd(int32_t partition);
  // Answers may be lost.
  void ReadShared();
  Status EndReadingShared();

  const std::string topic_;
  HostedTasks& tasks_;
  const RangeOf range_of_;
  std::unique_ptr<PartitionConsumer> ranges_;    // reads nothing
  std::unique_ptr<PartitionConsumer> consumer_;  // of all workers, and what they share
  struct Shared {
    SharedWeightsReader reader;
    LogReading reading;
  };
  // By partition: of the job, or of each group of servers.
  std::map<int32_t, Shared> shared_;
  std::set<int32_t> behind_;  // partitions whose records were deleted before they were read
  std::unique_ptr<AnswerReceiver> straight_;
};

}  // namespace millrace
