// What a worker's host does from the assignment of its partition to the revocation: from where it
// reads, when rows are held back, what is committed and deleted.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "stores/ordered_byte_map.h"
#include "tasks/worker_task.h"
#include "topics/outgoing_record.h"

namespace millrace {

// Between the readers of a worker's rows and weights and its task. Life: Assigned; Started, when
// the reader of weights stands at the end of its partition; then the others. Not thread-safe.
class WorkerFeed {
 public:
  // A commit of the consumer group.
  struct Committed {
    Offset offset = 0;
    std::string_view metadata;
  };
  // What the partition of `input-data` holds: [begin, end).
  struct Range {
    Offset begin = 0;
    Offset end = 0;
  };
  struct Positions {
    std::optional<InputPosition> commit;  // if it is new
    // What may be deleted: `input-data` and `weights` before these offsets.
    std::optional<Offset> rows_end;
    std::optional<Offset> weights_end;
  };

  // The task outlives it.
  explicit WorkerFeed(WorkerTask& task) : task_(&task) {}

  // The partition was assigned (rows that are leased come without). Returns where to read rows
  // (WorkerTask::StartReading). DataLoss when the partition ends before that: it was deleted and
  // recreated.
  StatusOr<Offset> Assigned(const std::optional<Committed>& committed, Range rows,
                            const OrderedByteMap* store);
  // Nothing of `weights` was missed from here on: asks the servers. Again, when weights were
  // deleted before they were read, and the reader stands at the end again.
  void Started(std::vector<OutgoingRecord>& out) { task_->Start(out); }
  // Call it when the next rows are not in the topic. OK: another instance of this worker, further
  // on, deleted them (a zombie maybe); create a new task without a committed position. DataLoss:
  // the topic was deleted and recreated.
  Status RowsAreGone(Range rows) const;

  // Take what has been read. Rows may come after they were held back, too: a reader stops when it
  // can. Errors are the task's.
  Status TakeRows(const InputDataRecord& record);
  // Where rows are leased: WorkerTask::FollowLeases.
  StatusOr<bool> TakeLeases(const WorkerLeases& leases, const std::vector<InputState>& tails) {
    has_news_ = true;
    return task_->FollowLeases(leases, tails);
  }
  void TakeWeights(Offset offset, std::string_view key, std::string_view value,
                   std::vector<OutgoingRecord>& out);
  // WorkerTask::ProcessStraight.
  Status TakeStraight(std::string_view key, std::string_view value) {
    has_news_ = true;
    return task_->ProcessStraight(key, value);
  }
  void TakeShared(const std::shared_ptr<const SharedWeights>& shared) {
    has_news_ = task_->ProcessShared(shared) || has_news_;
  }
  // Computes with what has come since the last call. Returns false when nothing has.
  StatusOr<bool> Advance(std::vector<OutgoingRecord>& out);
  bool has_news() const { return has_news_; }
  // Whether the reader of rows is to be held back from now on (true) or let go (false); empty: as
  // before. To be asked after each TakeRows (a record has many) and each Advance.
  std::optional<bool> TakeHold();
  bool holds() const { return holds_; }

  // What is to be committed and deleted now, and when the partition is revoked in time to commit.
  Positions TakePositions();

 private:
  WorkerTask* task_;
  bool has_news_ = false;  // since the last Advance
  bool holds_ = false;
  Offset next_record_ = 0;  // the reader's position
  std::optional<InputPosition> committed_;
  std::optional<Offset> weights_read_;
};

}  // namespace millrace
