#include "processors/shard_tables.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/distinct_ids.h"
#include "topics/slice_codec.h"
#include "topics/table_rows.h"

namespace millrace {

ShardTables::ShardTables(const ServerOptions& options) {
  for (const NamedTable& table : TablesOf(options.parameters)) {
    tables_.push_back({.parameter = table.parameter,
                       .width = table.width,
                       .handler = options.parameters[table.parameter].handler});
    width_ = std::max(width_, table.width);
  }
}

size_t ShardTables::SlotFloats(const ServerOptions& options) {
  size_t most = 0;
  for (const ServedParameter& parameter : options.parameters) {
    most = std::max(most, parameter.row_width * parameter.handler->slot_count());
  }
  return most;
}

ShardTables::Table* ShardTables::Find(uint32_t parameter) {
  const auto found = std::ranges::find(tables_, parameter, &Table::parameter);
  return found != tables_.end() ? &*found : nullptr;
}

const ShardTables::Table* ShardTables::Find(uint32_t parameter) const {
  const auto found = std::ranges::find(tables_, parameter, &Table::parameter);
  return found != tables_.end() ? &*found : nullptr;
}

bool ShardTables::Combine(std::span<const Gradient::Update* const> updates) {
  CombineWeights(updates);
  SumRows(updates);
  return SumsAreFinite();
}

bool ShardTables::is_named() const {
  return std::ranges::any_of(tables_, [](const Table& table) { return table.named_by > 0; });
}

void ShardTables::CombineWeights(std::span<const Gradient::Update* const> updates) {
  for (Table& table : tables_) {
    table.named_by = 0;
    table.weight = 0;
  }
  for (const Gradient::Update* update : updates) {
    for (const uint32_t number : update->table()) {
      Table* const table = Find(number);
      MILLRACE_CHECK(table != nullptr);
      ++table->named_by;
      table->weight += update->weight_sum();
    }
  }
}

void ShardTables::SumRows(std::span<const Gradient::Update* const> updates) {
  ids_.clear();
  for (const Gradient::Update* update : updates) {
    const auto& ids = update->embeddings().id();
    ids_.insert(ids_.end(), ids.begin(), ids.end());
  }
  if (updates.size() > 1) SortDistinct(ids_);
  sums_.assign(ids_.size() * width_, 0.0f);
  has_sum_.assign(ids_.size(), false);
  for (const Gradient::Update* update : updates) {
    const EmbeddingBlock& rows = update->embeddings();
    const float* value = rows.value().data();
    size_t place = 0;
    for (const EmbeddingId id : rows.id()) {
      while (place < ids_.size() && ids_[place] != id) ++place;
      MILLRACE_CHECK(place < ids_.size());
      const Table& table = tables_.at(TableOf(id));
      const bool replaces =
          !has_sum_[place] || table.handler->combination() == ParameterHandler::Combination::kLast;
      float* const sum = sums_.data() + place * width_;
      for (size_t k = 0; k < table.width; ++k) sum[k] = replaces ? value[k] : sum[k] + value[k];
      has_sum_[place] = true;
      value += table.width;
    }
    MILLRACE_CHECK(value == rows.value().data() + rows.value_size());
  }
}

bool ShardTables::SumsAreFinite() const {
  for (uint32_t number = 0; number < tables_.size(); ++number) {
    const Table& table = tables_[number];
    if (!MayOverflow(table.named_by, table.weight)) continue;
    const Range rows = RowsOf(number);
    const auto sums =
        std::span(sums_).subspan(rows.begin * width_, (rows.end - rows.begin) * width_);
    if (!AreFinite(sums, static_cast<float>(1.0 / table.weight))) return false;
  }
  return true;
}

ShardTables::Range ShardTables::RowsOf(uint32_t table) const {
  const auto of_table = [](EmbeddingId id) { return TableOf(id); };
  const auto begin = std::ranges::lower_bound(ids_, table, {}, of_table);
  const auto end = std::ranges::upper_bound(ids_, table, {}, of_table);
  return {static_cast<size_t>(begin - ids_.begin()), static_cast<size_t>(end - ids_.begin())};
}

Status ShardTables::Step(EmbeddingTable& rows, const RowTime& now, PreviousRound* previous) {
  MILLRACE_CHECK(rows.width() == width_);
  std::vector<float> before(previous == nullptr ? 0 : sums_.size());
  for (uint32_t number = 0; number < tables_.size(); ++number) {
    Table& table = tables_[number];
    const Range range = RowsOf(number);
    const size_t count = range.end - range.begin;
    MILLRACE_CHECK(table.named_by > 0 || count == 0);
    if (table.named_by == 0) continue;
    const size_t begin = range.begin * width_;
    const size_t size = count * width_;
    EmbeddingTable::Before keep;
    if (previous != nullptr) keep = {previous->row_time(), std::span(before).subspan(begin, size)};
    MILLRACE_RETURN_IF_ERROR(rows.Update(
        std::span(ids_).subspan(range.begin, count), std::span(sums_).subspan(begin, size), now, 0,
        [&](std::span<const float> sum, std::span<float> values, std::span<float> slots) {
          StepRow(table, sum, values, slots);
        },
        keep));
    ++table.updates;
  }
  if (previous != nullptr) previous->KeepRows(ids_, std::move(before));
  return absl::OkStatus();
}

void ShardTables::StepRow(const Table& table, std::span<const float> sum, std::span<float> values,
                          std::span<float> slots) {
  slots_.clear();
  for (size_t slot = 0; slot < table.handler->slot_count(); ++slot) {
    slots_.push_back(slots.subspan(slot * table.width, table.width));
  }
  const ParameterSlice slice = {
      .values = values.first(table.width), .slots = slots_, .updates = table.updates};
  MILLRACE_CHECK(table.handler->HandleUpdate(slice, sum.first(table.width), table.weight).ok());
}

void ShardTables::set_updates(uint32_t parameter, uint64_t updates) {
  Table* const table = Find(parameter);
  MILLRACE_CHECK(table != nullptr);
  table->updates = updates;
}

void ShardTables::Clear() {
  for (Table& table : tables_) table.updates = 0;
}

void ShardTables::Save(ShardState& state) const {
  for (const Table& table : tables_) {
    if (table.updates == 0) continue;
    ParameterProgress& saved = *state.add_parameters();
    saved.set_parameter(table.parameter);
    saved.set_updates(table.updates);
  }
}

}  // namespace millrace
