#include "metrics/job_state.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "metrics/source_counts.h"

namespace millrace {
namespace {

constexpr size_t kMostNamed = 4;  // groups of those that are waited for, and ranges in a group
// Programs that train by all-reduce: they have all weights, and the one of rank 0 tells of them.
constexpr char kMembers[] = "WorkerApps";
constexpr int64_t kHalfDayMs = 12 * 3'600'000;

// One of those that are waited for, and what is said of it.
struct Awaited {
  uint32_t id = 0;
  std::string why;
};

// Names, of so many each.
using Names = std::vector<std::pair<std::string, size_t>>;

// A, B, C and 7 more
std::string Named(const Names& names) {
  std::string text;
  size_t more = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto& [name, count] = names[i];
    if (i < kMostNamed) {
      absl::StrAppend(&text, i == 0 ? "" : ", ", name);
    } else {
      more += count;
    }
  }
  if (more > 0) absl::StrAppend(&text, " and ", more, " more");
  return text;
}

// 0-3, 7. `ids` ascend.
std::string Ranges(const std::vector<uint32_t>& ids) {
  Names ranges;
  for (size_t begin = 0, end = 0; begin < ids.size(); begin = end) {
    while (end < ids.size() && ids[end] - ids[begin] == end - begin) ++end;
    ranges.emplace_back(
        end - begin == 1 ? absl::StrCat(ids[begin]) : absl::StrCat(ids[begin], "-", ids[end - 1]),
        end - begin);
  }
  return Named(ranges);
}

// "workers 0-3 (no update for 0:25), worker 5 (no update yet)": those of whom the same is said
// stand together, so that the line stays short. `all` ascend.
std::string Grouped(const std::string& kind, const std::vector<Awaited>& all) {
  std::vector<std::pair<std::string, std::vector<uint32_t>>> groups;
  for (const Awaited& one : all) {
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& entry) { return entry.first == one.why; });
    if (group == groups.end()) group = groups.insert(groups.end(), {one.why, {}});
    group->second.push_back(one.id);
  }
  Names names;
  for (const auto& [why, ids] : groups) {
    names.emplace_back(
        absl::StrCat(kind, ids.size() == 1 ? " " : "s ", Ranges(ids), " (", why, ")"), ids.size());
  }
  return Named(names);
}

