// Notices a stream whose labels stay at one level for many rows, and move to another one. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "models/row.h"

namespace millrace {

// Workers that are dealt long turns learn at the same time from rows that are some hundred rows
// apart, and each is told of the level where the others are (docs/learning.md, "Limits of online
// learning"). How much that tells is the share of what two labels some 512 rows apart differ by
// that two labels some 64 rows apart do not: 1 - near / far, where each is the mean squared
// difference of the pairs' ranks (the variogram, Matheron 1963; of ranks, so that no outlier
// decides it), or of classes the share of pairs of two different ones. About 0 where the order of
// the rows tells nothing, or a level lasts for fewer rows than 64: a worker follows such a one in
// its own turn.
//
// Returns that share of the labels of consecutive rows, if it is above .1 and there are at least
// 768 of them; else nothing. A label is the row's target, or the number of its class. In
// O(n log n).
std::optional<double> MovingLevel(const std::vector<float>& labels, bool are_classes);

// So many rows are looked at.
inline constexpr size_t kRowsForLevel = 20'000;
inline float LabelOf(const Row& row, bool regression) {
  return regression ? row.target : static_cast<float>(row.label);
}

}  // namespace millrace
