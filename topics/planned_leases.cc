#include "topics/planned_leases.h"

#include <string>

#include "topics/lease_codec.h"
#include "topics/plan_codec.h"

namespace millrace {
namespace {

// Whether the key ends with the number as a master writes it.
bool IsKeyOf(std::string_view key, std::string_view prefix, uint32_t number) {
  return key.substr(prefix.size()) == std::to_string(number);
}

}  // namespace

void PlannedLeases::Take(std::string_view key, std::string_view value) {
  if (value.data() == nullptr) return;
  if (key.starts_with(kPlanLeaseKey)) {
    WorkerLeases leases;
    if (!DecodePlanValue(value, leases).ok() || !CheckWorkerLeases(leases).ok()) return;
    if (!IsKeyOf(key, kPlanLeaseKey, leases.worker())) return;
    changed_.insert(leases.worker());
    workers_.insert_or_assign(leases.worker(), std::move(leases));
  } else if (key.starts_with(kPlanInputKey)) {
    InputState input;
    if (!DecodePlanValue(value, input).ok() || !CheckInputState(input).ok()) return;
    if (!IsKeyOf(key, kPlanInputKey, input.partition())) return;
    inputs_.insert_or_assign(input.partition(), std::move(input));
  }
}

const WorkerLeases* PlannedLeases::Of(uint32_t worker) const {
  const auto found = workers_.find(worker);
  return found == workers_.end() ? nullptr : &found->second;
}

std::vector<InputState> PlannedLeases::TailsOf(uint32_t worker) const {
  std::vector<InputState> tails;
  const WorkerLeases* const leases = Of(worker);
  if (leases == nullptr || leases->tail_readers() == 0) return tails;
  for (const auto& [partition, input] : inputs_) {
    const bool is_its = partition % leases->tail_readers() == worker;
    if (is_its && input.ended()) tails.push_back(input);
  }
  return tails;
}

}  // namespace millrace
