// Commands for the folds of a master: such as can be, but not all of them are accepted.
#pragma once

#include "messages/leases.pb.h"
#include "messages/master.pb.h"
#include "processors/job_nodes.h"
#include "processors/lease_table.h"
#include "processors/task_manager.h"
#include "tests/fuzz/byte_source.h"

namespace millrace::fuzz {

// Each fits the state so far: its number follows that of the last command.
TaskCommand SomeTaskCommand(const TaskManager& tasks, ByteSource& bytes);
NodeCommand SomeNodeCommand(const JobNodes& nodes, ByteSource& bytes);
LeaseCommand SomeLeaseCommand(const LeaseTable& leases, ByteSource& bytes);

}  // namespace millrace::fuzz
