// This trainer among the nodes of the job, as MasterApp sees them (docs/nodes.md).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "millrace/parameter_manager.h"

namespace millrace {

struct NodeClientOptions {
  std::string master;    // HOST:PORT of MasterApp --master-address
  std::string address;   // what other nodes see of this one
  double timeout_s = 0;  // of a call; 0: none
  // Is called several times a second while a call waits; returns whether it is to stop.
  std::function<bool()> should_stop;
};

// Joins with the first call, with the role `trainer`, and gives signs of life from then on, on a
// thread of its own. For one thread. Calls wait for a master, this one or the next: Cancelled;
// DeadlineExceeded, and the call may be made again.
class NodeClient {
 public:
  explicit NodeClient(NodeClientOptions options);
  ~NodeClient();

  // Waits for all nodes of this role, at least `least`. FailedPrecondition: the master takes this
  // process for dead.
  Status Barrier(const std::string& name, uint32_t least);
  StatusOr<std::vector<client::Member>> Members();
  // Nobody waits for this process any more. Tries for a few seconds.
  void Leave();

 private:
  class Calls;
  Status Join();

  const NodeClientOptions options_;
  std::unique_ptr<Calls> calls_;
};

}  // namespace millrace
