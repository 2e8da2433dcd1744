// What updates in `gradients` do to a shard's embedding rows.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "tests/simulation/referee.h"

namespace millrace::simulation {

bool Referee::RowsFit(const Gradient& message) const {
  const Gradient::Update& update = message.update();
  const auto& wanted = message.has_ask() ? message.ask().wanted() : update.wanted();
  const EmbeddingBlock& rows = update.embeddings();
  const bool some = rows.id_size() + rows.value_size() > 0;
  if (job_.row_width == 0) return !some && wanted.empty();
  if (some && job_.parameters.empty() && update.row_count() == 0) return false;
  const auto of_this_shard = [this](const auto& ids) {
    const bool ascend = std::adjacent_find(ids.begin(), ids.end(), [](uint64_t id, uint64_t next) {
                          return id >= next;
                        }) == ids.end();
    return ascend && std::all_of(ids.begin(), ids.end(),
                                 [this](uint64_t id) { return job_.born_rows.contains(id); });
  };
  if (!of_this_shard(rows.id()) || !of_this_shard(wanted)) return false;
  size_t floats = 0;
  for (const uint64_t id : rows.id()) floats += WidthOf(id);
  return static_cast<size_t>(rows.value_size()) == floats;
}

bool Referee::IsOver(const Row& row, int64_t now_ms) const {
  const double after = job_.training.embedding().expire_after_s();
  return after > 0 && static_cast<double>(now_ms - row.last_ms) / 1000 > after;
}

std::vector<float> Referee::Read(const Rows& rows, int64_t now_ms, uint64_t id) const {
  const auto found = rows.find(id);
  const bool there =
      found != rows.end() && !found->second.values.empty() && !IsOver(found->second, now_ms);
  return there ? found->second.values : job_.born_rows.at(id);
}

std::vector<float> Referee::RowOf(const State& state, uint64_t id) const {
  return Read(*state.rows, state.step_ms, id);
}

std::vector<float> Referee::OldRowOf(const State& state, uint64_t id) const {
  return Read(*state.old_rows, state.old_step_ms, id);
}

bool Referee::ShrinksRows() const {
  const Training::Optimizer::Kind kind = job_.training.optimizer().kind();
  return job_.row_width > 0 && job_.row_l2 > 0 &&
         (kind == Training::Optimizer::SGD || kind == Training::Optimizer::ADAGRAD);
}

bool Referee::SameRow(const std::vector<float>& expected, const std::vector<float>& is) const {
  if (expected.size() != is.size()) return false;
  if (!ShrinksRows()) {
    return expected.empty() ||
           std::memcmp(expected.data(), is.data(), is.size() * sizeof(float)) == 0;
  }
  return std::equal(expected.begin(), expected.end(), is.begin(), [](float a, float b) {
    return std::abs(a - b) <= 1e-6f + 1e-5f * std::abs(a);
  });
}

// A step that does not name the row: a dense one of SGD, whose gradient is the penalty; AdaGrad's
// as if the penalty added nothing to the squares, in infinitely small parts.
void Referee::ShrinkRow(uint64_t steps, Row& row) const {
  const Training::Optimizer& how = job_.training.optimizer();
  const double rate = how.learning_rate() / (1.0 + how.decay() * static_cast<double>(steps));
  for (size_t i = 0; i < row.values.size(); ++i) {
    const double part = rate * job_.row_l2;
    const double kept =
        how.kind() == Training::Optimizer::SGD
            ? 1 - part
            : std::exp(-part / (std::sqrt(static_cast<double>(row.slots[i])) + how.epsilon()));
    row.values[i] = static_cast<float>(row.values[i] * kept);
  }
}

void Referee::StepRows(State& state, const std::vector<const Gradient::Update*>& messages,
                       float mean) const {
  if (job_.row_width == 0) return;
  std::map<uint64_t, std::vector<float>> sums;
  for (const Gradient::Update* message : messages) {
    auto value = message->embeddings().value().begin();
    for (const uint64_t id : message->embeddings().id()) {
      std::vector<float>& sum = sums[id];
      sum.resize(job_.row_width);
      for (float& component : sum) component = component + *value++;
    }
  }
  // FTRL has its second number of what is linear only.
  const bool ftrl = job_.training.optimizer().kind() == Training::Optimizer::FTRL;
  const size_t slots = ftrl ? job_.row_width + job_.row_linear : job_.row_width * slots_per_key_;
  auto rows = std::make_shared<Rows>(*state.rows);
  for (auto& [id, row] : *rows) {
    if (ShrinksRows() && !sums.contains(id)) ShrinkRow(state.steps, row);
  }
  for (auto& [id, sum] : sums) {
    Row& row = (*rows)[id];
    if (IsOver(row, state.step_ms)) row = {};
    row.last_ms = state.step_ms;
    if (row.values.empty()) {
      if (++row.updates < job_.training.embedding().admit_after()) continue;
      row.values = job_.born_rows.at(id);
      row.slots.assign(slots, 0.0f);
    }
    for (size_t i = 0; i < sum.size(); ++i) {
      sum[i] = sum[i] * mean;
      if (job_.row_l2 > 0) sum[i] = sum[i] + job_.row_l2 * row.values[i];
      if (AddsUp()) row.values[i] = row.values[i] + sum[i];
    }
    if (!AddsUp()) {
      Optimise(state.steps, sum, row.values, row.slots, job_.row_linear, job_.row_linear);
    }
    row.stored = row.values;
  }
  state.rows = std::move(rows);
}

}  // namespace millrace::simulation
