// The way of rows into the topic, as the stream sees it.
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

  // Rows (and at last the end) of one partition are delivered in this order, once each, or the
  // stream is cut off: never with a gap. ResourceExhausted: no room now; Wait and try again. Other
  // errors are for good, those of records sent earlier among them.
  virtual Status SendRow(RowPlace place, std::string_view value) = 0;
  virtual Status SendEnd(WorkerId worker, RowNumber row_count) = 0;

  // Takes note of what was delivered, waiting for that at most `timeout`.
  virtual Status Wait(std::chrono::milliseconds timeout) = 0;
  // What was sent and is not known to be delivered.
  virtual size_t outstanding() const = 0;

  // How messages call the topic.
  virtual const std::string& topic() const = 0;
};

}  // namespace millrace
