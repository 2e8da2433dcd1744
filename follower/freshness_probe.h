// Measures how fresh the weights are by which a job that is followed predicts.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/status.h"
#include "base/types.h"
#include "follower/found_job.h"
#include "follower/freshness.h"
#include "kafka/consumer.h"
#include "kafka/wakeup.h"
#include "messages/job.pb.h"
#include "tasks/weights_joiner.h"
#include "topics/weights_codec.h"

namespace millrace {

// The weights do not say which rows are in them, but the answers to the workers do. To read all of
// these would be as much as the workers read. So it looks at the rows and the answers of one worker
// for a second, then of the next some seconds later, on a thread of its own. It sends nothing.
class FreshnessProbe {
 public:
  // `config` outlives it. `reads_answers`: if not, all that is counted is told by NoteCounted.
  // REQUIRES: the job's model can be made.
  FreshnessProbe(const JobConfig& config, const FoundJob& job, bool reads_answers);
  ~FreshnessProbe();
  FreshnessProbe(const FreshnessProbe&) = delete;
  FreshnessProbe& operator=(const FreshnessProbe&) = delete;

  // The worker's rows below `end` are in weights that were sent at this time. Thread-safe, as are
  // the next.
  void NoteCounted(WorkerId worker, RowNumber end, int64_t sent_ms);
  // The weights that were sent at this time, those of the shard that is furthest behind, predict
  // from now on.
  void NoteModel(int64_t sent_ms);
  // As Freshness::Json.
  std::string Json() const;

 private:
  void Run();
  Status Open();
  // Measures the rows of a worker that come in the next second, or the first ones that come.
  // Reads what comes to the partition from now on, or no more.
  Status Assign(int32_t partition);
  Status Unassign(int32_t partition);
  Status Look(WorkerId worker);
  // Takes what has come of rows and answers.
  Status Poll(int32_t partition);
  StatusOr<size_t> PollAnswers(int32_t partition);
  bool HasWaiting() const;
  void TakeRows(const ConsumedRecord& record);
  void TakeAnswer(const ConsumedRecord& record);

  const JobConfig config_;
  const FoundJob job_;
  const bool reads_answers_;
  const WeightsShape shape_;
  Wakeup wakeup_;
  // Of the thread.
  std::unique_ptr<PartitionConsumer> rows_;
  std::unique_ptr<PartitionConsumer> answers_;
  std::unique_ptr<WeightsJoiner> joiner_;
  bool has_rows_ = false;   // some have come since Look began
  bool is_behind_ = false;  // answers were deleted before they were read

  mutable std::mutex mutex_;
  WorkerId worker_ = 0;  // guarded by mutex_, as the next
  Freshness freshness_;

  std::atomic<bool> ending_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace millrace
