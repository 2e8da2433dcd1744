// Notices when the stream has changed: when the loss of tested rows rises and stays high.
#pragma once

#include <cstdint>

#include "models/evaluation.h"

namespace millrace {

// Page's cumulative sum test (Page 1954, "Continuous Inspection Schemes") on the mean losses of
// blocks of rows. A block's loss counts in deviations from the mean of the blocks before it, whose
// mean and deviation forget, so that a loss that falls while the model learns is no change, and
// that no threshold depends on the data. docs/learning.md has the formulas, and how often it was
// right. What it holds is a function of the sums that were added, in their order. Not thread-safe.
class DriftDetector {
 public:
  struct Pace {
    // A block has so many rows, and those of an update that are beyond.
    uint64_t block_rows = 50;
    // Before so many blocks nothing is a change, nor after a drift.
    uint64_t first_blocks = 20;
  };
  // Losses of an update and of a block are at most this, by row.
  static constexpr double kMostLoss = 10;
  // The mean and the variance forget a block of n blocks ago by (1 - 1 / kMemory)^n.
  static constexpr double kMemory = 100;
  // A block counts as at most so many deviations away, up or down,
  static constexpr double kMostDeviations = 6;
  // and its deviations beyond kSlack are summed, as long as the sum is above 0; kLimit is a drift.
  static constexpr double kSlack = 1;
  static constexpr double kLimit = 6;

  // The last one.
  struct Drift {
    uint64_t count = 0;     // of all so far; 0: there has been none
    uint64_t row = 0;       // rows that had been tested when the loss began to be higher,
    uint64_t found_at = 0;  // and when that was found,
    uint64_t clock = 0;     // with the update of this clock
    double before = 0;      // mean loss of the rows before `row`,
    double after = 0;       // and of those from there to `found_at`
    bool operator==(const Drift&) const = default;
  };
  struct State {
    uint64_t blocks = 0;  // since the beginning or the last drift
    double mean = 0;      // of their losses
    double variance = 0;
    double excess = 0;          // Page's sum; if it is above 0:
    uint64_t excess_begin = 0;  // rows that had been tested when it began to grow,
    uint64_t excess_rows = 0;   // how many there were since,
    double excess_loss = 0;     // their losses, summed,
    double excess_from = 0;     // and `mean` as it was then
    uint64_t open_rows = 0;     // of the block that is not full, and their losses, summed
    double open_loss = 0;
    Drift last;
    bool operator==(const State&) const = default;
  };

  // `pace` may be faster for tests.
  explicit DriftDetector(const Pace& pace) : pace_(pace) {}
  // Takes the state over; false: no rows can have led to it, of which `tested` were tested, and
  // nothing has changed.
  bool Restore(const State& state, uint64_t tested);

  // Adds the next rows, of an update of `clock`: how many, and the sum of their losses. `tested`:
  // all rows so far, with them. Returns whether there was a drift.
  bool Add(uint64_t rows, double loss_sum, uint64_t tested, uint64_t clock);

  const State& state() const { return state_; }
  const Drift& last() const { return state_.last; }

 private:
  bool AddBlock(double loss, uint64_t rows, uint64_t tested, uint64_t clock);
  // Adds the block's deviations to Page's sum. `away`: how many it is from the mean.
  void AddExcess(double away, double loss, uint64_t rows, uint64_t tested);
  void AddToMean(double loss);

  Pace pace_;
  State state_;
};

// The losses that a DriftDetector gets, summed over the rows of `sums`: the log loss of classes; of
// a regression (`classes` 0) the absolute error, in standard deviations of the targets of all rows
// so far.
double DriftLoss(const EvaluationSums& sums, const EvaluationSums& all, size_t classes);

}  // namespace millrace
