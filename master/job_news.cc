#include "master/job_news.h"

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/printable.h"
#include "master/status_words.h"
#include "processors/membership.h"
#include "topics/node_codec.h"
#include "topics/process_name.h"
#include "topics/task_codec.h"

namespace millrace {
namespace {

bool IsAlive(ProcessState::Phase phase) {
  return phase == ProcessState::STARTING || phase == ProcessState::RUNNING ||
         phase == ProcessState::STOPPING;
}

// What follows its end.
std::string NextText(const ProcessState& before, const ProcessState& now, uint64_t ticks) {
  if (now.incarnation() > before.incarnation()) return "; it is started again";
  switch (now.phase()) {
    case ProcessState::WAITING:
      if (now.not_before_tick() > ticks) {
        return absl::StrCat("; it is started again in ", now.not_before_tick() - ticks, " s");
      }
      return before.phase() == ProcessState::STOPPING ? "; it waits for a slot"
                                                      : "; it is started again";
    case ProcessState::FAILED:
      return "; it is given up, and not started again";
    default:
      return "";
  }
}

std::string ProcessNews(const ProcessState* before, const ProcessState& now, uint64_t ticks) {
  const std::string name = ToText(now.process());
  const bool is_other = before == nullptr || before->incarnation() != now.incarnation();
  const bool has_ended =
      before != nullptr && IsAlive(before->phase()) && (is_other || !IsAlive(now.phase()));
  if (has_ended) {
    const bool was_stopped = before->phase() == ProcessState::STOPPING;
    return absl::StrCat(name,
                        was_stopped ? " was stopped: " : " has ended: ", ToText(now.last_end()),
                        NextText(*before, now, ticks));
  }
  if (before != nullptr && before->phase() == now.phase()) return "";
  switch (now.phase()) {
    case ProcessState::RUNNING:
      return absl::StrCat(name, now.restarts() > 0 ? " runs again" : " runs");
    case ProcessState::STOPPING:
      return absl::StrCat(name, " is being stopped");
    case ProcessState::FAILED:
      return absl::StrCat(name, " has failed: ", ToText(now.last_end()));
    default:
      return "";
  }
}

// By shard: the process that hosts it.
std::map<uint32_t, std::string> HostsOfShards(const std::vector<ProcessState>& processes) {
  std::map<uint32_t, std::string> hosts;
  for (const ProcessState& process : processes) {
    for (const uint32_t shard : process.shards()) hosts[shard] = ToText(process.process());
  }
  return hosts;
}

void AddMoves(const JobProcesses& before, const JobProcesses& now, std::vector<std::string>& all) {
  const uint32_t layout = now.state.layout().number();
  if (before.state.next_shards() != now.state.next_shards() && now.state.next_shards() > 0) {
    all.push_back(absl::StrCat("the job is going over to ", now.state.next_shards(), " shards"));
  }
  if (before.state.layout().number() != layout) {
    all.push_back(absl::StrCat("the job has ", now.state.layout().shards(), " shards from now on"));
    return;
  }
  const std::map<uint32_t, std::string> known = HostsOfShards(before.processes);
  for (const auto& [shard, host] : HostsOfShards(now.processes)) {
    const auto old = known.find(shard);
    if (old == known.end() || old->second == host) continue;
    all.push_back(absl::StrCat("shard ", shard, " moves from ", old->second, " to ", host));
  }
}

void AddTaskSetNews(const JobTaskSet* before, const JobTaskSet& now,
                    std::vector<std::string>& all) {
  const TaskSetSpec& spec = now.state.spec();
  const std::string name = absl::StrCat("data set ", Printable(spec.name()));
  if (before == nullptr) {
    all.push_back(absl::StrCat(name, ": ", TasksOf(spec), " tasks of ", spec.records_per_task(),
                               " records, in ", spec.epochs(), " epochs"));
  }
  if (now.state.given_up() > (before == nullptr ? 0 : before->state.given_up())) {
    const std::string times = spec.most_failures() > 0
                                  ? absl::StrCat(", it has failed ", spec.most_failures(), " times")
                                  : "";
    all.push_back(absl::StrCat(name, ": a task is given up", times, ": ",
                               Printable(now.state.last_failure())));
  }
  if (IsOver(now) && (before == nullptr || !IsOver(*before))) {
    all.push_back(absl::StrCat(name, " is done; tasks given up: ", now.state.given_up()));
  }
}

std::string NodeNews(const MemberState* before, const MemberState& now) {
  const std::string name = absl::StrCat("node ", NodeText(now.role(), now.rank()));
  const bool is_new = before == nullptr || before->incarnation() != now.incarnation();
  if (!is_new && before->phase() == now.phase()) return "";
  switch (now.phase()) {
    case MemberState::LIVE:
      return absl::StrCat(
          name, before == nullptr ? " has joined: " : " is replaced: ", Printable(now.address()));
    case MemberState::DEAD:
      return absl::StrCat(name, " is dead: it gave no sign of life for ", now.timeout_ticks(),
                          " s");
    case MemberState::LEFT:
      return absl::StrCat(name, " has left");
    default:
      return "";
  }
}

void AddNodeNews(const std::vector<MemberState>& before, const std::vector<MemberState>& now,
                 std::vector<std::string>& all) {
  std::map<Membership::Key, const MemberState*> known;
  for (const MemberState& member : before) known[Membership::KeyOf(member)] = &member;
  for (const MemberState& member : now) {
    const auto found = known.find(Membership::KeyOf(member));
    std::string text = NodeNews(found == known.end() ? nullptr : found->second, member);
    if (!text.empty()) all.push_back(std::move(text));
  }
}

void AddLeaseNews(const JobProcesses& before, const JobProcesses& now,
                  std::vector<std::string>& all) {
  if (!now.leases) return;
  if (!before.leases) {
    all.push_back(absl::StrCat("rows are leased to ", now.leases->size, " workers"));
  } else if (before.leases->size != now.leases->size) {
    all.push_back(absl::StrCat("the job is to have ", now.leases->size, " workers, instead of ",
                               before.leases->size));
  }
  if (before.leases && before.leases->is_resizing && !now.leases->is_resizing) {
    all.push_back(absl::StrCat("the job has ", now.leases->size, " workers"));
  }
  if (now.leases->ended && !(before.leases && before.leases->ended)) {
    all.push_back(absl::StrCat("input-data has ended: ", now.leases->cut_rows, " rows"));
  }
}

// Names of those that were given up; the job goes on without a worker.
std::string GivenUp(const std::vector<ProcessState>& processes) {
  std::string names;
  for (const ProcessState& process : processes) {
    if (process.phase() != ProcessState::FAILED) continue;
    absl::StrAppend(&names, names.empty() ? "" : ", ", ToText(process.process()));
  }
  return names;
}

std::string EndNews(const JobProcesses& now) {
  const std::string given_up = GivenUp(now.processes);
  if (given_up.empty()) return "the job has ended: all processes have done their work";
  return absl::StrCat("the job has ended; given up: ", given_up,
                      "; the other processes have done their work");
}

std::string JobNews(const JobProcesses& before, const JobProcesses& after) {
  const MasterState& now = after.state;
  if (before.state.phase() == now.phase()) return "";
  switch (now.phase()) {
    case MasterState::STOPPING:
      return "the job's processes are being stopped";
    case MasterState::ENDED:
      return EndNews(after);
    case MasterState::STOPPED:
      return "the job's processes are stopped; MasterApp, started again, continues the job";
    case MasterState::FAILED:
      return absl::StrCat("the job has failed: ", Printable(now.failure(), 1000));
    default:
      return "";
  }
}

}  // namespace

std::vector<std::string> News(const JobProcesses& before, const JobProcesses& now) {
  std::map<std::string, const ProcessState*> known;
  for (const ProcessState& process : before.processes) known[ToText(process.process())] = &process;
  std::vector<std::string> all;
  const auto add = [&all](std::string text) {
    if (!text.empty()) all.push_back(std::move(text));
  };
  for (const ProcessState& process : now.processes) {
    const auto found = known.find(ToText(process.process()));
    const ProcessState* const old = found == known.end() ? nullptr : found->second;
    add(ProcessNews(old, process, now.state.ticks()));
    if (found != known.end()) known.erase(found);
  }
  for (const auto& [name, process] : known) {
    if (IsAlive(process->phase())) add(absl::StrCat(name, " was stopped, as the plan wants it"));
  }
  AddMoves(before, now, all);
  std::map<std::string, const JobTaskSet*> known_sets;
  for (const JobTaskSet& set : before.task_sets) known_sets[set.state.spec().name()] = &set;
  for (const JobTaskSet& set : now.task_sets) {
    const auto found = known_sets.find(set.state.spec().name());
    AddTaskSetNews(found == known_sets.end() ? nullptr : found->second, set, all);
  }
  AddNodeNews(before.nodes, now.nodes, all);
  AddLeaseNews(before, now, all);
  add(JobNews(before, now));
  return all;
}

std::vector<std::string> NewWarnings(const JobProcesses& before, const JobProcesses& now) {
  const std::optional<ServersAlone> alone = FindServersAlone(now);
  if (!alone || FindServersAlone(before)) return {};
  return {ToText(*alone)};
}

}  // namespace millrace
