// How many workers a job may have while it runs.
#pragma once

#include <algorithm>
#include <cstdint>

#include "messages/training.pb.h"
#include "topics/topics.h"

namespace millrace {

// Where rows are leased the number may change (docs/leases.md), and `weights` has a partition for
// each of so many: partitions cannot be added while consumers seek to their ends. Elsewhere there
// are as many as at the beginning.
inline uint32_t MostWorkers(const Training& training, uint32_t workers) {
  if (training.sharding() != Training::DYNAMIC) return workers;
  const uint32_t most = training.has_max_workers()
                            ? training.max_workers()
                            : std::min(std::max(4 * workers, 16U), kMostWorkers);
  return std::max(most, workers);
}

inline TopicSizes TopicSizesOf(const Training& training, uint32_t workers, uint32_t shards,
                               uint32_t groups = 1) {
  return {.shards = shards, .most_workers = MostWorkers(training, workers), .groups = groups};
}

}  // namespace millrace
