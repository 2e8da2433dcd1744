#include "producer/turn_watch.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

constexpr std::chrono::seconds kWatched(10);
constexpr std::chrono::seconds kLong(5);

}  // namespace

std::optional<std::string> TurnWatch::Look(uint32_t rows_per_turn, uint64_t rows, Time now) {
  if (is_done_ || rows == 0) return std::nullopt;
  if (!first_) first_ = now;
  const std::chrono::duration<double> time = now - *first_;
  if (time < kWatched) return std::nullopt;
  is_done_ = true;
  const auto turn = time * rows_per_turn / static_cast<double>(rows);
  if (rows_per_turn <= 1 || turn < kLong) return std::nullopt;
  return absl::StrCat(
      "each worker gets ", rows_per_turn, " rows at a time, and as they come now that takes ",
      std::llround(turn.count()),
      " s; in a sequential or bounded job the other workers wait for theirs. If that is too long, "
      "start a new job (another --job) with --rows-per-turn 1");
}

}  // namespace millrace
