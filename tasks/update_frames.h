// A worker's messages as records of `gradients`.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "processors/worker_options.h"
#include "processors/worker_training_processor.h"
#include "topics/outgoing_record.h"

namespace millrace {

// Gives the messages to `out`, cut into frames, each frame as soon as it is made. `next_message_id`
// numbers them, and goes on. Errors: those of `out`.
Status SendFrames(const std::vector<WorkerMessage>& messages, const WorkerOptions& options,
                  uint64_t& next_message_id, const RecordSink& out);

}  // namespace millrace
