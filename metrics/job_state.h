// Whether a job runs, and whom it waits for, by what its programs say in the metrics topic. Pure.
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
  bool ended = false;  // and has nothing more to say
};

struct JobState {
  enum class Kind {
    kRunning,  // the servers answer, and figures move
    kWaiting,  // some program is there, and waits for others
    kStalled,  // no program has been heard of for a while, and the job has not ended
    kEnded,
  };
  Kind kind = Kind::kWaiting;
  // For whom, in words: "for ServerApp, shard 1 (silent for 0:12)"; empty when it runs or has
  // ended.
  std::string reason;
  std::vector<ProgramAge> programs;  // CsvProducer, then shards, then workers; those heard of
};

// "running", "waiting", "stalled", "ended".
std::string_view NameOf(JobState::Kind kind);

// A program that has said nothing for so long is silent, and a job whose clocks stand for so long
// does not run, in milliseconds. (Servers speak four times a second, the producer twice.)
inline constexpr int64_t kSilentMs = 5000;

// `now_ms`: on the clock of the points' timestamps; what is younger than now counts as now.
JobState ComputeJobState(const JobProgress& job, int64_t now_ms);

std::string ClockTime(double seconds);  // 0:07, 12:34, 1:02:03

}  // namespace millrace
