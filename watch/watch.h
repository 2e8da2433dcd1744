// Follows a job by its metrics topic and shows it.
#pragma once

#include <atomic>
#include <string>

#include "base/status.h"
#include "kafka/options.h"

namespace millrace {

struct WatchOptions {
  KafkaOptions kafka;
  std::string job;
  std::string summary_file;    // JSON, written at the end; empty: none
  std::string evaluation_csv;  // written as figures come; empty: none
  bool once = false;           // show the present state and return
};

// Reads the topic from its beginning, so it may come late. Returns when the job has ended and all
// its figures are here. Cancelled when `stop` is set: the summary is written then, too.
Status RunWatch(const WatchOptions& options, const std::atomic<bool>& stop);

}  // namespace millrace
