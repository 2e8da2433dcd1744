// What updates make of the named parameters of trainers of one's own.
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "tests/simulation/referee.h"

namespace millrace::simulation {
namespace {

const ParameterPart* PartOf(const google::protobuf::RepeatedPtrField<ParameterPart>& parts,
                            uint32_t number) {
  for (const ParameterPart& part : parts) {
    if (part.parameter() == number) return &part;
  }
  return nullptr;
}

}  // namespace

bool Referee::PartsFit(const google::protobuf::RepeatedPtrField<ParameterPart>& parts) const {
  int64_t last = -1;
  for (const ParameterPart& part : parts) {
    if (int64_t{part.parameter()} <= last || part.parameter() >= job_.parameters.size()) {
      return false;
    }
    last = part.parameter();
    const uint64_t keys = job_.parameters[part.parameter()].keys;
    if (keys == 0 || static_cast<uint64_t>(part.value_size()) != keys) return false;
  }
  return true;
}

bool Referee::ParametersFit(const Gradient::Update& update) const {
  const int named = update.put_size() + update.part_size() + update.table_size();
  if (job_.parameters.empty()) return named == 0;
  if (update.has_slice() || (update.part_size() > 0 && update.weight_sum() == 0)) return false;
  return PartsFit(update.put()) && PartsFit(update.part()) && TablesFit(update);
}

std::vector<uint32_t> Referee::WithValues(const State& state, std::optional<uint64_t> at) {
  std::vector<uint32_t> numbers;
  for (uint32_t number = 0; number < state.named->size(); ++number) {
    const std::optional<uint64_t>& from = (*state.named)[number].from;
    if (from && (!at || *from <= *at)) numbers.push_back(number);
  }
  return numbers;
}

// First what is put, by the first who does; then a step of each parameter that anybody names.
void Referee::StepNamed(State& state, const std::vector<const Gradient::Update*>& messages) {
  auto weights = std::make_shared<std::vector<float>>(*state.weights);
  auto slots = std::make_shared<std::vector<float>>(*state.slots);
  auto named = std::make_shared<std::vector<NamedState>>(*state.named);
  uint64_t clock = 0;
  for (const Member& member : state.members) clock = std::max(clock, member.clock);
  bool has_changed = false;
  for (const Gradient::Update* message : messages) {
    for (const ParameterPart& put : message->put()) {
      NamedState& is = (*named)[put.parameter()];
      if (is.from) continue;
      is.from = clock + 1;
      has_changed = true;
      const NamedJob& parameter = job_.parameters[put.parameter()];
      for (size_t i = 0; i < parameter.keys; ++i) {
        PlainNumber number;
        PutNumber(parameter.handler, put.value(static_cast<int>(i)), number);
        SetNumber(parameter, i, number, *weights, *slots);
      }
    }
  }
  std::vector<Combined> all;
  bool is_finite = true;
  for (uint32_t number = 0; number < named->size(); ++number) {
    all.push_back(Combine(messages, number, (*named)[number].from.has_value(), state));
    is_finite = is_finite && all.back().is_finite;
  }
  const TableSteps tables = CombineTables(messages);
  for (const auto& [number, step] : tables) is_finite = is_finite && step.is_finite;
  if (!is_finite) ++state.poisoned;
  for (uint32_t number = 0; number < named->size() && is_finite; ++number) {
    const Combined& step = all[number];
    if (step.count == 0) continue;
    const NamedJob& parameter = job_.parameters[number];
    for (size_t i = 0; i < parameter.keys; ++i) {
      PlainNumber is = NumberOf(parameter, i, *weights, *slots);
      ChangeNumber(parameter.handler, (*named)[number].updates, step.sum[i], step.last[i],
                   step.weight, is);
      SetNumber(parameter, i, is, *weights, *slots);
    }
    ++(*named)[number].updates;
    has_changed = true;
  }
  if (is_finite && !tables.empty()) {
    StepTables(state, tables, *named);
    has_changed = true;
  }
  if (has_changed) ++state.steps;
  state.weights = std::move(weights);
  state.slots = std::move(slots);
  state.named = std::move(named);
}

Referee::Combined Referee::Combine(const std::vector<const Gradient::Update*>& messages,
                                   uint32_t number, bool has_values, State& state) const {
  Combined step;
  const bool assigns = job_.parameters[number].handler.name == "assign";
  for (const Gradient::Update* message : messages) {
    const ParameterPart* const part = PartOf(message->part(), number);
    if (part == nullptr) continue;
    if (!has_values) {
      ++state.parts_before_put;
      continue;
    }
    const std::vector<float> values(part->value().begin(), part->value().end());
    step.last = values;
    if (step.count == 0 || assigns) {
      step.sum = values;
      step.weight = message->weight_sum();
    } else {
      for (size_t i = 0; i < values.size(); ++i) step.sum[i] = step.sum[i] + values[i];
      step.weight += message->weight_sum();
    }
    ++step.count;
  }
  for (const float value : step.sum) {
    const float mean = value * static_cast<float>(1.0 / step.weight);
    step.is_finite = step.is_finite && std::isfinite(value) && std::isfinite(mean);
  }
  return step;
}

PlainNumber Referee::NumberOf(const NamedJob& parameter, size_t i,
                              const std::vector<float>& weights,
                              const std::vector<float>& slots) const {
  const size_t key = parameter.begin + i;
  PlainNumber number = {.value = weights[key]};
  if (parameter.handler.slots() > 0) number.first = slots[key];
  if (parameter.handler.slots() > 1) number.second = slots[job_.keys + key];
  return number;
}

void Referee::SetNumber(const NamedJob& parameter, size_t i, const PlainNumber& number,
                        std::vector<float>& weights, std::vector<float>& slots) const {
  const size_t key = parameter.begin + i;
  weights[key] = number.value;
  if (parameter.handler.slots() > 0) slots[key] = number.first;
  if (parameter.handler.slots() > 1) slots[job_.keys + key] = number.second;
}

}  // namespace millrace::simulation
