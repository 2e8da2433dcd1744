// From which size on hashed features travel as rows of their own, and how many buckets a column
// then gets: jobs and the learner of one process (python/) choose alike, so that the same columns
// are the same features in both.
#pragma once

#include <cstdint>

namespace millrace {

// A model of more floats than this is wide. As measured: `scripts/bench features`, and for online
// learners the flights of scripts/demo.
inline constexpr uint64_t kWideAbove = uint64_t{1} << 18;
inline constexpr uint64_t kWideAboveOnline = 44'000;

// Of each hashed column of a wide model, if `columns` of them fit: a bucket has `floats` floats. As
// measured on reviews, made-up texts, clicks and flights: more are better up to 2^18, and hardly
// beyond. (A server that writes a weights file has the floats of all buckets in memory: at most as
// many as one column of eight classes has, learnt online.) A power of two.
constexpr uint64_t BucketsOfWideModel(uint64_t columns, uint64_t floats) {
  constexpr uint64_t kMany = uint64_t{1} << 18;
  constexpr uint64_t kMostFloats = kMany * 64;
  uint64_t buckets = kMany;
  while (buckets > 1 && buckets * columns * floats > kMostFloats) buckets /= 2;
  return buckets;
}

}  // namespace millrace
