// What a shard of a group of servers has exchanged with other groups, in the server's log.
#pragma once

#include "tasks/shard_task.h"

namespace millrace {

// Says nothing of a job of one group.
void LogExchanges(const ShardTask& task);

}  // namespace millrace
