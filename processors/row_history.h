// How far a worker's rows have been counted, at its clock and at the clocks before.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "messages/records.pb.h"

namespace millrace {

// How far the rows were counted so many clocks before that of a message (Weights,
// SharedWeights::Answer, Gradient::Restore or ShardState::Member). What it does not have is taken
// to be as its oldest.
template <typename Message>
const RowProgress& RowsAgo(const Message& message, size_t clocks) {
  if (clocks == 0) return message.rows();
  const auto& before = message.rows_before();
  if (before.empty()) return RowProgress::default_instance();
  const size_t known = std::min(clocks, static_cast<size_t>(before.size()));
  return before[static_cast<int>(known) - 1];
}

// A worker may have several updates in flight, and then its shards are as many clocks apart; where
// the update of the lowest of them begins is known from here. Messages and states have it as `rows`
// and `rows_before`, newest first. A value; not thread-safe.
class RowHistory {
 public:
  // Remembers so many clocks before the present one. REQUIRES depth >= 1.
  explicit RowHistory(size_t depth = 1) : before_(depth) { MILLRACE_CHECK(depth >= 1); }

  // As a message has it (RowsAgo).
  template <typename Message>
  static RowHistory Of(const Message& message, size_t depth) {
    RowHistory history(depth);
    history.now_ = message.rows();
    for (size_t i = 0; i < depth; ++i) history.before_[i] = RowsAgo(message, i + 1);
    return history;
  }
  template <typename Message>
  void SaveTo(Message& message) const {
    *message.mutable_rows() = now_;
    *message.mutable_rows_before() = {before_.begin(), before_.end()};
  }

  const RowProgress& now() const { return now_; }
  std::span<const RowProgress> before() const { return before_; }
  // So many clocks ago; of what is not remembered, the oldest.
  const RowProgress& Ago(size_t clocks) const {
    return clocks == 0 ? now_ : before_[std::min(clocks, before_.size()) - 1];
  }
  // As it was so many clocks ago.
  RowHistory AsOf(size_t clocks) const;

  // The next update counts the rows below this number, and those below `repeated_end` as learnt
  // from twice. (They are never uncounted.)
  void Count(uint64_t rows_end, uint64_t repeated_end = 0);
  // Rows below this number are gone, and have been counted whatever is remembered.
  void RaiseTo(uint64_t rows_end);

 private:
  RowProgress now_;
  std::vector<RowProgress> before_;  // newest first
};

}  // namespace millrace
