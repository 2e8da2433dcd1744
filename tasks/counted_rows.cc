#include "tasks/counted_rows.h"

#include <algorithm>
#include <utility>

#include "processors/lease_table.h"

namespace millrace {

CountedRows::Said CountedRows::CountedByAll(const ServerProcessor& shard, WorkerId worker) {
  const Clock clock = shard.clocks().clock(worker);
  const uint64_t ahead = UpdatesAhead(shard.options().shards, shard.options().pipeline);
  const uint64_t ago = shard.clocks().left(worker) ? 0 : std::min<uint64_t>(ahead, clock);
  return {.rows = RowNumber(shard.rows(worker).Ago(ago).end()), .clock = clock - ago};
}

std::optional<LeaseCommand> CountedRows::Take(const ServerProcessor& shard, Time now) {
  if (last_ && now - *last_ < kEvery) return std::nullopt;
  LeaseCommand command;
  for (WorkerId worker(0); worker < said_.size(); ++worker) {
    const Said is = CountedByAll(shard, worker);
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
