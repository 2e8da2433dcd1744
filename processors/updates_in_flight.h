// The updates that a worker has sent and that not every shard has taken yet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/types.h"
#include "processors/batch_source.h"
#include "topics/message_bytes.h"

namespace millrace {

// A message to a shard.
struct WorkerMessage {
  ShardId shard = 0;
  std::shared_ptr<const MessageBytes> body;  // an encoded Gradient; kept for a repetition
  uint64_t number = 0;                       // Gradient.number of it
};

// Of consecutive clocks, oldest first; each is computed as if those before it had been taken. A
// shard that misses one refuses those after it, until all are said again. Not thread-safe.
class UpdatesInFlight {
 public:
  struct Update {
    Progress before;                        // clock and rows that it was made for
    Progress after;                         // when it is accepted
    std::vector<WorkerMessage> messages{};  // one to each shard
  };

  // REQUIRES most >= 1.
  explicit UpdatesInFlight(size_t most);

  bool empty() const { return updates_.empty(); }
  bool full() const { return updates_.size() >= most_; }
  // What the next update is made for, when `told` is what the shards have said.
  Progress Next(const Progress& told) const;
  // REQUIRES: not full(); update.before is what Next has said.
  void Add(Update update);
  // Removes what every shard has taken; and all, when shard 0 has counted other rows than those
  // that an update in flight follows on: another instance of the worker has sent them. (One that
  // was made of what was told follows on that.)
  void Settle(const Progress& told);
  void Clear() { updates_.clear(); }

  // To be sent again, in order.
  void AppendTo(std::vector<WorkerMessage>& messages) const;
  // How far the updates of this clock and the ones after it count the rows, one after the other.
  std::vector<uint64_t> RowsFrom(Clock clock) const;

 private:
  size_t most_;
  std::deque<Update> updates_;
};

}  // namespace millrace
