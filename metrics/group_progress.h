// How far each group of servers of a job is with its exchanges of deltas. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/types.h"
#include "messages/records.pb.h"

namespace millrace {

// Of the shards of a group: of the one that is furthest back.
struct GroupProgress {
  uint32_t group = 0;  // 0: the primary, which has no neighbor
  uint64_t rounds = 0;
  uint64_t exchanges = 0;  // with its neighbor, that were answered
  // Updates since the first point that told of the newest exchange: the neighbor does not know
  // these, at least. Of the primary 0.
  uint64_t unshared_updates = 0;
  uint64_t deltas_taken = 0;  // from the groups whose neighbor it is
};

class GroupExchanges {
 public:
  // The newest point of its shard. One that names no groups is ignored.
  void Fold(const MetricPoint::ServerProgress& point);
  // Those that have been heard from, ascending; none: the job has one group.
  std::vector<GroupProgress> groups() const;

 private:
  struct Shard {
    GroupProgress progress;
    uint64_t updates_shared = 0;
  };
  std::map<ShardId, Shard> shards_;
};

}  // namespace millrace
