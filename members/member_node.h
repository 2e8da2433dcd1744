// This process among those that train together, as MasterApp sees them (docs/nodes.md).
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "collective/world.h"

namespace millrace {

struct MemberNodeOptions {
  std::string master;   // HOST:PORT of MasterApp
  std::string address;  // of this machine, for people
  // Called now and then while a call waits, on the thread that waits.
  std::function<void()> on_wait;
  // Whether the job has ended: asked when a call has waited for a while, since MasterApp may then
  // be gone, on the thread that waits.
  std::function<StatusOr<bool>()> has_ended;
};

// Gives signs of life on a thread of its own. Other functions are for one thread, and wait for a
// master, this one or the next, until `stop`: Cancelled then.
class MemberNode {
 public:
  // Joins. FailedPrecondition and others: what the master says. OutOfRange: the job has ended.
  static StatusOr<std::unique_ptr<MemberNode>> Join(const MemberNodeOptions& options,
                                                    const std::atomic<bool>& stop);
  virtual ~MemberNode() = default;

  virtual const std::string& instance() const = 0;
  // Passes the barrier of all members, with this value. FailedPrecondition: the master takes this
  // process for dead. OutOfRange: the job has ended, see job_has_ended().
  virtual StatusOr<Gathered> Pass(const std::string& value) = 0;
  // Join or Pass has found out that there is nobody to wait for.
  virtual bool job_has_ended() const = 0;
  // Somebody who has not passed the last time waits at the barrier.
  virtual bool HasNewcomers() const = 0;
  // MasterApp takes one of those who have passed the last time for dead, or this node itself.
  virtual bool HasLostMembers() const = 0;
  // Nobody waits for this process any more. Tries for a few seconds, also when stopped; without it
  // the others wait until the process is taken for dead.
  virtual void Leave() = 0;
};

}  // namespace millrace
