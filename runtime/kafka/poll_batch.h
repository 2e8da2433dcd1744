// Takes what is in a fetch queue and hands it out. Private to this folder.
#pragma once

#include <librdkafka/rdkafka.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "runtime/kafka/consumer.h"
#include "runtime/kafka/fetch_nudge.h"
#include "runtime/kafka/read_positions.h"

namespace millrace::kafka_internal {

struct BatchResult {
  size_t events = 0;             // handed out, over all calls with this result
  bool drained = true;           // the queue was seen empty
  std::vector<int32_t> restart;  // ReadPositions::OutOfRange::kRestart
};

// Hands out events until `result` has `max_events` or the queue is empty. Does not wait.
// Errors: those that no waiting mends.
Status PollBatches(rd_kafka_queue_t* queue, size_t max_events, const ConsumerHandler& handler,
                   ReadPositions& positions, FetchNudge& nudge, BatchResult& result);

}  // namespace millrace::kafka_internal
