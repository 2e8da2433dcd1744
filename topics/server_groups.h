// The groups of servers of a job (JobTraining.group): which shards, partitions and messages are
// those of which group. The only place that defines this.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "base/types.h"
#include "messages/records.pb.h"

namespace millrace {

// Whether the groups can be those of a job with so many workers: they share its shards evenly, each
// worker is in one of them, and each but the first has a neighbor of a lower number, so that no
// delta comes back to who sent it. No groups are one. InvalidArgument with what is wrong.
Status CheckGroups(const JobTraining& training, uint32_t workers);

// REQUIRES of all others: CheckGroups.
uint32_t GroupCount(const JobTraining& training);
// The shards of a group, which have all parameters.
uint32_t ShardsOfGroup(const JobTraining& training);
uint32_t GroupOfShard(const JobTraining& training, ShardId number);
uint32_t GroupOfWorker(const JobTraining& training, WorkerId worker);
// The first of its workers.
WorkerId FirstWorkerOf(const JobTraining& training, uint32_t group);

// What a group's messages have as their job (`job`: the hash of its name), so that those of another
// group are refused. That of group 0 is the job's.
uint64_t HashOfGroup(uint64_t job, uint32_t group);

// The sender of a group's messages to another, as their key and as Gradient.worker. No worker has
// such a number, nor is it kNoWorker.
inline constexpr WorkerId kGroupSender = UINT32_MAX - 1;
inline WorkerId SenderOfGroup(uint32_t group) { return WorkerId(kGroupSender - group); }

}  // namespace millrace
