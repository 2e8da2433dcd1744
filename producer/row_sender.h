// The stream's interface for sending rows to the topic.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/types.h"
#include "topics/partitioning.h"

namespace millrace {

// Two implementations: Kafka, and memory in tests. Used by one thread.
class RowSender {
 public:
  virtual ~RowSender() = default;

  // Rows (and finally the end) of one partition are delivered in this order, once each, up to the
  // first failure: never with a gap. ResourceExhausted: the queue is full; Wait and try again.
  // Other errors are final; they include those of records sent earlier.
  virtual Status SendRow(RowPlace place, std::string_view value) = 0;
  virtual Status SendEnd(WorkerId worker, RowNumber row_count) = 0;

  // Processes delivery reports, waiting for one at most `timeout`.
  virtual Status Wait(std::chrono::milliseconds timeout) = 0;
  // The number of records that were sent and are not confirmed.
  virtual size_t outstanding() const = 0;

  // The topic's name in messages.
  virtual const std::string& topic() const = 0;
};

}  // namespace millrace
