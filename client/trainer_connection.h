// A trainer's task on Kafka: the loop that serves it while its trainer waits.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "job/job_registry.h"
#include "job/record_sender.h"
#include "job/silence.h"
#include "kafka/broker_retry.h"
#include "kafka/consumer.h"
#include "kafka/wakeup.h"
#include "messages/job.pb.h"
#include "messages/records.pb.h"
#include "models/model.h"
#include "rpc/answer_receiver.h"
#include "tasks/log_reading.h"
#include "tasks/repeat_timer.h"
#include "tasks/shared_weights_reader.h"
#include "tasks/trainer_task.h"

namespace millrace {

// Used by one thread, that of the trainer. When the job goes over to another number of shards, the
// calls that serve the task go over to them, too.
class TrainerConnection {
 public:
  // Publishes the parameters, or compares them with those that the job has, waits for the training
  // settings (for `timeout_s`, as ServeUntil), and asks the shards. `config` and `stop` outlive the
  // connection. `while_waiting` is called several times a second, or empty. FailedPrecondition: the
  // job has others; InvalidArgument: its model is not EXTERNAL.
  static StatusOr<std::unique_ptr<TrainerConnection>> Open(
      const JobConfig& config, WorkerId trainer, const JobFeatures& features, double timeout_s,
      const std::atomic<bool>& stop, std::function<void()> while_waiting);

  TrainerTask& task() { return *task_; }
  // Of the shards that it works with.
  const JobTraining& training() const { return layout_->training; }

  // Serves the task until `done` (which is asked after each advance), for at most `timeout_s` (0:
  // without a limit). Cancelled by `stop`; DeadlineExceeded; FailedPrecondition when the job has
  // ended.
  Status ServeUntil(const std::function<bool()>& done, double timeout_s);
  // Asks the shards for the newest values.
  Status Ask();
  // What is there, without waiting.
  Status Serve();

 private:
  using Time = std::chrono::steady_clock::time_point;

  // What there is for one layout of the job's shards.
  struct Layout {
    JobConfig config;  // of the clients
    JobTraining training;
    std::unique_ptr<RecordSender> sender;
    std::unique_ptr<PartitionConsumer> ranges;  // reads nothing
    std::unique_ptr<PartitionConsumer> weights;
    std::unique_ptr<AnswerReceiver> straight;
    std::unique_ptr<SharedWeightsReader> shared;
    int32_t shared_partition = 0;
    LogReading reading;  // of it
  };

  TrainerConnection(const JobConfig& config, WorkerId trainer, const JobFeatures& features,
                    const std::atomic<bool>& stop, std::function<void()> while_waiting);
  // Whether the caller is to stop waiting.
  bool ShouldStop();
  Status Agree(double timeout_s);
  // `refused_before`: where refusals stand that do not count.
  Status WaitForTraining(double timeout_s, Offset refused_before);
  // Of the layout that is in force. Its clients read, and have asked nothing.
  StatusOr<std::unique_ptr<Layout>> OpenLayout();
  // Has the task work with the shards of the layout that is in force, and asks them where it
  // stands. Until the clients are there an error changes nothing.
  Status EnterLayoutInForce();
  // Goes over, if the trainer has got no further for a while and a later layout is in force.
  Status LookForNextLayout(Time now);
  // A record of `weights`. An error: it cannot be used.
  Status TakeRecord(int32_t partition, std::string_view key, std::string_view value,
                    LogReading::Way way);
  // An answer may be lost.
  void ReadShared();
  // Returns how many events there were.
  StatusOr<size_t> PollOnce();
  // The same; where its topics are gone, since others are in force, it goes over.
  StatusOr<size_t> Advance();
  Status ReadFromEnd(Layout& layout, int32_t partition);
  Status RunTimers(Time now);
  Status CheckEnded(Time now);
  std::string WhatIsAwaited() const;

  const JobConfig& config_;
  const WorkerId trainer_;
  JobFeatures features_;
  JobTraining training_;  // as it was published
  const std::atomic<bool>& stop_;
  const std::function<void()> while_waiting_;
  Time next_while_waiting_{};
  BrokerRetry broker_retry_;
  Wakeup wakeup_;
  std::unique_ptr<JobRegistry> registry_;
  std::unique_ptr<Layout> layout_;
  ConsumerHandler handler_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<TrainerTask> task_;
  RepeatTimer repeat_;
  Silence silence_;
  Time served_until_;         // the trainer has done something else since
  Clock clock_ = 0;           // of the last answer
  std::set<int32_t> behind_;  // partitions of weights, deleted before they were read
  std::string unusable_;      // why the last record of weights was
  Time next_registry_read_{};
  std::vector<OutgoingRecord> out_;  // but steps, which are sent as they are made
  const RecordSink to_sender_{
      [this](OutgoingRecord record) { return layout_->sender->SendOne(std::move(record)); }};
};

}  // namespace millrace
