// Reads the newest model of a job, from one of its topics.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"
#include "base/types.h"
#include "exports/exported_model.h"

namespace millrace {

// Used by one thread.
class JobReader {
 public:
  // Called by Poll: the worker's rows below `end` are in what was sent at this time, and later.
  using OnCounted = std::function<void(WorkerId worker, RowNumber end, int64_t sent_ms)>;

  virtual ~JobReader() = default;

  // Takes some of what has come; returns the number of events. Aborted: the log is another one than
  // it was, and the job may be, too; a new reader goes on. Others: those of the consumer.
  virtual StatusOr<size_t> Poll() = 0;

  // Whether all parts of the model are there, and some are newer than in the last ToModel().
  virtual bool has_news() const = 0;
  // What to say while parts are missing. Empty: none is, or some records are yet to be read.
  virtual std::string WhatIsMissing() const = 0;
  // REQUIRES has_news(). DataLoss: it is of no numbers.
  virtual StatusOr<ExportedModel> ToModel() = 0;
  // The time, as OnCounted has it, of what the last ToModel() was made of: of its oldest part.
  virtual int64_t sent_ms() const = 0;

  // Whether a broker answers and knows the topic; waits no longer than `timeout`.
  virtual Status Look(std::chrono::milliseconds timeout) = 0;
};

}  // namespace millrace
