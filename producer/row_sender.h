// The stream's interface for sending rows to the topic.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "base/types.h"
#include "topics/row_codec.h"

namespace millrace {

// Two implementations: Kafka, and memory in tests. Used by one thread.
class RowSender {
 public:
  virtual ~RowSender() = default;

  // Records of one partition are delivered in this order, once each, up to the first failure: never
  // with a gap. `value` is taken over, unless it fails. ResourceExhausted: the queue is full; Wait
  // and try again. Other errors are final; they include those of records sent earlier.
  virtual Status Send(WorkerId worker, const InputKey& key, std::string& value) = 0;

  // Processes delivery reports, waiting for one at most `timeout`.
  virtual Status Wait(std::chrono::milliseconds timeout) = 0;
  // The number of records that were sent and are not confirmed.
  virtual size_t outstanding() const = 0;
  // About as many rows: those in so many of the newest records. (Others may have been confirmed.)
  virtual uint64_t rows_outstanding() = 0;

  // The topic's name in messages.
  virtual const std::string& topic() const = 0;
};

}  // namespace millrace
