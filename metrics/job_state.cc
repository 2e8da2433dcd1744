#include "metrics/job_state.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace millrace {
namespace {

constexpr size_t kMostNamed = 4;  // of those that are waited for

// A, B, C and 7 more
std::string Named(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kMostNamed);
  std::string text =
      absl::StrJoin(names.begin(), names.begin() + static_cast<ptrdiff_t>(shown), ", ");
  if (shown < names.size()) absl::StrAppend(&text, " and ", names.size() - shown, " more");
  return text;
}

class Judge {
 public:
  Judge(const JobProgress& job, int64_t now_ms) : job_(job), now_ms_(now_ms) {}

  JobState State() const {
    JobState state;
    state.programs = Programs();
    if (job_.ended()) {
      state.kind = JobState::Kind::kEnded;
    } else if (job_.last_timestamp_ms() > 0 && !SomebodySpeaks() && !ProducerIsDone()) {
      state.kind = JobState::Kind::kStalled;
      state.reason = absl::StrCat("no program has been heard from for ",
                                  ClockTime(Age(job_.last_timestamp_ms())));
    } else {
      state.reason = WhomItWaitsFor();
      state.kind = state.reason.empty() ? JobState::Kind::kRunning : JobState::Kind::kWaiting;
    }
    return state;
  }

 private:
  double Age(int64_t timestamp_ms) const {
    return static_cast<double>(std::max<int64_t>(now_ms_ - timestamp_ms, 0)) / 1000;
  }
  bool Silent(int64_t timestamp_ms) const { return now_ms_ - timestamp_ms > kSilentMs; }

  std::vector<ProgramAge> Programs() const {
    std::vector<ProgramAge> programs;
    if (job_.producer()) {
      programs.push_back({"CsvProducer", Age(job_.producer_ms()), job_.producer()->ended()});
    }
    for (const auto& [shard, heard_ms] : job_.shards_heard_ms()) {
      programs.push_back(
          {absl::StrCat("ServerApp, shard ", uint32_t{shard}), Age(heard_ms), job_.ended()});
    }
    if (!job_.server()) return programs;
    for (const WorkerProgress& worker : job_.server()->workers()) {
      const int64_t moved_ms = job_.worker_moved_ms(WorkerId(worker.worker()));
      if (moved_ms == 0) continue;
      programs.push_back({absl::StrCat("worker ", worker.worker()), Age(moved_ms), worker.left()});
    }
    return programs;
  }

  bool ProducerSpeaks() const {
    return job_.producer() && !job_.producer()->ended() && !Silent(job_.producer_ms());
  }
  // It has said its last word, and there is no server yet, which would wait for it.
  bool ProducerIsDone() const {
    return job_.producer() && job_.producer()->ended() && !job_.server();
  }
  bool SomebodySpeaks() const {
    return ProducerSpeaks() ||
           std::any_of(job_.shards_heard_ms().begin(), job_.shards_heard_ms().end(),
                       [this](const auto& shard) { return !Silent(shard.second); });
  }

  // Empty: for nobody.
  std::string WhomItWaitsFor() const {
    if (job_.last_timestamp_ms() == 0) return "for the job's first figures";
    if (!job_.server()) return "for ServerApp, which has not been heard from";
    const std::vector<std::string> servers = ServersAway();
    if (!servers.empty()) return absl::StrCat("for ServerApp, shard ", Named(servers));
    if (job_.moved_ms() > 0 && !Silent(job_.moved_ms())) return "";
    if (!job_.producer()) return "for CsvProducer, which has not been heard from";
    const bool more_rows = !job_.producer()->ended();
    if (more_rows && !RowsAreLeft()) {
      return ProducerSpeaks() ? std::string("for rows: all that were sent are trained on")
                              : absl::StrCat("for CsvProducer (silent for ",
                                             ClockTime(Age(job_.producer_ms())), ")");
    }
    return Workers();
  }

  std::vector<std::string> ServersAway() const {
    std::vector<std::string> away;
    for (ShardId shard = 0; shard < std::max<uint32_t>(job_.server()->shards(), 1); ++shard) {
      const auto heard = job_.shards_heard_ms().find(shard);
      if (heard == job_.shards_heard_ms().end()) {
        away.push_back(absl::StrCat(uint32_t{shard}, " (not heard from)"));
      } else if (Silent(heard->second)) {
        away.push_back(
            absl::StrCat(uint32_t{shard}, " (silent for ", ClockTime(Age(heard->second)), ")"));
      }
    }
    return away;
  }

  // Less than a batch for each worker may rest until more come.
  bool RowsAreLeft() const {
    const Training& training = job_.server()->training();
    if (training.schedule() == Training::BUFFER) return false;
    const uint64_t resting = static_cast<uint64_t>(training.batch_rows()) *
                             static_cast<uint64_t>(std::max(job_.server()->workers_size(), 1));
    return job_.producer()->rows_sent() >= job_.rows_tested() + resting;
  }

  // Those that are furthest back.
  std::string Workers() const {
    const auto& workers = job_.server()->workers();
    std::optional<Clock> least;
    for (const WorkerProgress& worker : workers) {
      if (!worker.left())
        least = std::min(least.value_or(Clock(worker.clock())), Clock(worker.clock()));
    }
    if (!least) return workers.empty() ? "for WorkerApp: no worker has sent an update" : "";
    std::vector<std::string> names;
    for (const WorkerProgress& worker : workers) {
      if (worker.left() || worker.clock() != *least) continue;
      const int64_t moved_ms = job_.worker_moved_ms(WorkerId(worker.worker()));
      names.push_back(moved_ms == 0 ? absl::StrCat(worker.worker(), " (no update yet)")
                                    : absl::StrCat(worker.worker(), " (no update for ",
                                                   ClockTime(Age(moved_ms)), ")"));
    }
    return absl::StrCat("for worker ", Named(names));
  }

  const JobProgress& job_;
  const int64_t now_ms_;
};

}  // namespace

std::string_view NameOf(JobState::Kind kind) {
  switch (kind) {
    case JobState::Kind::kRunning:
      return "running";
    case JobState::Kind::kWaiting:
      return "waiting";
    case JobState::Kind::kStalled:
      return "stalled";
    case JobState::Kind::kEnded:
      return "ended";
  }
  return "";
}

JobState ComputeJobState(const JobProgress& job, int64_t now_ms) {
  return Judge(job, now_ms).State();
}

std::string ClockTime(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9) return "-";
  const int64_t s = std::llround(seconds);
  if (s < 3600) return absl::StrFormat("%d:%02d", s / 60, s % 60);
  return absl::StrFormat("%d:%02d:%02d", s / 3600, s / 60 % 60, s % 60);
}

}  // namespace millrace
