// The loop of the producer: from the stream of rows to the sender, at its pace.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "base/status.h"
#include "producer/csv_stream.h"
#include "producer/pacing.h"
#include "producer/resume_plan.h"
#include "producer/row_sender.h"

namespace millrace {

// What the loop needs from its caller.
struct StreamSurroundings {
  const std::atomic<bool>* stop;  // true: end with Cancelled
  // Called often, also while nothing moves and while a pipe is silent; an error ends the stream
  // with it.
  std::function<Status()> tick;
  std::function<Pacer::Time()> now;
  std::function<void(Pacer::Time::duration)> sleep;
  // Called once, when the input is known to be the one whose rows the topic holds: at once if it
  // holds none, else after the last comparison. May be empty; an error ends the stream with it.
  std::function<Status()> accept = {};
  // Called once, when a file that is followed has been read to its end so far. May be empty.
  std::function<void()> caught_up = {};
  // For how long rows wait for others of their batch (topics/batch_wait.h); then a flush follows
  // them. None: no flushes, for now. May be empty: never.
  std::function<std::optional<Pacer::Time::duration>()> batch_wait = {};
  // Gets what a person should know of the input, a line each. May be empty.
  std::function<void(const std::string&)> warn = {};

  // With the steady clock.
  static StreamSurroundings Real(const std::atomic<bool>* stop, std::function<Status()> tick);
};

// The progress of the stream; updated during StreamRows().
struct StreamCounts {
  uint64_t rows_sent = 0;     // handed to the sender
  uint64_t records_sent = 0;  // of rows, flushes, and ends
  uint64_t rows_found = 0;    // skipped, since they are in the topic already
  bool accepted = false;      // see StreamSurroundings::accept
};

// Sends the rows of `stream` that `plan` lacks, each to its partition, together with others that
// come soon (row_batches.h), and finally the end of each partition (first of those that get no
// rows); returns when all records are delivered. On an error or a stop, what was handed over may
// still be on its way: call Drain().
Status StreamRows(CsvStream& stream, const ResumePlan& plan, Pacer& pacer, RowSender& sender,
                  const StreamSurroundings& surroundings, StreamCounts& counts);

// Waits until nothing is outstanding. DeadlineExceeded after `timeout`.
Status Drain(RowSender& sender, std::chrono::milliseconds timeout,
             const StreamSurroundings& surroundings);

}  // namespace millrace
