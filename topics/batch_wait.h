// How long rows of input-data wait for others of their batch. The worker cuts batches by it, and
// who writes the rows writes flushes by it (Flush, messages/records.proto).
#pragma once

#include "messages/training.pb.h"

namespace millrace {

// In seconds: Training.batch_wait_s or its default; 0: until the batch is full.
double BatchWaitOf(const Training& training);

}  // namespace millrace
