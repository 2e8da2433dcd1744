// What updates make of the tables of trainers of one's own.
#include <cmath>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tests/simulation/referee.h"

namespace millrace::simulation {

// Tables are counted among the parameters; a row has the count in its first byte.
uint32_t Referee::TableOf(uint64_t id) const {
  uint64_t before = id >> 56;
  for (uint32_t number = 0; number < job_.parameters.size(); ++number) {
    if (job_.parameters[number].row_width > 0 && before-- == 0) return number;
  }
  return UINT32_MAX;
}

size_t Referee::WidthOf(uint64_t id) const {
  return job_.parameters.empty() ? job_.row_width : job_.parameters.at(TableOf(id)).row_width;
}

bool Referee::TablesFit(const Gradient::Update& update) const {
  int64_t last = -1;
  std::map<uint32_t, bool> named;
  for (const uint32_t number : update.table()) {
    if (int64_t{number} <= last || number >= job_.parameters.size()) return false;
    if (job_.parameters[number].row_width == 0) return false;
    last = number;
    named[number] = true;
  }
  if (!named.empty() && update.weight_sum() == 0) return false;
  for (const uint64_t id : update.embeddings().id()) {
    if (!named.contains(TableOf(id))) return false;
  }
  return true;
}

Referee::TableSteps Referee::CombineTables(
    const std::vector<const Gradient::Update*>& messages) const {
  TableSteps steps;
  for (const Gradient::Update* message : messages) {
    for (const uint32_t number : message->table()) steps[number].weight += message->weight_sum();
    int at = 0;
    for (const uint64_t id : message->embeddings().id()) {
      const NamedJob& table = job_.parameters[TableOf(id)];
      std::vector<float>& sum = steps[TableOf(id)].sums[id];
      const bool takes = sum.empty() || table.handler.name == "assign";
      sum.resize(table.row_width);
      for (float& number : sum) {
        const float more = message->embeddings().value(at++);
        number = takes ? more : number + more;
      }
    }
  }
  for (auto& [number, step] : steps) {
    const auto share = static_cast<float>(1.0 / step.weight);
    for (const auto& [id, sum] : step.sums) {
      for (const float value : sum) {
        step.is_finite = step.is_finite && std::isfinite(value) && std::isfinite(value * share);
      }
    }
  }
  return steps;
}

// A row's slots stand one behind the other, each as wide as the row; behind them is nothing.
void Referee::StepTables(State& state, const TableSteps& steps,
                         std::vector<NamedState>& named) const {
  size_t slot_floats = 0;
  for (const NamedJob& table : job_.parameters) {
    slot_floats = std::max(slot_floats, table.row_width * table.handler.slots());
  }
  auto rows = std::make_shared<Rows>(*state.rows);
  for (const auto& [number, step] : steps) {
    const NamedJob& table = job_.parameters[number];
    for (const auto& [id, sum] : step.sums) {
      Row& row = (*rows)[id];
      if (IsOver(row, state.step_ms)) row = {};
      row.last_ms = state.step_ms;
      if (row.values.empty()) {
        if (++row.updates < job_.training.embedding().admit_after()) continue;
        row.values = job_.born_rows.at(id);
        row.slots.assign(slot_floats, 0.0f);
      }
      for (size_t i = 0; i < sum.size(); ++i) {
        PlainNumber is = {.value = row.values[i]};
        const size_t second = table.row_width + i;
        if (table.handler.slots() > 0) is.first = row.slots[i];
        if (table.handler.slots() > 1) is.second = row.slots[second];
        ChangeNumber(table.handler, named[number].updates, sum[i], sum[i], step.weight, is);
        row.values[i] = is.value;
        if (table.handler.slots() > 0) row.slots[i] = is.first;
        if (table.handler.slots() > 1) row.slots[second] = is.second;
      }
      row.stored = row.values;
    }
    ++named[number].updates;
  }
  state.rows = std::move(rows);
}

}  // namespace millrace::simulation
