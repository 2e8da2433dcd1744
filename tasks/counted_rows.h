// What the master of a job that leases rows is told of the rows that all shards have counted.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/types.h"
#include "messages/leases.pb.h"
#include "processors/server_processor.h"

namespace millrace {

// Says what has changed, and not too often: a lease that is known to be done a little later costs
// nothing, since its worker has others. Pure; not thread-safe.
class CountedRows {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds kEvery{100};

  explicit CountedRows(uint32_t workers) : said_(workers) {}

  // What is to be said now of the workers that have got on since the last time; none: nothing. The
  // first time everything is said. REQUIRES `shard`: shard 0, whose state is a fold of records that
  // are in the log; and that `now` does not decrease.
  std::optional<LeaseCommand> Take(const ServerProcessor& shard, Time now);
  // What was said may have been lost: all of it is said again.
  void SayAgain() {
    said_.assign(said_.size(), {});
    resize_ = 0;
  }

 private:
  struct Said {
    RowNumber rows = 0;
    RowNumber taken = 0;  // by this shard
    Clock clock = 0;
    Clock joined = 0;
    bool left = false;
    bool operator==(const Said&) const = default;
  };

  // What all shards have of a worker: what this one had as many updates before as may be in flight;
  // or all, if the worker has left, since it does so when none is.
  static Said CountedByAll(const ServerProcessor& shard, WorkerId worker);

  std::vector<Said> said_;  // by worker; as a table of leases begins
  uint64_t resize_ = 0;
  std::optional<Time> last_;
};

}  // namespace millrace
