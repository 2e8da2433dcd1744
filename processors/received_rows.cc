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
  std::vector<const float*> found;
  FindAll(ids, 0, min_clock, found);
  return std::ranges::all_of(found, [](const float* row) { return row != nullptr; });
}

// An answer has the rows that it was asked for: mostly the next one there is the next one here.
void ReceivedRows::FindAll(std::span<const EmbeddingId> ids, size_t width, Clock min_clock,
                           std::vector<const float*>& found) const {
  std::vector<const EmbeddingId*> nexts;  // by answer: those before are lower
  for (const Answer& answer : answers_) nexts.push_back(answer.rows.id().data());
  for (const EmbeddingId id : ids) {
    const float* row = nullptr;
    for (size_t i = 0; i < answers_.size() && row == nullptr; ++i) {
      const Answer& answer = answers_[i];
      if (answer.min_clock < min_clock) continue;
      const EmbeddingId* const begin = answer.rows.id().data();
      const EmbeddingId* const end = begin + answer.rows.id_size();
      const EmbeddingId*& next = nexts[i];
      if (next != end && *next < id) ++next;
      if (next != end && *next < id) next = std::lower_bound(next, end, id);
      if (next == end || *next != id) continue;
      row = answer.rows.value().data() + static_cast<size_t>(next - begin) * width;
    }
    found.push_back(row);
  }
}

}  // namespace millrace
