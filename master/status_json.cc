#include "master/status_json.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "master/status_words.h"
#include "topics/process_name.h"
#include "topics/task_codec.h"

namespace millrace {
namespace {

using Json = nlohmann::ordered_json;

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

Json LeasesJson(const JobProcesses& now) {
  if (!now.leases) return nullptr;
  Json workers = Json::array();
  for (const WorkerLeases& worker : now.leases->workers) {
    workers.push_back({{"worker", worker.worker()},
                       {"state", WorkerStateText(worker)},
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

}  // namespace

std::string StatusJson(const std::string& job, const JobProcesses& now) {
  Json processes = Json::array();
  for (const ProcessState& process : now.processes) {
    const std::string log = LogOf(process, now.state);
    processes.push_back(
        {{"name", ToText(process.process())},
         {"phase", ProcessPhaseText(process.phase())},
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
  const std::optional<ServersAlone> alone = FindServersAlone(now);
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
      {"servers_alone", alone ? Json(ToText(*alone)) : Json()},
      {"worse_than_prior", now.worse_than_prior ? Json(*now.worse_than_prior) : Json()}};
  // What is no UTF-8 is replaced: commands and names come from a topic.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace millrace
