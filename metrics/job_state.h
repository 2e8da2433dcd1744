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
  std::string name;    // "TopicSource", "ServerApp, shard 1", "worker 3"
  double seconds = 0;  // since its last point; of a worker: since an update of it was accepted
  bool ended = false;  // and sends no more points
};

struct JobState {
  enum class Kind {
    kRunning,  // the servers answer, and figures move
    kWaiting,  // some program runs, and waits for others
    kStalled,  // no program has been heard from for a while, and the job has not ended
    kStopped,  // its servers have stopped cleanly before its end, and nobody has been heard since
    kEnded,
  };
  Kind kind = Kind::kWaiting;
  // Whom it waits for: "for ServerApp, shard 1 (silent for 0:12)"; when and how it stopped:
  // "stopped cleanly at 13:05:09; everything is in a checkpoint"; empty when it runs or has ended.
  std::string reason;
  std::vector<ProgramAge> programs;  // CsvProducer, then shards, then workers; those heard from
};

// "running", "waiting", "stalled", "stopped", "ended".
std::string_view NameOf(JobState::Kind kind);
// The kind with its reason: "waiting for rows: all that were sent are trained on".
std::string StateText(const JobState& state);

// A program that has sent no point for so long is silent, in milliseconds. (Servers send four
// points a second, the producer two.) A job whose clocks have not moved for so long does not run,
// unless its updates take long: then it does not run after kSlowUpdates times the time of the last
// ones.
inline constexpr int64_t kSilentMs = 5000;
inline constexpr int64_t kSlowUpdates = 3;

// `now_ms`: on the clock of the points' timestamps; what is younger than now counts as now.
JobState ComputeJobState(const JobProgress& job, int64_t now_ms);

// The state while the display itself gets no answer from Kafka, for so many seconds by now: nothing
// is known of the programs, and their silence tells nothing. (What has ended has.)
JobState WithoutKafka(JobState state, const std::string& brokers, double seconds);

std::string ClockTime(double seconds);  // 0:07, 12:34, 1:02:03

}  // namespace millrace
