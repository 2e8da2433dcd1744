// What follows from the table of processes and what a launcher sees. Pure.
#pragma once

#include <vector>

#include "messages/master.pb.h"
#include "processors/process_table.h"

namespace millrace {

// `seen` is all that a launcher sees (Launcher::Look). See MasterProcessor.
std::vector<ProcessOrder> OrdersOf(const ProcessTable& table,
                                   const std::vector<ProcessReport>& seen);
std::vector<ProcessReport> ReportsOf(const ProcessTable& table,
                                     const std::vector<ProcessReport>& seen);
std::vector<ProcessReport> OverIn(const ProcessTable& table,
                                  const std::vector<ProcessReport>& seen);

}  // namespace millrace
