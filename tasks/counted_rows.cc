#include "tasks/counted_rows.h"

#include <utility>

namespace millrace {

std::optional<LeaseCommand> CountedRows::Take(const ServerProcessor& shard, Time now) {
  if (last_ && now - *last_ < kEvery) return std::nullopt;
  LeaseCommand command;
  for (WorkerId worker(0); worker < said_.size(); ++worker) {
    const Said is = {.rows = shard.rows_end(worker), .clock = shard.clocks().clock(worker)};
    if (std::exchange(said_[worker], is) == is) continue;
    LeaseCommand::Counted::Worker& counted = *command.mutable_counted()->add_worker();
    counted.set_worker(worker);
    counted.set_rows(is.rows);
    counted.set_clock(is.clock);
  }
  if (!command.has_counted()) return std::nullopt;
  last_ = now;
  return command;
}

}  // namespace millrace
