#include "worker/waiting_workers.h"

#include <spdlog/spdlog.h>

#include <string>

namespace millrace {
namespace {

constexpr std::chrono::milliseconds kSilenceReportEvery(5000);
constexpr std::chrono::seconds kIdleReportAfter(5);

}  // namespace

void WaitingWorkers::ReportSilence(const std::set<ShardId>& silent, Time now) {
  if (silent.empty()) {
    silent_since_ = now;
    silence_reported_ = now;
    return;
  }
  if (now - silence_reported_ < kSilenceReportEvery) return;
  silence_reported_ = now;
  std::string names;
  for (const ShardId shard : silent) names += " " + std::to_string(shard);
  const std::chrono::duration<double> since = now - silent_since_;
  spdlog::warn(
      "no answer from shard{} for {:.0f} s; updates are sent again. Check that a ServerApp with "
      "these --server-ids runs",
      names, since.count());
}

void WaitingWorkers::ReportIdle(bool has_workers, const HostedWorkers& hosted, Time now) {
  if (has_workers) {
    idle_since_ = now;
    idle_reported_ = false;
    return;
  }
  if (idle_reported_ || now - idle_since_ < kIdleReportAfter) return;
  idle_reported_ = true;
  const HostedWorkers::Reason why = hosted.WhyNone(kIdleReportAfter);
  spdlog::log(why.is_expected ? spdlog::level::info : spdlog::level::warn, "{}", why.text);
}

}  // namespace millrace
