// How fast rows arrive, by their own timestamps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

// Rows per minute from the mean of the last kWindow inter-arrival times. Pure: it sees record
// timestamps, never a clock, so that a task that moves computes the same rate from the same rows. A
// timestamp before its predecessor counts as a gap of 0. A function of the last kWindow + 1
// timestamps.
class ArrivalRate {
 public:
  static constexpr size_t kWindow = 500;

  void Add(int64_t timestamp_ms);
  // Empty until there are two rows; infinity when no time passed between them.
  std::optional<double> RowsPerMinute() const;
  // The timestamp of the last row; empty before the first.
  std::optional<int64_t> last_ms() const { return last_ms_; }

  // The state as bytes (below 1.1 kB while rows come every 16 s or faster), appended to `bytes`.
  void AppendTo(std::string& bytes) const;
  // Replaces the state by bytes of AppendTo. False, and the state is unchanged, if they are not.
  bool ParseFrom(std::string_view bytes);

 private:
  void AddGap(int64_t gap_ms);

  std::vector<int64_t> gaps_ms_;  // a ring once it is full
  size_t oldest_ = 0;             // in gaps_ms_
  int64_t gaps_sum_ms_ = 0;
  std::optional<int64_t> last_ms_;
};

}  // namespace millrace
