#include "producer/level_watch.h"

#include <algorithm>

#include "base/check.h"

namespace millrace {

std::optional<double> LevelWatch::Observe(const Row& row) {
  if (rows_ >= kRows) return std::nullopt;
  const bool of_classes = of_block_.size() > 1;
  MILLRACE_CHECK(!of_classes || row.label < of_block_.size());
  if (rows_ == 0) first_ = row.target;
  const double value = of_classes ? 1 : double{row.target} - double{first_};
  of_block_[of_classes ? row.label : 0] += value;
  squares_ += value * value;
  if (++rows_ % kBlock == 0) EndBlock();
  if (rows_ < kRows) return std::nullopt;
  const double correlation = Correlation();
  return correlation > kAlike ? std::optional(correlation) : std::nullopt;
}

void LevelWatch::EndBlock() {
  for (size_t i = 0; i < of_block_.size(); ++i) {
    between_ += of_block_[i] * of_block_[i] / kBlock;
    sums_[i] += of_block_[i];
  }
  std::ranges::fill(of_block_, 0.0);
}

double LevelWatch::Correlation() const {
  constexpr uint64_t kBlocks = kRows / kBlock;
  double of_mean = 0;
  for (const double sum : sums_) of_mean += sum * sum / kRows;
  const double between = (between_ - of_mean) / static_cast<double>(kBlocks - 1);
  const double within = (squares_ - between_) / static_cast<double>(kRows - kBlocks);
  const double all = between + (kBlock - 1) * within;
  return all > 0 ? (between - within) / all : 0;
}

}  // namespace millrace
