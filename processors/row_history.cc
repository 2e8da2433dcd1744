#include "processors/row_history.h"

namespace millrace {

RowHistory RowHistory::AsOf(size_t clocks) const {
  RowHistory history(before_.size());
  history.now_ = Ago(clocks);
  for (size_t i = 0; i < before_.size(); ++i) history.before_[i] = Ago(clocks + 1 + i);
  return history;
}

void RowHistory::Count(uint64_t rows_end, uint64_t repeated_end) {
  before_.insert(before_.begin(), now_);
  before_.pop_back();
  const bool has_new = rows_end > now_.end();
  now_.set_updates_without_rows(has_new ? 0 : now_.updates_without_rows() + 1);
  now_.set_end(std::max(now_.end(), rows_end));
  now_.set_repeated_end(std::max(now_.repeated_end(), repeated_end));
}

void RowHistory::RaiseTo(uint64_t rows_end) {
  now_.set_end(std::max(now_.end(), rows_end));
  for (RowProgress& progress : before_) progress.set_end(std::max(progress.end(), rows_end));
}

}  // namespace millrace
