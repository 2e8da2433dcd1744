#include "server/exchange_report.h"

#include <spdlog/spdlog.h>

namespace millrace {

void LogExchanges(const ShardTask& task) {
  const ServerProcessor& processor = task.processor();
  if (processor.options().groups == 1) return;
  spdlog::info("shard {}, group {}: {} exchanges with the neighbor, {} deltas taken", task.shard(),
               processor.options().group, processor.sync().exchanges(),
               processor.sync().deltas_taken());
}

}  // namespace millrace
