// An instance of a worker that learns from the rows that are leased to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "messages/leases.pb.h"
#include "processors/leased_rows.h"
#include "processors/one_pass_batches.h"
#include "tests/simulation/lease_input.h"

namespace millrace::simulation {

inline const RowShape kLeaseShape = {.numeric = 1, .features = 1, .classes = 2};

// One batch, as shard 0 is told of it.
struct LeaseUpdate {
  uint32_t worker = 0;
  uint64_t clock = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t joined = 0;  // the clock at which the worker has joined, as the instance knows it
  bool leaves = false;
  std::vector<double> values{};
};

// What `plan` says to a worker.
struct PlannedWork {
  WorkerLeases leases;
  std::vector<InputState> tails{};  // that it reads when its leases are the last
};

// There may be several of a worker at a time: all but one are zombies, and none knows which.
struct LeaseInstance {
  // The production parts. A new one begins where leases were missed.
  struct Reading {
    OnePassBatches batches;
    LeasedRows rows;
    Reading(const WorkerLeases& leases, const std::vector<InputState>& tails, bool ends_at_leases)
        : batches({.batch_rows = kLeaseBatchRows, .ends_at_flushes = ends_at_leases},
                  RowNumber(leases.counted_rows()), Clock(leases.clock())),
          rows(leases, kLeaseShape, batches, false, tails) {}
  };

  uint32_t worker = 0;
  uint64_t joined = 0;   // as the plan says
  size_t plan_seen = 0;  // so many records of the worker in `plan`
  Progress progress;     // as shard 0 has said last
  std::unique_ptr<Reading> reading;
};

}  // namespace millrace::simulation
