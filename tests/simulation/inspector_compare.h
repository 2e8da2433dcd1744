// Whether what is written or live is what the referee says.
#pragma once

#include <algorithm>
#include <array>
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

// The numeric columns, the targets, and the errors of predictions.
inline bool SameMoments(const std::vector<Referee::Column>& columns, const MomentsMessage& is) {
  if (static_cast<size_t>(is.count_size()) + 2 != columns.size()) return false;
  for (int i = 0; i < is.count_size(); ++i) {
    if (!SameColumn(columns[static_cast<size_t>(i)], is.count(i), is.mean(i), is.m2(i)))
      return false;
  }
  const Referee::Column& targets = columns[columns.size() - 2];
  const Referee::Column& errors = columns.back();
  return SameColumn(targets, is.target_count(), is.target_mean(), is.target_m2()) &&
         errors.count == is.error_count() && Near(errors.mean, is.error_mean(), is.error_mean());
}

inline bool SameRange(const Referee::Range& range, const MomentsMessage& is) {
  return range.least == is.target_least() && range.most == is.target_most() &&
         Near(range.votes, is.range_votes(), is.error_count());
}

// What a checkpoint has of it.
inline bool SameWatch(const Referee& referee, const Referee::Watch& expected,
                      const ShardState::DriftWatch& is) {
  const Referee::Page page = referee.PageOf(expected);
  if (is.blocks() != expected.blocks.size() || is.mean() != page.mean ||
      is.variance() != page.variance || is.excess() != page.sum) {
    return false;
  }
  if (page.sum > 0) {
    Referee::Watch::Block since;  // its loss is a sum
    for (size_t i = page.begin; i < expected.blocks.size(); ++i) {
      since.rows += expected.blocks[i].rows;
      since.loss += expected.blocks[i].loss * static_cast<double>(expected.blocks[i].rows);
    }
    if (is.excess_rows() != since.rows || is.excess_loss() != since.loss ||
        is.excess_from() != page.from) {
      return false;
    }
  }
  return is.open_rows() == expected.open.rows && is.open_loss() == expected.open.loss &&
         is.last().count() == expected.drifts && is.last().row() == expected.row &&
         is.last().found_at() == expected.found_at && is.last().clock() == expected.clock &&
         is.last().before() == expected.before && is.last().after() == expected.after;
}

// Of a class that is not told of there are none.
template <typename Counts>
inline bool SameClassRows(std::vector<uint64_t> expected, const Counts& is) {
  std::vector<uint64_t> counts(is.begin(), is.end());
  counts.resize(std::max(counts.size(), expected.size()));
  expected.resize(counts.size());
  return counts == expected;
}

inline bool SameNumbers(const Referee::Sums& expected, std::vector<double> is) {
  std::vector<double> numbers = expected.numbers;
  numbers.resize(4);
  return numbers == is;
}

inline bool SameSums(const Referee::Sums& expected, const EvaluationSums& is) {
  std::map<uint32_t, std::array<uint64_t, 3>> calibration;
  for (uint32_t bin = 0; bin < is.calibration.size(); ++bin) {
    const auto& [rows, correct, confidence] = is.calibration[bin];
    if (rows > 0) calibration[bin] = {rows, correct, confidence};
  }
  return expected.rows == is.rows && expected.log_loss == is.log_loss &&
         expected.cells == is.cells && expected.bins == is.score_bins &&
         expected.calibration == calibration && expected.absolute_rows == is.absolute_rows &&
         expected.unpredicted == is.unpredicted &&
         SameNumbers(expected, {is.squared_error, is.target, is.squared_target, is.absolute_error});
}

inline bool SameSums(const Referee::Sums& expected, const EvaluationSumsMessage& is) {
  std::map<uint32_t, uint64_t> cells;
  std::map<uint32_t, uint64_t> bins;
  std::map<uint32_t, std::array<uint64_t, 3>> calibration;
  for (int i = 0; i < is.cell_size(); ++i) cells[is.cell(i)] += is.cell_count(i);
  for (int i = 0; i < is.score_bin_size(); ++i) bins[is.score_bin(i)] += is.score_count(i);
  for (int i = 0; i < is.calibration_bin_size(); ++i) {
    calibration[is.calibration_bin(i)] = {is.calibration_rows(i), is.calibration_correct(i),
                                          is.calibration_confidence(i)};
  }
  return expected.rows == is.rows() && expected.log_loss == is.log_loss() &&
         expected.cells == cells && expected.bins == bins && expected.calibration == calibration &&
         expected.absolute_rows == is.absolute_rows() && expected.unpredicted == is.unpredicted() &&
         SameNumbers(expected,
                     {is.squared_error(), is.target(), is.squared_target(), is.absolute_error()});
}

inline bool IsSame(const RowProgress& is, const Referee::Counted& expected) {
  return is.end() == expected.end && is.updates_without_rows() == expected.without &&
         is.repeated_end() == expected.repeated;
}

// Message is Weights or ShardState::Member.
template <typename Message>
inline bool SameRows(const Message& is, const Referee::Member& expected) {
  return IsSame(is.rows(), expected.rows) &&
         std::ranges::equal(is.rows_before(), expected.rows_before, IsSame);
}

inline bool SameParameters(const Referee::State& state, const ShardState& is) {
  std::vector<Referee::NamedState> named(state.named->size());
  for (size_t number = 0; number < named.size(); ++number) {
    named[number].is_table = (*state.named)[number].is_table;
  }
  for (const ParameterProgress& progress : is.parameters()) {
    if (progress.parameter() >= named.size()) return false;
    Referee::NamedState& has = named[progress.parameter()];
    has.updates = progress.updates();
    if (!has.is_table) has.from = progress.values_from();
    if (has.is_table && (has.updates == 0 || progress.values_from() > 0)) return false;
  }
  return named == *state.named;
}

inline bool SameCounters(const Referee::State& state, const ShardState::Counters& counters) {
  return counters.gradients_accepted() == state.accepted &&
         counters.duplicates_ignored() == state.duplicates &&
         counters.non_finite_updates() == state.poisoned && counters.refused() == state.refused &&
         counters.undecodable_rows() == state.undecodable_rows &&
         counters.time_jumps() == state.time_jumps &&
         counters.parts_before_put() == state.parts_before_put;
}

}  // namespace millrace::simulation
