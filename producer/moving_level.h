// Notices a stream whose labels stay at one level for many rows, and move to another one. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "models/row.h"

namespace millrace {

// Workers that are dealt long turns learn at the same time from rows that are some hundred rows
// apart, and each is told of the level where the others are (docs/learning.md, "A level that
// moves"). How much that tells is the share 1 - near / far: near is the mean squared difference of
// the ranks of two labels about 8 rows apart, far that of two labels about 230, 350, 600 or 850
// rows apart, whichever is the largest (the variogram, Matheron 1963; of ranks, so that no outlier
// decides it). Of classes each is the part of pairs that have two different ones. About 0 where the
// order of the rows tells nothing, or a level lasts for a few rows only: a worker follows such a
// one in its own turn. The distances are such that for each period from 130 rows on labels at one
// of them differ more than the near ones do.
//
// Returns that share of the labels of one stream, or of several that are read side by side, if it
// is above .15; else nothing. Too few to say are fewer than 768 rows, or 200 that are not of the
// most frequent class, and a distance counts from twice as many rows on. A label is the row's
// target, or the number of its class. In O(n log n).
std::optional<double> MovingLevel(std::span<const std::vector<float>> streams, bool are_classes);

// So many rows are looked at.
inline constexpr size_t kRowsForLevel = 20'000;
inline float LabelOf(const Row& row, bool regression) {
  return regression ? row.target : static_cast<float>(row.label);
}

}  // namespace millrace
