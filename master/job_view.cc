#include "master/job_view.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "master/job_processes.h"
#include "topics/process_name.h"
#include "topics/task_codec.h"

namespace millrace {
namespace {

// A running master is heard from each second.
constexpr uint64_t kSilentMasterS = 10;
// Servers end within seconds of their last trainer, unless they have much to write.
constexpr uint64_t kAloneS = 30;

}  // namespace

std::vector<JobTaskSet> TaskSetsOf(const TaskManager& tasks) {
  std::vector<JobTaskSet> sets;
  for (const auto& [name, set] : tasks.sets()) sets.push_back({set, tasks.OpenIn(name)});
  return sets;
}

std::vector<MemberState> NodesOf(const JobNodes& nodes) {
  std::vector<MemberState> members;
  for (const auto& [key, member] : nodes.members().members()) members.push_back(member);
  return members;
}

std::optional<JobLeases> LeasesOf(const LeaseTable& leases) {
  if (!leases.has_begun()) return std::nullopt;
  JobLeases all{.cut_rows = leases.cut_rows(), .free_ranges = leases.free().size()};
  all.ended =
      std::ranges::all_of(leases.inputs(), [](const auto& input) { return input.second.ended(); });
  all.is_over = leases.is_over();
  all.size = leases.size();
  all.most_workers = leases.most_workers();
  all.is_resizing = leases.IsResizing();
  for (const auto& [number, worker] : leases.workers()) all.workers.push_back(worker);
  return all;
}

uint64_t SecondsIn(const ProcessState& process, const MasterState& state) {
  return state.ticks() - std::min(state.ticks(), process.phase_since_tick());
}

uint64_t TicksSinceSign(const MemberState& node, const MasterState& state) {
  return state.ticks() - std::min(state.ticks(), node.last_sign_tick());
}

int64_t DoneIn(const JobTaskSet& set) {
  return set.state.dealt() - static_cast<int64_t>(set.open + set.state.given_up());
}

bool IsOver(const JobTaskSet& set) {
  return set.open == 0 && set.state.dealt() == TasksOf(set.state.spec());
}

bool IsMasterSilent(const JobProcesses& now) {
  const MasterState::Phase phase = now.state.phase();
  return now.silent_s >= kSilentMasterS &&
         (phase == MasterState::ACTIVE || phase == MasterState::STOPPING);
}

std::optional<ServersAlone> FindServersAlone(const JobProcesses& now) {
  if (now.state.phase() != MasterState::ACTIVE) return std::nullopt;
  ServersAlone alone{.for_s = now.state.ticks()};
  bool has_servers = false;
  for (const ProcessGroup& group : now.state.plan().groups()) {
    const bool is_own =
        group.name() == GroupOf(JobProgram::kWorker) && group.logical_workers() == 0;
    for (const ProcessState& process : now.processes) {
      if (process.process().group() != group.name()) continue;
      has_servers |= group.shards() > 0 && process.phase() == ProcessState::RUNNING;
      if (!is_own) continue;
      if (process.phase() != ProcessState::ENDED) return std::nullopt;
      alone.for_s = std::min(alone.for_s, SecondsIn(process, now.state));
      absl::StrAppend(&alone.ended, alone.ended.empty() ? "" : ", ", ToText(process.process()));
    }
  }
  if (!has_servers || alone.ended.empty() || alone.for_s < kAloneS) return std::nullopt;
  return alone;
}

}  // namespace millrace