// 13:05:09, by the clock on the wall; with the date when that was long ago.
std::string TimeOfDay(int64_t timestamp_ms, int64_t now_ms) {
  const time_t seconds = timestamp_ms / 1000;
  std::tm local = {};
  localtime_r(&seconds, &local);
  char text[32] = "";
  const bool long_ago = now_ms - timestamp_ms > kHalfDayMs;
  std::strftime(text, sizeof text, long_ago ? "%Y-%m-%d %H:%M:%S" : "%H:%M:%S", &local);
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
    } else if (Stopped()) {
      state.kind = JobState::Kind::kStopped;
      state.reason = HowItStopped(*job_.stopped_ms());
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
  // (A job without servers says so with its first figures.)
  bool HasServers() const {
    return !job_.server() ||
           job_.server()->training().distribution_strategy() != Training::ALL_REDUCE;
  }
  double Age(int64_t timestamp_ms) const {
    return static_cast<double>(std::max<int64_t>(now_ms_ - timestamp_ms, 0)) / 1000;
  }
  bool Silent(int64_t timestamp_ms) const { return now_ms_ - timestamp_ms > kSilentMs; }

  bool StandsStill() const {
    return now_ms_ - job_.moved_ms() > std::max(kSilentMs, kSlowUpdates * job_.update_takes_ms());
  }

  std::vector<ProgramAge> Programs() const {
    std::vector<ProgramAge> programs;
    if (job_.producer()) {
      programs.push_back(
          {NameOfProducer(*job_.producer()), Age(job_.producer_ms()), job_.producer()->ended()});
    }
    for (const auto& [shard, heard_ms] : job_.shards_heard_ms()) {
      programs.push_back(
          {HasServers() ? absl::StrCat("ServerApp, shard ", uint32_t{shard}) : kMembers,
           Age(heard_ms), job_.ended()});
    }
    if (!job_.server()) return programs;
    for (const WorkerProgress& worker : job_.server()->workers()) {
      const int64_t moved_ms = job_.worker_moved_ms(WorkerId(worker.worker()));
      if (moved_ms == 0) continue;
      programs.push_back({absl::StrCat("worker ", worker.worker()), Age(moved_ms), worker.left()});
    }
    return programs;
  }

  // A producer that is stopped together with the servers may have spoken a little after them.
  bool Stopped() const {
    const std::optional<int64_t> stopped_ms = job_.stopped_ms();
    return stopped_ms && !(ProducerSpeaks() && job_.producer_ms() > *stopped_ms);
  }
  std::string StoppedAt(int64_t timestamp_ms) const {
    return absl::StrCat("stopped cleanly at ", TimeOfDay(timestamp_ms, now_ms_));
  }
  std::string HowItStopped(int64_t timestamp_ms) const {
    const uint64_t unsaved = job_.server()->unsaved_updates();
    return absl::StrCat(
        StoppedAt(timestamp_ms), "; ",
        unsaved == 0
            ? "everything is in a checkpoint"
            : absl::StrCat(unsaved, " updates are in no checkpoint: the next start replays them"));
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
    // Only a server, or the group in its place, says whether the job has servers.
    if (!job_.server()) return "for ServerApp (or an all-reduce job's WorkerApps): not heard from";
    const std::vector<Awaited> servers = ServersAway();
    if (!servers.empty()) {
      return HasServers() ? absl::StrCat("for ServerApp, ", Grouped("shard", servers))
                          : absl::StrCat("for ", kMembers, " (", servers.front().why, ")");
    }
    if (job_.moved_ms() > 0 && !StandsStill()) return "";
    if (!job_.producer()) return "for CsvProducer, which has not been heard from";
    const bool more_rows = !job_.producer()->ended();
    if (more_rows && !RowsAreLeft()) {
      return ProducerSpeaks()
                 ? ForRows()
                 : absl::StrCat("for ", NameOfProducer(*job_.producer()), " (silent for ",
                                ClockTime(Age(job_.producer_ms())), ")");
    }
    return Workers();
  }

  std::vector<Awaited> ServersAway() const {
    std::vector<Awaited> away;
    for (ShardId shard = 0; shard < std::max<uint32_t>(job_.server()->shards(), 1); ++shard) {
      const auto heard = job_.shards_heard_ms().find(shard);
      if (heard == job_.shards_heard_ms().end()) {
        away.push_back({uint32_t{shard}, "not heard from"});
      } else if (job_.shard_stopped(shard)) {
        away.push_back({uint32_t{shard}, StoppedAt(heard->second)});
      } else if (Silent(heard->second)) {
        away.push_back(
            {uint32_t{shard}, absl::StrCat("silent for ", ClockTime(Age(heard->second)))});
      }
    }
    return away;
  }

  std::string ForRows() const {
    const bool all = job_.rows_tested() >= job_.producer()->rows_sent();
    return absl::StrCat("for rows: ", all ? "all" : "all but less than a batch of each worker",
                        " that were sent are trained on");
  }

  // Less than a batch for each worker may rest until more come.
  bool RowsAreLeft() const {
    const Training& training = job_.server()->training();
    if (training.schedule() == Training::BUFFER) return false;
    const auto& workers = job_.server()->workers();
    const auto here = static_cast<uint64_t>(std::count_if(
        workers.begin(), workers.end(), [](const auto& worker) { return !worker.left(); }));
    const uint64_t resting = uint64_t{training.batch_rows()} * std::max<uint64_t>(here, 1);
    return job_.producer()->rows_sent() >= job_.rows_tested() + resting;
  }

  // Those whose updates the unfinished round lacks; if that is not known, those that are furthest
  // back.
  std::string Workers() const {
    const auto& workers = job_.slowest_shard().workers();
    const bool round_has_begun =
        std::any_of(workers.begin(), workers.end(), IsPending) &&
        std::any_of(workers.begin(), workers.end(),
                    [](const auto& worker) { return !worker.left() && !IsPending(worker); });
    const auto is_awaited = [round_has_begun](const WorkerProgress& worker) {
      return !worker.left() && !(round_has_begun && IsPending(worker));
    };
    std::optional<Clock> least;
    for (const WorkerProgress& worker : workers) {
      if (is_awaited(worker))
        least = std::min(least.value_or(Clock(worker.clock())), Clock(worker.clock()));
    }
    if (!least) return workers.empty() ? "for WorkerApp: no worker has sent an update" : "";
    std::map<uint32_t, std::string> whys;
    for (const WorkerProgress& worker : workers) {
      if (!is_awaited(worker) || worker.clock() != *least) continue;
      const int64_t moved_ms = job_.worker_moved_ms(WorkerId(worker.worker()));
      whys[worker.worker()] = moved_ms == 0
                                  ? std::string("no update yet")
                                  : absl::StrCat("no update for ", ClockTime(Age(moved_ms)));
    }
    std::vector<Awaited> awaited;
    for (const auto& [worker, why] : whys) awaited.push_back({worker, why});
    return absl::StrCat("for ", Grouped("worker", awaited));
  }
  static bool IsPending(const WorkerProgress& worker) { return worker.pending() && !worker.left(); }

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
    case JobState::Kind::kStopped:
      return "stopped";
    case JobState::Kind::kEnded:
      return "ended";
  }
  return "";
}

JobState ComputeJobState(const JobProgress& job, int64_t now_ms) {
  return Judge(job, now_ms).State();
}

std::string StateText(const JobState& state) {
  if (state.kind == JobState::Kind::kStopped) return state.reason;
  return absl::StrCat(std::string(NameOf(state.kind)),
                      state.kind == JobState::Kind::kStalled ? ": " : " ", state.reason);
}

JobState WithoutKafka(JobState state, const std::string& brokers, double seconds) {
  if (state.kind == JobState::Kind::kEnded) return state;
  state.kind = JobState::Kind::kWaiting;
  state.reason = absl::StrCat("for Kafka at ", brokers, ": no answer for ", ClockTime(seconds));
  return state;
}

std::string ClockTime(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9) return "-";
  const int64_t s = std::llround(seconds);
  if (s < 3600) return absl::StrFormat("%d:%02d", s / 60, s % 60);
  return absl::StrFormat("%d:%02d:%02d", s / 3600, s / 60 % 60, s % 60);
}

}  // namespace millrace
