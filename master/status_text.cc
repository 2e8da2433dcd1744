#include "master/status_text.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/printable.h"
#include "launcher/run_folder.h"
#include "master/job_processes.h"
#include "topics/node_codec.h"
#include "topics/process_name.h"

namespace millrace {
namespace {

using Json = nlohmann::ordered_json;

// A running master is heard from each second.
constexpr uint64_t kSilentMasterS = 10;
// Servers end within seconds of their last trainer, unless they have much to write.
constexpr uint64_t kAloneS = 30;

std::string PhaseText(ProcessState::Phase phase) {
  switch (phase) {
    case ProcessState::WAITING:
      return "waiting";
    case ProcessState::STARTING:
      return "starting";
    case ProcessState::RUNNING:
      return "running";
    case ProcessState::STOPPING:
      return "stopping";
    case ProcessState::ENDED:
      return "ended";
    case ProcessState::FAILED:
      return "failed";
    case ProcessState::STOPPED:
      return "stopped";
    default:
      return "unknown";
  }
}

std::string JobPhaseText(MasterState::Phase phase) {
  switch (phase) {
    case MasterState::IDLE:
      return "idle";
    case MasterState::ACTIVE:
      return "active";
    case MasterState::STOPPING:
      return "stopping";
    case MasterState::ENDED:
      return "ended";
    case MasterState::STOPPED:
      return "stopped";
    case MasterState::FAILED:
      return "failed";
    default:
      return "unknown";
  }
}

bool IsAlive(ProcessState::Phase phase) {
  return phase == ProcessState::STARTING || phase == ProcessState::RUNNING ||
         phase == ProcessState::STOPPING;
}

std::string Duration(uint64_t duration_s) {
  return absl::StrFormat("%d:%02d:%02d", duration_s / 3600, duration_s / 60 % 60, duration_s % 60);
}

uint64_t SecondsIn(const ProcessState& process, const MasterState& state) {
  return state.ticks() - std::min(state.ticks(), process.phase_since_tick());
}

uint64_t TicksSinceSign(const MemberState& node, const MasterState& state) {
  return state.ticks() - std::min(state.ticks(), node.last_sign_tick());
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

// "0-2, 5"
std::string Numbers(const google::protobuf::RepeatedField<uint32_t>& ascending) {
  std::string text;
  for (int i = 0; i < ascending.size(); ++i) {
    const int begin = i;
    while (i + 1 < ascending.size() && ascending[i + 1] == ascending[i] + 1) ++i;
    absl::StrAppend(&text, text.empty() ? "" : ", ", ascending[begin]);
    if (i > begin) absl::StrAppend(&text, "-", ascending[i]);
  }
  return text;
}

// What it hosts.
std::string HostedText(const ProcessState& process) {
  if (!process.shards().empty()) return "shards " + Numbers(process.shards());
  if (!process.workers().empty()) return "workers " + Numbers(process.workers());
  return "-";
}

std::string JobNews(const MasterState& before, const MasterState& now) {
  if (before.phase() == now.phase()) return "";
  switch (now.phase()) {
    case MasterState::STOPPING:
      return "the job's processes are being stopped";
    case MasterState::ENDED:
      return "the job has ended: all processes have done their work";
    case MasterState::STOPPED:
      return "the job's processes are stopped; MasterApp, started again, continues the job";
    case MasterState::FAILED:
      return absl::StrCat("the job has failed: ", Printable(now.failure(), 1000));
    default:
      return "";
  }
}

// Only a job that runs has a master.
bool IsMasterSilent(const JobProcesses& now) {
  const MasterState::Phase phase = now.state.phase();
  return now.silent_s >= kSilentMasterS &&
         (phase == MasterState::ACTIVE || phase == MasterState::STOPPING);
}

// Servers that run though the processes of one's own (which are given no logical workers, as
// WorkerApps are) have all ended with exit code 0.
struct ServersAlone {
  std::string ended{};  // their names
  uint64_t for_s = 0;
};

std::optional<ServersAlone> FindServersAlone(const JobProcesses& now) {
  if (now.state.phase() != MasterState::ACTIVE) return std::nullopt;
  ServersAlone alone{.for_s = now.state.ticks()};
  bool has_servers = false;
  for (const ProcessGroup& group : now.state.plan().groups()) {
    const bool is_own = group.shards() == 0 && group.logical_workers() == 0 && !group.at_end();
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

std::string ToText(const ServersAlone& alone) {
  return absl::StrCat(
      alone.ended, " ended with exit code 0, and ", alone.for_s,
      " s later the servers still run: they wait for trainers that have not left the job, unless "
      "they are still writing its end. Let each trainer leave at its end "
      "(docs/parameter-manager.md); to train on, start MasterApp again with another "
      "--worker-command; to end the job as it is, MasterApp stop");
}

int64_t DoneIn(const JobTaskSet& set) {
  return set.state.dealt() - static_cast<int64_t>(set.open + set.state.given_up());
}

bool IsOver(const JobTaskSet& set) {
  return set.open == 0 && set.state.dealt() == TasksOf(set.state.spec());
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

std::string NodePhaseText(MemberState::Phase phase) {
  switch (phase) {
    case MemberState::LIVE:
      return "live";
    case MemberState::DEAD:
      return "dead";
    case MemberState::LEFT:
      return "left";
    default:
      return "unknown";
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

// Each line's words below each other.
template <size_t kColumns>
void AppendLines(const std::vector<std::array<std::string, kColumns>>& lines, std::string& text) {
  std::array<size_t, kColumns> widths{};
  for (const auto& line : lines) {
    for (size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  for (const auto& line : lines) {
    for (size_t i = 0; i + 1 < kColumns; ++i) {
      absl::StrAppend(&text, line[i], std::string(widths[i] + 2 - line[i].size(), ' '));
    }
    absl::StrAppend(&text, line.back(), "\n");
  }
}

Json TaskSetsJson(const std::vector<JobTaskSet>& sets) {
  Json all = Json::array();
  for (const JobTaskSet& set : sets) {
    const TaskSetSpec& spec = set.state.spec();
    const std::string& failure = set.state.last_failure();
    all.push_back({{"name", spec.name()},
                   {"tasks", TasksOf(spec)},
                   {"done", DoneIn(set)},
                   {"dealt_out", set.open},
                   {"given_up", set.state.given_up()},
                   {"epoch", EpochAt(spec, set.state.dealt())},
                   {"epochs", spec.epochs()},
                   {"last_failure", failure.empty() ? Json() : Json(failure)}});
  }
  return all;
}

void AppendTaskSets(const JobProcesses& now, std::string& text) {
  if (now.task_sets.empty()) return;
  std::vector<std::array<std::string, 5>> sets = {
      {"data set", "tasks", "done", "dealt out", "given up"}};
  for (const JobTaskSet& set : now.task_sets) {
    sets.push_back({Printable(set.state.spec().name()), absl::StrCat(TasksOf(set.state.spec())),
                    absl::StrCat(DoneIn(set)), absl::StrCat(set.open),
                    absl::StrCat(set.state.given_up())});
  }
  AppendLines(sets, text);
}

void AppendNodes(const JobProcesses& now, std::string& text) {
  if (now.nodes.empty()) return;
  std::vector<std::array<std::string, 4>> lines = {{"node", "state", "last sign", "address"}};
  for (const MemberState& node : now.nodes) {
    lines.push_back({NodeText(node.role(), node.rank()), NodePhaseText(node.phase()),
                     Duration(TicksSinceSign(node, now.state)), Printable(node.address())});
  }
  AppendLines(lines, text);
}

Json NodesJson(const JobProcesses& now) {
  Json all = Json::array();
  for (const MemberState& node : now.nodes) {
    all.push_back({{"role", node.role()},
                   {"rank", node.rank()},
                   {"instance", node.instance()},
                   {"address", node.address()},
                   {"state", NodePhaseText(node.phase())},
                   {"ticks_since_sign", TicksSinceSign(node, now.state)}});
  }
  return all;
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

std::string StateOf(const WorkerLeases& worker) {
  if (worker.left()) return "left";
  return worker.last() ? "leaving" : "active";
}

void AppendLeases(const JobProcesses& now, std::string& text) {
  if (!now.leases) return;
  absl::StrAppend(&text, "rows: ", now.leases->cut_rows, " found, in ranges for leases; ",
                  now.leases->free_ranges, " ranges are not leased yet\n");
  absl::StrAppend(&text, "workers: ", now.leases->size, ", at most ", now.leases->most_workers,
                  now.leases->is_resizing && now.state.phase() != MasterState::ENDED
                      ? "; they are being changed\n"
                      : "\n");
  std::vector<std::array<std::string, 5>> lines = {
      {"worker", "state", "rows leased", "rows counted", "open leases"}};
  for (const WorkerLeases& worker : now.leases->workers) {
    lines.push_back({absl::StrCat(worker.worker()), StateOf(worker),
                     absl::StrCat(worker.next_row()), absl::StrCat(worker.counted_rows()),
                     absl::StrCat(worker.open_size())});
  }
  AppendLines(lines, text);
}

Json LeasesJson(const JobProcesses& now) {
  if (!now.leases) return nullptr;
  Json workers = Json::array();
  for (const WorkerLeases& worker : now.leases->workers) {
    workers.push_back({{"worker", worker.worker()},
                       {"state", StateOf(worker)},
                       {"leases", worker.next_number()},
                       {"rows_leased", worker.next_row()},
                       {"rows_counted", worker.counted_rows()},
                       {"open", worker.open_size()}});
  }
  return {{"rows", now.leases->cut_rows},
          {"free_ranges", now.leases->free_ranges},
          {"ended", now.leases->ended},
          {"size", now.leases->size},
          {"most_workers", now.leases->most_workers},
          {"resizing", now.leases->is_resizing},
          {"workers", std::move(workers)}};
}

Json EndJson(const ProcessState& process) {
  if (!process.has_last_end()) return nullptr;
  const ProcessEnd& end = process.last_end();
  std::string cause = "unknown";
  if (end.cause() == ProcessEnd::EXITED) cause = "exited";
  if (end.cause() == ProcessEnd::SIGNALED) cause = "signaled";
  if (end.cause() == ProcessEnd::OUT_OF_MEMORY) cause = "out_of_memory";
  if (end.cause() == ProcessEnd::NOT_STARTED) cause = "not_started";
  return {{"cause", cause}, {"code", end.code()}, {"text", ToText(end)}};
}

std::string LogOf(const ProcessState& process, const MasterState& state) {
  const std::string& run_dir = state.plan().run_dir();
  return run_dir.empty() || run_dir == kFolderInPods
             ? ""
             : ProcessLogPath(run_dir, ToText(process.process()));
}

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
  add(JobNews(before.state, now.state));
  return all;
}

std::vector<std::string> NewWarnings(const JobProcesses& before, const JobProcesses& now) {
  const std::optional<ServersAlone> alone = FindServersAlone(now);
  if (!alone || FindServersAlone(before)) return {};
  return {ToText(*alone)};
}

std::string StatusTable(const std::string& job, const JobProcesses& now) {
  std::string text = absl::StrCat("job ", job, ": ", JobPhaseText(now.state.phase()));
  if (!now.state.failure().empty()) {
    absl::StrAppend(&text, ": ", Printable(now.state.failure(), 1000));
  }
  if (now.state.plan().slots() > 0) {
    absl::StrAppend(&text, "; at most ", now.state.plan().slots(), " processes at a time");
  }
  if (IsMasterSilent(now)) {
    absl::StrAppend(&text, "; no MasterApp has given a sign for ", Duration(now.silent_s));
  }
  absl::StrAppend(&text, "\n");
  std::vector<std::array<std::string, 8>> lines = {
      {"process", "phase", "hosts", "incarnation", "restarts", "for", "last end", "log"}};
  for (const ProcessState& process : now.processes) {
    const std::string log = LogOf(process, now.state);
    lines.push_back({ToText(process.process()), PhaseText(process.phase()), HostedText(process),
                     absl::StrCat(process.incarnation()), absl::StrCat(process.restarts()),
                     Duration(SecondsIn(process, now.state)),
                     process.has_last_end() ? ToText(process.last_end()) : "-",
                     log.empty() ? "-" : Printable(log, 4096)});
  }
  AppendLines(lines, text);
  if (now.state.next_shards() > 0) {
    absl::StrAppend(&text, "shards: ", now.state.layout().shards(), "; the job is changing to ",
                    now.state.next_shards(), "\n");
  }
  AppendTaskSets(now, text);
  AppendNodes(now, text);
  AppendLeases(now, text);
  if (IsMasterSilent(now)) {
    absl::StrAppend(&text,
                    "Warning: this is what the last MasterApp knew. It is dead, or reaches no "
                    "broker: what ends is not started again. Start MasterApp again, with the same "
                    "--job and --run-dir.\n");
  }
  if (const auto alone = FindServersAlone(now)) {
    absl::StrAppend(&text, "Warning: ", ToText(*alone), ".\n");
  }
  if (now.worse_than_prior) absl::StrAppend(&text, "Warning: ", *now.worse_than_prior, ".\n");
  return text;
}

std::string StatusJson(const std::string& job, const JobProcesses& now) {
  Json processes = Json::array();
  for (const ProcessState& process : now.processes) {
    const std::string log = LogOf(process, now.state);
    processes.push_back(
        {{"name", ToText(process.process())},
         {"phase", PhaseText(process.phase())},
         {"incarnation", process.incarnation()},
         {"restarts", process.restarts()},
         {"failures", process.failures()},
         {"seconds", SecondsIn(process, now.state)},
         {"last_end", EndJson(process)},
         {"workers", std::vector(process.workers().begin(), process.workers().end())},
         {"shards", std::vector(process.shards().begin(), process.shards().end())},
         {"log", log.empty() ? Json() : Json(log)}});
  }
  const std::string& failure = now.state.failure();
  const Json json = {
      {"job", job},
      {"phase", JobPhaseText(now.state.phase())},
      {"failure", failure.empty() ? Json() : Json(failure)},
      {"slots", now.state.plan().slots()},
      {"ticks", now.state.ticks()},
      {"seconds_since_sign", now.silent_s},
      {"layout", now.state.layout().number()},
      {"next_shards", now.state.next_shards()},
      {"unusable_records", now.state.unusable()},
      {"processes", std::move(processes)},
      {"task_sets", TaskSetsJson(now.task_sets)},
      {"nodes", NodesJson(now)},
      {"leases", LeasesJson(now)},
      {"worse_than_prior", now.worse_than_prior ? Json(*now.worse_than_prior) : Json()}};
  // What is no UTF-8 is replaced: commands and names come from a topic.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace millrace
