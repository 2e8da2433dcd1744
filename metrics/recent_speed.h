// How fast a job is at present, by samples of its counters. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>

#include "base/usual_pause.h"

namespace millrace {

// Over the last seconds; where a step takes longer, since the last one but one began (up to half a
// minute). The time of an outage counts in no speed: after it the window begins with the first step
// that was made again, and the speed is unknown until there is a second of it and a further step.
class RecentSpeed {
 public:
  static constexpr int64_t kWindowMs = 4'000;
  static constexpr int64_t kKeptMs = 30'000;
  // An outage (UsualPause): no sample for kSilentMs, or no step for kStillMs.
  static constexpr int64_t kSilentMs = 2'000;
  static constexpr int64_t kStillMs = 5'000;
  static constexpr int64_t kLeastAfterOutageMs = 1'000;

  struct Sample {
    int64_t timestamp_ms = 0;
    uint64_t steps = 0;  // what goes on while nothing is wrong
    uint64_t rounds = 0;
    uint64_t rows = 0;
    uint64_t rows_trained = 0;
  };
  struct Span {
    Sample begin;
    Sample end;
    double seconds = 0;  // above 0
  };

  // `silent_ms`: since the sample before of the program that sent this one; 0: there is none.
  void Add(const Sample& sample, int64_t silent_ms);

  std::optional<Span> span() const;
  // No step has been made for so long that it may be an outage.
  bool stands_still() const;

 private:
  struct Entry {
    Sample sample;
    bool is_first_after_outage = false;
  };
  bool IsOutage(int64_t waited_ms, int64_t least_ms) const;

  std::deque<Entry> entries_;
  bool is_away_ = false;  // an outage began, and no step was made since
  std::optional<int64_t> stepped_ms_;
  UsualPause<std::chrono::milliseconds> usual_;
};

}  // namespace millrace
