#include "master/status_table.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/printable.h"
#include "master/status_words.h"
#include "topics/node_codec.h"
#include "topics/process_name.h"
#include "topics/task_codec.h"

namespace millrace {
namespace {

std::string Duration(uint64_t duration_s) {
  return absl::StrFormat("%d:%02d:%02d", duration_s / 3600, duration_s / 60 % 60, duration_s % 60);
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
    lines.push_back({absl::StrCat(worker.worker()), WorkerStateText(worker),
                     absl::StrCat(worker.next_row()), absl::StrCat(worker.counted_rows()),
                     absl::StrCat(worker.open_size())});
  }
  AppendLines(lines, text);
}

}  // namespace

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
    lines.push_back({ToText(process.process()), ProcessPhaseText(process.phase()),
                     HostedText(process), absl::StrCat(process.incarnation()),
                     absl::StrCat(process.restarts()), Duration(SecondsIn(process, now.state)),
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

}  // namespace millrace
