// What MasterApp makes of a topology.
#pragma once

#include "apps/master_flags.h"
#include "base/status.h"
#include "launcher/launcher.h"
#include "messages/job.pb.h"

namespace millrace {

// Sets the flags that follow from config.topology(), if that is set: how many processes there are.
// REQUIRES: ApplyTopology has returned OK. InvalidArgument: a flag says otherwise, and the message
// names both; or MasterApp cannot run such a topology.
Status TakeTopology(const JobConfig& config, MasterFlags& flags);

// Whether the servers that do not run yet can listen at their addresses. FailedPrecondition:
// another program listens there, or it is no address of this machine.
Status CheckAddresses(const Topology& topology, Launcher& launcher);

}  // namespace millrace
