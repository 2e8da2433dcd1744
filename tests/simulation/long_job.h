// A job that goes on and on: what it keeps must not grow with its rounds, nor its bytes go astray.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "base/types.h"
#include "messages/training.pb.h"

namespace millrace::simulation {

struct LongJobOptions {
  Clock rounds = 0;
  Training::Consistency::Model consistency = Training::Consistency::SEQUENTIAL;
  uint64_t kills = 0;  // of the server and of a worker process, in turn, spread over the run
};

// What is there after so many rounds.
struct Kept {
  Clock rounds = 0;
  size_t gradients = 0;  // records of all partitions that are not deleted
  size_t weights = 0;
  size_t input_data = 0;
  size_t parameters = 0;   // after a compaction
  size_t state_bytes = 0;  // of the shards' states

  // The most of each of both.
  Kept Max(const Kept& other) const;
};

// Two workers, in processes of their own, and two shards; a batch is a row. Calls `report` twenty
// times on the way, with the most that was there since the last time. Empty, or what went wrong: it
// does not end, it counts rows twice or not at all, or (in a sequential job) its weights are not
// those of training in one process.
std::string RunLongJob(const LongJobOptions& options,
                       const std::function<void(const Kept&)>& report);

}  // namespace millrace::simulation
