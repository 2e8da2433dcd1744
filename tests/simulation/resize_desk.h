// The master of a job whose workers come, leave and come again: what it knows, orders and plans.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "messages/leases.pb.h"
#include "messages/records.pb.h"
#include "processors/server_processor.h"
#include "tests/simulation/world.h"

namespace millrace::simulation {

// Orders changes at random, one at a time, and says its orders again and again, older ones too, as
// a master does that was replaced. Each worker's leases are the ranges of its own partition, in
// each of its lives. When faults end it has all workers come, so that every row is learnt from.
// (That masters die, and lease any rows to anybody, is the matter of lease_world.h.)
class ResizeDesk {
 public:
  explicit ResizeDesk(World& world);

  // Is told what a server of shard 0 has counted, as production code says it. It may be told late.
  void Look(const ServerProcessor& shard);
  // `produced`: by worker, rows that are in its partition, as the producer's next ones. Returns
  // whether it did anything; `order` is for shard 0.
  bool Turn(const std::vector<RowNumber>& produced, std::optional<Gradient>& order);
  // Nobody goes on any more: some have no further rows, and hold up those that are to come or
  // leave. So these are all rows that there are. False: it is over already.
  bool EndNow();
  // Every worker was told that its leases are the last.
  bool is_over() const { return is_over_; }

 private:
  struct Worker {
    WorkerLeases leases;  // as the plan will have them
    bool is_known = false;
    bool has_changed = false;
  };

  void Take(const LeaseCommand::Counted& counted);
  bool IsResizing() const;
  bool Resize();
  bool GiveLeases(const std::vector<RowNumber>& produced);
  bool End();
  bool Publish();
  Gradient OrderOf(uint64_t number) const;

  World& world_;
  std::vector<Worker> workers_;
  std::vector<uint32_t> sizes_;  // by the number of the change; the first is the beginning
  uint64_t resized_ = 0;
  uint64_t ordered_at_rest_ = 0;  // when faults had ended: nothing gets lost then
  bool is_over_ = false;
  std::vector<LeaseCommand::Counted> said_;  // that are on their way
};

}  // namespace millrace::simulation
