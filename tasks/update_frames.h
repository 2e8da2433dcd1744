// A worker's messages as records of `gradients`.
#pragma once

#include <cstdint>
#include <vector>

#include "processors/worker_options.h"
#include "processors/worker_training_processor.h"
#include "topics/outgoing_record.h"

namespace millrace {

// Appends the messages to `out`, cut into frames. `next_message_id` numbers them, and goes on.
void AppendFrames(const std::vector<WorkerMessage>& messages, const WorkerOptions& options,
                  uint64_t& next_message_id, std::vector<OutgoingRecord>& out);

}  // namespace millrace
