#include "processors/policy.h"

#include <algorithm>
#include <charconv>

#include "base/check.h"

namespace millrace {
namespace {

std::optional<int64_t> ParseDelay(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool GrowsFromOneRow(const Training& training) {
  return !training.has_batch_rows() && training.update().kind() == Training::Update::ONLINE;
}

}  // namespace

ConsistencyPolicy ConsistencyPolicy::Bounded(uint64_t max_delay) {
  MILLRACE_CHECK(max_delay >= 1);
  return ConsistencyPolicy(max_delay);
}

StatusOr<ConsistencyPolicy> ConsistencyPolicy::Parse(std::string_view text) {
  constexpr std::string_view kBounded = "bounded:";
  if (text == "sequential") return Sequential();
  if (text == "eventual") return Eventual();
  if (text.starts_with(kBounded)) {
    const std::optional<int64_t> delay = ParseDelay(text.substr(kBounded.size()));
    if (delay && *delay >= 1) return Bounded(static_cast<uint64_t>(*delay));
  } else if (const std::optional<int64_t> delay = ParseDelay(text)) {
    if (*delay == 0) return Sequential();
    if (*delay == -1) return Eventual();
    if (*delay > 0) return Bounded(static_cast<uint64_t>(*delay));
  }
  return absl::InvalidArgumentError(
      "consistency '" + std::string(text) +
      "' is not known: give sequential, eventual, bounded:K with K >= 1, or the maximum delay "
      "as a number (0, -1 for none, K)");
}

bool ConsistencyPolicy::Released(const VectorClock& clocks, WorkerId worker) const {
  if (!bound_ || clocks.left(worker)) return true;
  return Releases(clocks.clock(worker), *clocks.Min());
}

bool ConsistencyPolicy::Releases(Clock clock, Clock min) const {
  MILLRACE_CHECK(clock >= min);
  return !bound_ || clock - min <= *bound_;
}

std::vector<WorkerId> ConsistencyPolicy::NewlyReleased(const VectorClock& clocks,
                                                       Clock before) const {
  const std::optional<Clock> min = clocks.Min();
  if (!bound_ || !min) return {};
  MILLRACE_CHECK(*min >= before);
  const auto last_released = [this](Clock slowest) {
    return slowest > UINT64_MAX - *bound_ ? Clock(UINT64_MAX) : Clock(slowest + *bound_);
  };
  return clocks.PresentIn(last_released(before), last_released(*min));
}

std::string ConsistencyPolicy::ToString() const {
  if (!bound_) return "eventual";
  if (*bound_ == 0) return "sequential";
  return "bounded:" + std::to_string(*bound_);
}

size_t PipelineOf(const Training& training) {
  constexpr uint64_t kDefault = 2;
  const uint64_t wanted = training.has_pipeline() ? training.pipeline() : kDefault;
  uint64_t most = kMostPipeline;
  const Training::Consistency& consistency = training.consistency();
  // A buffer's batch ends where the stream has come to: two instances of a worker would send
  // updates of other rows on one another.
  const bool waits = consistency.model() == Training::Consistency::SEQUENTIAL ||
                     training.schedule() == Training::BUFFER;
  if (waits) most = 1;
  if (consistency.model() == Training::Consistency::BOUNDED) {
    most = std::min<uint64_t>(most - 1, consistency.max_delay()) + 1;  // (any delay: no overflow)
  }
  return std::clamp<uint64_t>(wanted, 1, most);
}

size_t FirstBatchRows(const Training& training, uint32_t rows_per_turn) {
  const size_t most = MostBatchRows(training, rows_per_turn);
  const uint32_t first = GrowsFromOneRow(training) ? 1 : training.first_batch_rows();
  return first > 0 ? std::min<size_t>(first, most) : most;
}

size_t MostBatchRows(const Training& training, uint32_t rows_per_turn) {
  constexpr uint32_t kMostGrown = 128;
  const uint32_t rows = training.batch_rows();
  return GrowsFromOneRow(training) ? std::max(rows, std::min(rows_per_turn / 2, kMostGrown)) : rows;
}

}  // namespace millrace
