#include "tasks/worker_feed.h"

#include <string>
#include <utility>

namespace millrace {

StatusOr<Offset> WorkerFeed::Assigned(const std::optional<Committed>& committed, Range rows,
                                      const OrderedByteMap* store) {
  std::optional<InputPosition> position;
  if (committed) position = InputPosition::FromCommit(committed->offset, committed->metadata);
  MILLRACE_ASSIGN_OR_RETURN(next_record_, task_->StartReading(position, rows.begin, store));
  MILLRACE_RETURN_IF_ERROR(RowsAreGone(rows));
  return next_record_;
}

Status WorkerFeed::RowsAreGone(Range rows) const {
  if (next_record_ <= rows.end) return absl::OkStatus();
  return absl::DataLossError("ends at offset " + std::to_string(rows.end) +
                             ", before an offset that was already read: the topic was deleted and "
                             "recreated");
}

Status WorkerFeed::TakeRows(const InputDataRecord& record) {
  has_news_ = true;
  next_record_ = record.offset + 1;
  return task_->ProcessInput(record);
}

void WorkerFeed::TakeWeights(Offset offset, std::string_view key, std::string_view value,
                             std::vector<OutgoingRecord>& out) {
  has_news_ = true;
  weights_read_ = offset;
  task_->ProcessWeights(offset, key, value, out);
}

StatusOr<bool> WorkerFeed::Advance(std::vector<OutgoingRecord>& out) {
  if (!std::exchange(has_news_, false)) return false;
  MILLRACE_RETURN_IF_ERROR(task_->Advance(out));
  return true;
}

std::optional<bool> WorkerFeed::TakeHold() {
  const bool hold = !task_->WantsRows();
  if (std::exchange(holds_, hold) == hold) return std::nullopt;
  return hold;
}

WorkerFeed::Positions WorkerFeed::TakePositions() {
  Positions positions{task_->CommitPosition(), task_->TrimPosition(), weights_read_};
  if (positions.commit == committed_) {
    positions.commit.reset();
  } else if (positions.commit) {
    committed_ = positions.commit;
  }
  return positions;
}

}  // namespace millrace
