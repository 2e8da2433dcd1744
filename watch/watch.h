// Follows a job by its metrics topic and shows it.
#pragma once

#include <atomic>
#include <string>

#include "base/status.h"
#include "kafka/options.h"
#include "metrics/job_state.h"

namespace millrace {

struct WatchOptions {
  KafkaOptions kafka;
  std::string job;
  std::string summary_file;    // JSON, written at the end; empty: none
  std::string evaluation_csv;  // written as figures come; empty: none
  bool once = false;           // show the present state and return
  bool json = false;  // on stdout, instead of text: one object, or one on each line while it runs
};

// Reads the topic from its beginning, so it may start late. Returns the last shown state when the
// job has ended and all its figures have arrived. Cancelled when `stop` is set: the summary is
// written then, too.
StatusOr<JobState::Kind> RunWatch(const WatchOptions& options, const std::atomic<bool>& stop);

}  // namespace millrace
