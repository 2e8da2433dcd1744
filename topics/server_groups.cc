#include "topics/server_groups.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/big_endian.h"
#include "base/check.h"
#include "base/hash.h"
#include "topics/topics.h"

namespace millrace {
namespace {

Status BadGroups(const std::string& what) { return absl::InvalidArgumentError(what); }

Status CheckExchange(const JobTraining& training, int group) {
  const ServerGroup& each = training.group(group);
  if (group == 0) {
    if (each.neighbor() == 0 && each.sync_interval() == 0) return absl::OkStatus();
    return BadGroups("the first group of servers has a neighbor, and it has the job's model");
  }
  if (each.neighbor() >= static_cast<uint32_t>(group)) {
    return BadGroups(absl::StrCat("group ", group, " has the neighbor ", each.neighbor(),
                                  ", which is none before it"));
  }
  if (each.sync_interval() > 0) return absl::OkStatus();
  return BadGroups(absl::StrCat("group ", group, " exchanges nothing with its neighbor"));
}

}  // namespace

Status CheckGroups(const JobTraining& training, uint32_t workers) {
  const int groups = training.group_size();
  if (groups == 0) return absl::OkStatus();
  if (groups == 1 || training.shards() < static_cast<uint32_t>(groups) ||
      training.shards() > kMostShards || training.shards() % static_cast<uint32_t>(groups) != 0) {
    return BadGroups(absl::StrCat(groups, " groups of servers cannot share ", training.shards(),
                                  " shards evenly"));
  }
  if (workers > kMostWorkers) return BadGroups(absl::StrCat(workers, " workers"));
  std::vector<bool> has_group(workers);
  for (int group = 0; group < groups; ++group) {
    MILLRACE_RETURN_IF_ERROR(CheckExchange(training, group));
    const auto& members = training.group(group).worker();
    if (members.empty()) return BadGroups(absl::StrCat("group ", group, " has no workers"));
    if (!std::ranges::is_sorted(members)) {
      return BadGroups(absl::StrCat("the workers of group ", group, " are out of order"));
    }
    for (const uint32_t worker : members) {
      if (worker >= workers || has_group[worker]) {
        return BadGroups(absl::StrCat("worker ", worker, " is in two groups, or there is none"));
      }
      has_group[worker] = true;
    }
  }
  const auto alone = std::ranges::find(has_group, false);
  if (alone == has_group.end()) return absl::OkStatus();
  return BadGroups(absl::StrCat("worker ", alone - has_group.begin(), " is in no group"));
}

uint32_t GroupCount(const JobTraining& training) {
  return std::max(static_cast<uint32_t>(training.group_size()), 1U);
}

uint32_t ShardsOfGroup(const JobTraining& training) {
  return training.shards() / GroupCount(training);
}

uint32_t GroupOfShard(const JobTraining& training, ShardId number) {
  return number / ShardsOfGroup(training);
}

uint32_t GroupOfWorker(const JobTraining& training, WorkerId worker) {
  if (training.group().empty()) return 0;
  const auto found = std::ranges::find_if(training.group(), [worker](const ServerGroup& group) {
    return std::ranges::binary_search(group.worker(), uint32_t{worker});
  });
  MILLRACE_CHECK(found != training.group().end());
  return static_cast<uint32_t>(found - training.group().begin());
}

WorkerId FirstWorkerOf(const JobTraining& training, uint32_t group) {
  if (training.group().empty()) return WorkerId(0);
  return WorkerId(training.group(static_cast<int>(group)).worker(0));
}

uint64_t HashOfGroup(uint64_t job, uint32_t group) {
  return group == 0 ? job : Fnv1a64(EncodeBigEndian32(group), job);
}

}  // namespace millrace
