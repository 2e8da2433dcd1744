// The rows of the workers that a member hosts: where they are read from, committed and deleted.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "job/trimmer.h"
#include "kafka/admin.h"
#include "kafka/broker_retry.h"
#include "kafka/consumer.h"
#include "kafka/wakeup.h"
#include "messages/job.pb.h"
#include "tasks/member_task.h"

namespace millrace {

// Reads `input-data` for the group JOB-workers without joining it: a world says who reads what.
// Used by one thread.
class MemberRows {
 public:
  // Its clients.
  struct Clients {
    std::unique_ptr<GroupConsumer> rows;
    std::unique_ptr<PartitionConsumer> ranges;  // reads nothing
    std::unique_ptr<KafkaAdmin> admin;          // deletes rows
  };
  // References outlive it. `wakeup` is notified of rows. `on_wait` is called while a broker is
  // awaited, which is no stall of this process.
  static StatusOr<std::unique_ptr<MemberRows>> Create(const JobConfig& config, MemberTask& task,
                                                      const BrokerRetry& broker_retry,
                                                      Wakeup* wakeup,
                                                      std::function<void()> on_wait);
  MemberRows(const std::string& job, Clients clients, MemberTask& task,
             const BrokerRetry& broker_retry, std::function<void()> on_wait);

  // The workers that MemberTask::Begin has returned: from the next Poll on, no others are read.
  void Read(const std::set<WorkerId>& workers);
  // Passes rows to the task, without waiting; has the task compute. Returns the number of events.
  // Errors: the broker's; DataLoss: rows are missing, or the topic was recreated.
  StatusOr<size_t> Poll();
  // Commits, and lets what is before be deleted.
  void Commit(const std::vector<MemberTask::Positions>& positions);
  // `commits`: what was committed is sent once more. Of a process that others take for dead they
  // are to be dropped: who hosts its workers now may have committed more.
  Status Close(bool commits);

 private:
  void SetHandler();
  StatusOr<Offset> OnAssigned(WorkerId worker,
                              const std::optional<GroupConsumer::Committed>& committed);
  Status StartAgain(WorkerId worker);
  Status StartWhoIsRead();
  StatusOr<PartitionConsumer::Range> RangeOf(WorkerId worker);
  StatusOr<Offset> Start(WorkerId worker, const std::optional<GroupConsumer::Committed>& committed);
  Status RowsLost(WorkerId worker, const Status& why) const;
  void HoldOrLetGo(WorkerId worker);

  MemberTask& task_;
  const BrokerRetry& broker_retry_;
  const std::function<void()> on_wait_;
  const std::string topic_;
  std::unique_ptr<PartitionConsumer> ranges_;
  std::unique_ptr<GroupConsumer> rows_;
  GroupConsumer::Handler handler_;
  // What is read, and the last position that was committed as far as this process knows.
  std::map<WorkerId, std::optional<GroupConsumer::Committed>> assigned_;
  std::set<WorkerId> deleted_;  // their rows were
  size_t rows_taken_ = 0;       // in this poll
  size_t records_at_once_ = 1;
  Trimmer trimmer_;
};

}  // namespace millrace
