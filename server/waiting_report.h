// Logs which workers a shard waits for.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/types.h"
#include "tasks/shard_task.h"

namespace millrace {

// A sequential round waits for its slowest worker; this names it. Not thread-safe.
class WaitingReport {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Logs a line after each `interval` for which a shard has waited for the same round's updates, or
  // for reports; and one line when no record at all has come for `interval`, since nobody is named
  // then, and all WorkerApps may be dead.
  explicit WaitingReport(std::chrono::duration<double> interval) : interval_(interval) {}

  // To be called often. Logs what Due returns.
  void Tick(const ShardTask& task, Time now);

  struct Line {
    bool is_warning = false;
    std::string text{};
  };
  // The line that is due now, if one is; it counts as logged.
  std::optional<Line> Due(const ShardTask& task, Time now);

 private:
  // What must change for the shard to have got on. Repeats of workers that wait are no progress of
  // a round.
  struct Awaited {
    enum class What { kRound, kReports, kAnything };
    What what = What::kRound;
    std::optional<Clock> clock{};  // of the round: the least
    uint64_t steps = 0;
    Offset position = 0;  // of a shard that waits for anything
    bool operator==(const Awaited&) const = default;
  };
  struct Waiting {
    Awaited awaited;
    Time since;
    Time reported;
    bool is_told = false;
  };

  static std::optional<Awaited> AwaitedBy(const ShardTask& task);
  static Line LineOf(const ShardTask& task, Awaited::What what, double seconds);

  const std::chrono::duration<double> interval_;
  std::map<ShardId, Waiting> waiting_;
};

}  // namespace millrace
