#include "processors/received_rows.h"

#include <algorithm>

#include "base/check.h"

namespace millrace {

ReceivedRows::ReceivedRows(size_t answers) : most_(answers) { MILLRACE_CHECK(answers >= 1); }

void ReceivedRows::Add(EmbeddingBlock rows, Clock min_clock) {
  if (answers_.size() == most_) answers_.pop_back();
  answers_.push_front({std::move(rows), min_clock});
}

bool ReceivedRows::Have(std::span<const EmbeddingId> ids, Clock min_clock) const {
  // Mostly one answer has them all.
  for (const Answer& answer : answers_) {
    if (answer.min_clock >= min_clock && std::ranges::includes(answer.rows.id(), ids)) return true;
  }
  return std::ranges::all_of(ids,
                             [&](EmbeddingId id) { return Find(id, 0, min_clock) != nullptr; });
}

const float* ReceivedRows::Find(EmbeddingId id, size_t width, Clock min_clock) const {
  for (const Answer& answer : answers_) {
    if (answer.min_clock < min_clock) continue;
    const auto& ids = answer.rows.id();
    const auto found = std::ranges::lower_bound(ids, id);
    if (found == ids.end() || *found != id) continue;
    return answer.rows.value().data() + static_cast<size_t>(found - ids.begin()) * width;
  }
  return nullptr;
}

}  // namespace millrace
