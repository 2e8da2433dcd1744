#include "tasks/worker_feed.h"

#include <string>
#include <utility>

namespace millrace {

Status WorkerFeed::TakeRow(const InputDataRecord& record) {
  has_news_ = true;
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

std::optional<InputPosition> WorkerFeed::TakeCommit() {
  const std::optional<InputPosition> position = task_->CommitPosition();
  if (!position || committed_ == position) return std::nullopt;
  committed_ = position;
  return position;
}

Status CheckRowsWereDeleted(Offset next, Offset end) {
  if (next <= end) return absl::OkStatus();
  return absl::DataLossError("ends at offset " + std::to_string(end) +
                             ", before an offset that was already read: the topic was deleted and "
                             "recreated");
}

}  // namespace millrace
