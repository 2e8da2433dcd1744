// Whether what is written or live is what the referee says.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "messages/records.pb.h"
#include "models/evaluation.h"
#include "tests/simulation/referee.h"

namespace millrace::simulation {

template <typename Floats>
inline bool SameBits(const std::vector<float>& expected, const Floats& is) {
  if (expected.size() != static_cast<size_t>(is.size())) return false;
  return expected.empty() ||
         std::memcmp(expected.data(), is.data(), expected.size() * sizeof(float)) == 0;
}

inline bool SameColumn(const Referee::Column& column, double count, double mean, double m2) {
  return column.count == count && Near(column.mean, mean, mean) &&
         Near(column.m2, m2, m2 + count * mean * mean);
}

inline bool SameSums(const Referee::Sums& expected, const EvaluationSums& is) {
  return expected.rows == is.rows && expected.log_loss == is.log_loss &&
         expected.cells == is.cells && expected.bins == is.score_bins;
}

inline bool SameSums(const Referee::Sums& expected, const EvaluationSumsMessage& is) {
  std::map<uint32_t, uint64_t> cells;
  std::map<uint32_t, uint64_t> bins;
  for (int i = 0; i < is.cell_size(); ++i) cells[is.cell(i)] += is.cell_count(i);
  for (int i = 0; i < is.score_bin_size(); ++i) bins[is.score_bin(i)] += is.score_count(i);
  return expected.rows == is.rows() && expected.log_loss == is.log_loss() &&
         expected.cells == cells && expected.bins == bins;
}

inline bool IsSame(const RowProgress& is, const Referee::Counted& expected) {
  return is.end() == expected.end && is.updates_without_rows() == expected.without;
}

// Message is Weights or ShardState::Member.
template <typename Message>
inline bool SameRows(const Message& is, const Referee::Member& expected) {
  return IsSame(is.rows(), expected.rows) &&
         std::ranges::equal(is.rows_before(), expected.rows_before, IsSame);
}

inline bool SameCounters(const Referee::State& state, const ShardState::Counters& counters) {
  return counters.gradients_accepted() == state.accepted &&
         counters.duplicates_ignored() == state.duplicates &&
         counters.non_finite_updates() == state.poisoned && counters.refused() == state.refused &&
         counters.undecodable_rows() == state.undecodable_rows &&
         counters.time_jumps() == state.time_jumps;
}

}  // namespace millrace::simulation
