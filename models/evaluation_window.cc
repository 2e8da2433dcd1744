#include "models/evaluation_window.h"

#include <algorithm>
#include <utility>

namespace millrace {

void EvaluationWindow::Add(const EvaluationSums& sums, uint64_t all_rows) {
  open_.Merge(sums);
  const uint64_t needed = std::min(std::max(all_rows / kParts, fewest_rows_), kMostRows);
  if (open_.rows < needed) return;
  last_ = std::exchange(open_, {});
  last_end_ = all_rows;
}

void EvaluationWindow::Restore(EvaluationSums last, uint64_t last_end, EvaluationSums open) {
  last_ = std::move(last);
  last_end_ = last_end;
  open_ = std::move(open);
}

}  // namespace millrace
