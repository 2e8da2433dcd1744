#include "topics/planned_hosts.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "topics/plan_codec.h"
#include "topics/process_name.h"
#include "topics/topics.h"

namespace millrace {

StatusOr<Incarnation> Incarnation::Parse(std::string_view text) {
  const auto bad = [&](const std::string& why) {
    return absl::InvalidArgumentError(
        "expected PROCESS:INCARNATION, for example worker-0:1, but " + why +
        ". Only MasterApp gives this: leave it out when you start the program by hand");
  };
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return bad("there is no colon");
  Incarnation incarnation;
  incarnation.process = std::string(text.substr(0, colon));
  const StatusOr<ProcessName> name = ParseProcessName(incarnation.process);
  if (!name.ok()) return bad(std::string(name.status().message()));
  const std::string_view digits = text.substr(colon + 1);
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), incarnation.number);
  if (error != std::errc() || end != digits.data() + digits.size() || incarnation.number == 0) {
    return bad("the incarnation is not a number from 1 on");
  }
  return incarnation;
}

void PlannedHosts::Take(std::string_view key, std::string_view value) {
  if (!key.starts_with(kPlanProcessKey)) return;
  const std::string_view name = key.substr(kPlanProcessKey.size());
  if (value.data() == nullptr) {
    if (const auto found = processes_.find(name); found != processes_.end()) {
      processes_.erase(found);
    }
    return;
  }
  ProcessState process;
  if (!DecodePlanValue(value, process).ok() || ToText(process.process()) != name) return;
  const bool is_usable =
      std::ranges::all_of(process.workers(),
                          [](uint32_t worker) { return worker < kMostWorkers; }) &&
      std::ranges::all_of(process.shards(), [](uint32_t shard) { return shard < kMostShards; }) &&
      std::ranges::is_sorted(process.shards());
  if (!is_usable) return;
  process.clear_command();
  processes_.insert_or_assign(std::string(name), std::move(process));
}

std::set<int32_t> PlannedHosts::WorkersOf(const Incarnation& incarnation) const {
  const auto found = processes_.find(incarnation.process);
  if (found == processes_.end() || found->second.incarnation() != incarnation.number) return {};
  return {found->second.workers().begin(), found->second.workers().end()};
}

std::vector<uint32_t> PlannedHosts::ShardsOf(const Incarnation& incarnation) const {
  const auto found = processes_.find(incarnation.process);
  if (found == processes_.end() || found->second.incarnation() != incarnation.number) return {};
  return {found->second.shards().begin(), found->second.shards().end()};
}

uint32_t PlannedHosts::LayoutOf(const Incarnation& incarnation) const {
  const auto found = processes_.find(incarnation.process);
  return found == processes_.end() ? 0 : found->second.layout();
}

std::string PlannedHosts::HostOf(uint32_t shard) const {
  for (const auto& [name, process] : processes_) {
    if (std::ranges::binary_search(process.shards(), shard)) return name;
  }
  return "";
}

bool PlannedHosts::IsReplaced(const Incarnation& incarnation) const {
  const auto found = processes_.find(incarnation.process);
  return found != processes_.end() && found->second.incarnation() > incarnation.number;
}

std::vector<std::string> PlannedHosts::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, process] : processes_) {
    if (!process.workers().empty()) names.push_back(name);
  }
  return names;
}

}  // namespace millrace
