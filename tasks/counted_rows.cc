#include "tasks/counted_rows.h"

#include <algorithm>
#include <utility>

#include "processors/lease_table.h"

namespace millrace {

CountedRows::Said CountedRows::CountedByAll(const ServerProcessor& shard, WorkerId worker) {
  const Clock clock = shard.clocks().clock(worker);
  const uint64_t ahead = UpdatesAhead(shard.options().shards, shard.options().pipeline);
  const Clock joined = shard.joined(worker);
  const bool left = shard.clocks().left(worker);
  const uint64_t ago = left ? 0 : std::min<uint64_t>(ahead, clock - joined);
  return {.rows = RowNumber(shard.rows(worker).Ago(ago).end()),
          .taken = RowNumber(shard.rows(worker).Ago(0).end()),
          .clock = clock - ago,
          .joined = joined,
          .left = left};
}

std::optional<LeaseCommand> CountedRows::Take(const ServerProcessor& shard, Time now) {
  if (last_ && now - *last_ < kEvery) return std::nullopt;
  LeaseCommand command;
  for (WorkerId worker(0); worker < said_.size(); ++worker) {
    if (!shard.has_been_there(worker)) continue;
    const Said is = CountedByAll(shard, worker);
    if (std::exchange(said_[worker], is) == is) continue;
    LeaseCommand::Counted::Worker& counted = *command.mutable_counted()->add_worker();
    counted.set_worker(worker);
    counted.set_rows(is.rows);
    counted.set_taken(is.taken);
    counted.set_clock(is.clock);
    counted.set_joined(is.joined);
    counted.set_left(is.left);
  }
  if (std::exchange(resize_, shard.resize()) != shard.resize()) command.mutable_counted();
  if (command.has_counted()) command.mutable_counted()->set_resize(shard.resize());
  if (!command.has_counted()) return std::nullopt;
  last_ = now;
  return command;
}

}  // namespace millrace
