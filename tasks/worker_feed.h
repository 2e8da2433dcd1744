// What a worker's host does with its two readers: when rows are held back, what is committed.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tasks/worker_task.h"
#include "topics/outgoing_record.h"

namespace millrace {

// Between the readers of a worker's rows and weights and its task. Not thread-safe.
class WorkerFeed {
 public:
  // The task outlives it.
  explicit WorkerFeed(WorkerTask& task) : task_(&task) {}

  // Take what has been read. Rows may come after they were held back, too: a reader stops when it
  // can. Errors are the task's.
  Status TakeRow(const InputDataRecord& record);
  void TakeWeights(Offset offset, std::string_view key, std::string_view value,
                   std::vector<OutgoingRecord>& out);
  // Computes with what has come since the last call. Returns false when nothing has.
  StatusOr<bool> Advance(std::vector<OutgoingRecord>& out);
  // Whether the reader of rows is to be held back from now on (true) or let go (false); empty: as
  // before. To be asked after each Advance.
  std::optional<bool> TakeHold();
  bool holds() const { return holds_; }

  // The position to commit, if it is new.
  std::optional<InputPosition> TakeCommit();
  // `weights` before this offset has been read.
  std::optional<Offset> WeightsTrimPosition() const { return weights_read_; }

 private:
  WorkerTask* task_;
  bool has_news_ = false;  // since the last Advance
  bool holds_ = false;
  std::optional<InputPosition> committed_;
  std::optional<Offset> weights_read_;
};

// The rows that a reader at `next` was to read are gone, and the partition ends at `end`. OK: they
// were deleted, which another instance of the worker does that is further on: nobody needs them.
// DataLoss: they never were in this topic, which was deleted and recreated.
Status CheckRowsWereDeleted(Offset next, Offset end);

}  // namespace millrace
