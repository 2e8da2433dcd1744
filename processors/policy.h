// When a worker may continue: the one rule of sequential, eventual and bounded-delay training.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "messages/training.pb.h"
#include "processors/vector_clock.h"

namespace millrace {

// Worker w's answer is released when clock(w) - min(clock) <= bound (stale synchronous parallel,
// Ho et al., NIPS 2013). Sequential is bound 0, eventual has no bound. A pure value.
class ConsistencyPolicy {
 public:
  static ConsistencyPolicy Sequential() { return ConsistencyPolicy(0); }
  static ConsistencyPolicy Eventual() { return ConsistencyPolicy(std::nullopt); }
  // REQUIRES max_delay >= 1.
  static ConsistencyPolicy Bounded(uint64_t max_delay);

  // "sequential", "eventual", "bounded:K" with K >= 1; or the number max_vector_clock_delay:
  // "0", "-1", "K".
  static StatusOr<ConsistencyPolicy> Parse(std::string_view text);

  bool sequential() const { return bound_ == 0; }
  std::optional<uint64_t> bound() const { return bound_; }

  // Whether a worker at `clock` may continue when the slowest is at `min`. REQUIRES clock >= min.
  bool Releases(Clock clock, Clock min) const;
  // A worker that left is released: it does not wait for others.
  bool Released(const VectorClock& clocks, WorkerId worker) const;
  // The workers that have not left and may continue now, but could not when the slowest was at
  // `before`, ascending. REQUIRES: the minimum has not gone back since. Takes time for these
  // workers only, and logarithmic time to find them.
  std::vector<WorkerId> NewlyReleased(const VectorClock& clocks, Clock before) const;

  std::string ToString() const;
  bool operator==(const ConsistencyPolicy&) const = default;

 private:
  explicit ConsistencyPolicy(std::optional<uint64_t> bound) : bound_(bound) {}

  std::optional<uint64_t> bound_;
};

// The most updates that a worker may have in flight.
inline constexpr uint32_t kMostPipeline = 16;

// So many updates of a worker may be in flight: Training.pipeline or its default, as far as the
// consistency model allows it.
size_t PipelineOf(const Training& training);

// The rows of a worker's first batches in one pass: as many as of all (MostBatchRows), or fewer,
// where batches grow (OnePassBatches): 1 of ONLINE updates, unless their number was given, and else
// Training.first_batch_rows.
size_t FirstBatchRows(const Training& training, uint32_t rows_per_turn);

// The most rows of a worker's batch in one pass: Training.batch_rows; of ONLINE updates that grow,
// half of a turn (Dealing::rows_per_turn) if that is more, and 128 at most. A round costs the
// broker what it costs, however many rows it has, and turns are long where rows come fast.
size_t MostBatchRows(const Training& training, uint32_t rows_per_turn);

}  // namespace millrace
