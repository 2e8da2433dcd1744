// This process among those that train together, as MasterApp sees them (docs/nodes.md).
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/status.h"
#include "collective/world.h"

namespace millrace {

struct MemberNodeOptions {
  std::string master;   // HOST:PORT of MasterApp
  std::string address;  // of this machine, for people
};

// Gives signs of life on a thread of its own. Other functions are for one thread, and wait for a
// master, this one or the next, until `stop`: Cancelled then.
class MemberNode {
 public:
  // Joins. FailedPrecondition and others: what the master says.
  static StatusOr<std::unique_ptr<MemberNode>> Join(const MemberNodeOptions& options,
                                                    const std::atomic<bool>& stop);
  virtual ~MemberNode() = default;

  virtual const std::string& instance() const = 0;
  // Passes the barrier of all members, with this value. FailedPrecondition: the master takes this
  // process for dead.
  virtual StatusOr<Gathered> Pass(const std::string& value) = 0;
  // Somebody who has not passed the last time waits at the barrier.
  virtual bool HasNewcomers() const = 0;
  // Nobody waits for this process any more. Tries for a few seconds, also when stopped; without it
  // the others wait until the process is taken for dead.
  virtual void Leave() = 0;
};

}  // namespace millrace
