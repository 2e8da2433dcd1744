// Whether a job runs, and which program it waits for, by its programs' points in the metrics topic.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/job_progress.h"

namespace millrace {

struct ProgramAge {
  std::string name;    // "CsvProducer", "ServerApp, shard 1", "worker 3"
  double seconds = 0;  // since its last point; of a worker: since an update of it was accepted
  bool ended = false;  // and sends no more points
};

struct JobState {
  enum class Kind {
    kRunning,  // the servers answer, and figures move
    kWaiting,  // some program runs, and waits for others
    kStalled,  // no program has been heard from for a while, and the job has not ended
    kEnded,
  };
  Kind kind = Kind::kWaiting;
  // The program that it waits for, in words: "for ServerApp, shard 1 (silent for 0:12)"; empty when
  // it runs or has ended.
  std::string reason;
  std::vector<ProgramAge> programs;  // CsvProducer, then shards, then workers; those heard from
};

// "running", "waiting", "stalled", "ended".
std::string_view NameOf(JobState::Kind kind);

// A program that has sent no point for so long is silent, and a job whose clocks have not moved for
// so long does not run, in milliseconds. (Servers send four points a second, the producer two.)
inline constexpr int64_t kSilentMs = 5000;

// `now_ms`: on the clock of the points' timestamps; what is younger than now counts as now.
JobState ComputeJobState(const JobProgress& job, int64_t now_ms);

std::string ClockTime(double seconds);  // 0:07, 12:34, 1:02:03

}  // namespace millrace
