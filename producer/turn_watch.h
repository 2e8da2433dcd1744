// Watches whether rows come so slowly that a worker waits long for its turn.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace millrace {

// Of a stream that is dealt in turns of rows (topics/partitioning.h). Pure; not thread-safe.
class TurnWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `rows`: that have come by now. Returns a warning, with the remedy, ten seconds after the first
  // rows, if a turn of so many rows takes five seconds or more by these; else nothing. Called
  // often.
  std::optional<std::string> Look(uint32_t rows_per_turn, uint64_t rows, Time now);

 private:
  std::optional<Time> first_;  // when rows were there
  bool is_done_ = false;
};

}  // namespace millrace
