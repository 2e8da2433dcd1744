#include "models/drift_detector.h"

#include <algorithm>
#include <cmath>

namespace millrace {
namespace {

// Blocks that are all equal have none; then anything higher is far away.
constexpr double kLeastDeviation = 1e-12;

bool IsLoss(double value) { return value >= 0 && value <= DriftDetector::kMostLoss; }

// Of one row or, summed, of more; what is no number counts as the least.
double Clipped(double loss, double rows = 1) {
  return loss > 0 ? std::min(loss, DriftDetector::kMostLoss * rows) : 0;
}

}  // namespace

bool DriftDetector::Restore(const State& state, uint64_t tested) {
  const Drift& last = state.last;
  const bool is_valid =
      state.blocks <= tested && IsLoss(state.mean) && state.variance >= 0 &&
      state.variance <= kMostLoss * kMostLoss && state.excess >= 0 && state.excess <= kLimit &&
      state.excess_begin <= tested && state.excess_rows <= tested - state.excess_begin &&
      state.excess_loss >= 0 && std::isfinite(state.excess_loss) && IsLoss(state.excess_from) &&
      state.open_rows < pace_.block_rows && state.open_rows <= tested &&
      std::isfinite(state.open_loss) && last.count <= tested && last.row <= last.found_at &&
      last.found_at <= tested && IsLoss(last.before) && IsLoss(last.after);
  if (is_valid) state_ = state;
  return is_valid;
}

bool DriftDetector::Add(uint64_t rows, double loss_sum, uint64_t tested, uint64_t clock) {
  state_.open_rows += rows;
  state_.open_loss += Clipped(loss_sum, static_cast<double>(rows));
  if (state_.open_rows < pace_.block_rows) return false;
  const uint64_t block_rows = state_.open_rows;
  const double loss = state_.open_loss / static_cast<double>(block_rows);
  state_.open_rows = 0;
  state_.open_loss = 0;
  return AddBlock(Clipped(loss), block_rows, tested, clock);
}

bool DriftDetector::AddBlock(double loss, uint64_t rows, uint64_t tested, uint64_t clock) {
  if (state_.blocks < pace_.first_blocks) {
    AddToMean(loss);
    return false;
  }
  const double deviation = std::sqrt(state_.variance) + kLeastDeviation;
  const double away =
      std::clamp((loss - state_.mean) / deviation, -kMostDeviations, kMostDeviations);
  AddExcess(away, loss, rows, tested);
  if (state_.excess <= kLimit) {
    AddToMean(Clipped(state_.mean + away * deviation));  // nor does one block move it far
    return false;
  }
  const Drift drift = {.count = state_.last.count + 1,
                       .row = state_.excess_begin,
                       .found_at = tested,
                       .clock = clock,
                       .before = state_.excess_from,
                       .after = state_.excess_loss / static_cast<double>(state_.excess_rows)};
  state_ = State();
  state_.last = drift;
  return true;
}

void DriftDetector::AddExcess(double away, double loss, uint64_t rows, uint64_t tested) {
  if (state_.excess == 0) {
    state_.excess_begin = tested - rows;
    state_.excess_rows = 0;
    state_.excess_loss = 0;
    state_.excess_from = state_.mean;
  }
  state_.excess = std::max(state_.excess + away - kSlack, 0.0);
  state_.excess_rows += rows;
  state_.excess_loss += loss * static_cast<double>(rows);
}

// An average that is the plain one at first, and then weighs the newest block by 1 / kMemory.
void DriftDetector::AddToMean(double loss) {
  ++state_.blocks;
  const double share = std::max(1 / static_cast<double>(state_.blocks), 1 / kMemory);
  const double distance = loss - state_.mean;
  state_.mean = Clipped(state_.mean + share * distance);
  state_.variance = (1 - share) * (state_.variance + share * distance * distance);
}

double DriftLoss(const EvaluationSums& sums, const EvaluationSums& all, size_t classes) {
  if (classes > 0) return sums.log_loss;
  const auto rows = static_cast<double>(all.rows - all.unpredicted);
  if (rows == 0) return 0;
  const double mean = all.target / rows;
  const double variance = all.squared_target / rows - mean * mean;
  return variance > 0 ? sums.absolute_error / std::sqrt(variance) : 0;
}

}  // namespace millrace
