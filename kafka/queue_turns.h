// Takes turns between partitions that have a fetch queue each. Private to this folder.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>

#include "base/status.h"

namespace millrace::kafka_internal {

class QueueTurns {
 public:
  // Round and round, beginning where the last call ended, until a round brings nothing or `events`,
  // which `hand_out(entry, most)` raises to at most `most`, has reached `max_events`. The entries
  // stay as they are meanwhile. Errors: the first of `hand_out`.
  template <typename Entry, typename HandOut>
  Status Take(std::map<int32_t, Entry>& entries, size_t max_events, const size_t& events,
              const HandOut& hand_out) {
    if (entries.empty()) return absl::OkStatus();
    auto turn = entries.lower_bound(first_);
    for (size_t idle = 0; idle < entries.size() && events < max_events; ++turn) {
      if (turn == entries.end()) turn = entries.begin();
      const size_t before = events;
      MILLRACE_RETURN_IF_ERROR(hand_out(turn->second, std::min(max_events, before + kSlice)));
      idle = events > before ? 0 : idle + 1;
    }
    first_ = turn == entries.end() ? 0 : turn->first;
    return absl::OkStatus();
  }

 private:
  static constexpr size_t kSlice = 256;  // of one partition before the next has its turn

  int32_t first_ = 0;  // the partition whose turn is first
};

}  // namespace millrace::kafka_internal
