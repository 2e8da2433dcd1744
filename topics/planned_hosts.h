// What `plan` says of the processes that host logical workers and shards, as WorkerApp
// and ServerApp read it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "messages/master.pb.h"

namespace millrace {

// A process that a master has started, "worker-2:7": its name, and the number of its start.
struct Incarnation {
  std::string process;
  uint64_t number = 0;

  // InvalidArgument: the text is no such thing.
  static StatusOr<Incarnation> Parse(std::string_view text);
};

// A fold of the records of `plan`. Pure.
class PlannedHosts {
 public:
  // Records of other keys, and those that cannot be read, are left out: of the latter the newest
  // that could be counts. A null value is a tombstone.
  void Take(std::string_view key, std::string_view value);

  // Empty: it hosts none, it is not in the plan, or another incarnation of it is there by now.
  std::set<int32_t> WorkersOf(const Incarnation& incarnation) const;
  // Ascending; empty as above.
  std::vector<uint32_t> ShardsOf(const Incarnation& incarnation) const;
  // Of which layout these shards are (JobSealed).
  uint32_t LayoutOf(const Incarnation& incarnation) const;
  // The process that hosts the shard, whichever incarnation of it; empty: none.
  std::string HostOf(uint32_t shard) const;
  // Whether a later incarnation of the process was to be started.
  bool IsReplaced(const Incarnation& incarnation) const;
  // The names of all processes that host workers, in order.
  std::vector<std::string> Names() const;

 private:
  std::map<std::string, ProcessState, std::less<>> processes_;  // by name
};

}  // namespace millrace
