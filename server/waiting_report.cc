#include "server/waiting_report.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <string>
#include <vector>

namespace millrace {

// Empty: the shard waits for nobody.
std::optional<WaitingReport::Awaited> WaitingReport::AwaitedBy(const ShardTask& task) {
  const ServerProcessor& processor = task.processor();
  // (At a cut the shard reads nothing.)
  if (!task.replayed() || task.snapshot()) return std::nullopt;
  if (processor.state_lost()) return Awaited{.what = Awaited::What::kReports};
  if (!processor.WaitedFor().empty()) {
    return Awaited{.what = Awaited::What::kRound,
                   .clock = processor.clocks().Min(),
                   .steps = processor.steps()};
  }
  if (processor.AllLeft()) return std::nullopt;
  return Awaited{.what = Awaited::What::kAnything, .position = task.position()};
}

void WaitingReport::Tick(const ShardTask& task, Time now) {
  const std::optional<Line> line = Due(task, now);
  if (line) spdlog::log(line->is_warning ? spdlog::level::warn : spdlog::level::info, line->text);
}

std::optional<WaitingReport::Line> WaitingReport::Due(const ShardTask& task, Time now) {
  const std::optional<Awaited> awaited = AwaitedBy(task);
  if (!awaited) {
    waiting_.erase(task.shard());
    return std::nullopt;
  }
  const auto [entry, is_new] = waiting_.try_emplace(task.shard());
  Waiting& waiting = entry->second;
  if (is_new || waiting.awaited != *awaited) {
    waiting = {.awaited = *awaited, .since = now, .reported = now};
    return std::nullopt;
  }
  if (now - waiting.reported < interval_) return std::nullopt;
  // That nothing comes may be as it should be, so it is said once.
  if (waiting.is_told && awaited->what == Awaited::What::kAnything) return std::nullopt;
  waiting.reported = now;
  waiting.is_told = true;
  return LineOf(task, awaited->what, std::chrono::duration<double>(now - waiting.since).count());
}

WaitingReport::Line WaitingReport::LineOf(const ShardTask& task, Awaited::What what,
                                          double seconds) {
  if (what == Awaited::What::kAnything) {
    // Whether there are rows the server cannot know: no warning.
    return {false,
            fmt::format("shard {}: no update has come from any worker for {:.0f} s: either "
                        "no worker has new rows for one (a batch, or the end of the "
                        "stream), or no WorkerApp runs: then start WorkerApp (where rows are "
                        "leased: MasterApp)",
                        task.shard(), seconds)};
  }
  std::string names;
  for (const WorkerId worker : task.processor().WaitedFor()) names += " " + std::to_string(worker);
  if (what == Awaited::What::kRound) {
    return {true, fmt::format("shard {}: has waited {:.0f} s for updates of workers{}; check that "
                              "WorkerApps run and that rows arrive",
                              task.shard(), seconds, names)};
  }
  if (names.empty()) {
    return {true, fmt::format("shard {}: cannot be restored: no worker has its weights, since all "
                              "workers started after the loss. Start a new job (another --job)",
                              task.shard())};
  }
  return {true, fmt::format("shard {}: has waited {:.0f} s for the reports of workers{}; check "
                            "that WorkerApps run",
                            task.shard(), seconds, names)};
}

}  // namespace millrace
