// The groups of servers of a topology, as the job's training settings have them.
#pragma once

#include <vector>

#include "base/status.h"
#include "messages/job.pb.h"
#include "messages/records.pb.h"
#include "messages/topology.pb.h"

namespace millrace {

// None for a topology of one group, or without servers. MasterApp deals out shards and logical
// workers in turn: shard k is server k's, and so is who works with whom; so the numbers of servers
// must go group by group. InvalidArgument: they do not, or a server has several shards. REQUIRES:
// FaultOf finds none.
StatusOr<std::vector<ServerGroup>> GroupsOf(const Topology& topology);

// Whether a job with these settings can be one of several groups. InvalidArgument names the flag.
Status CheckSettingsOfGroups(const JobConfig& config);

}  // namespace millrace
