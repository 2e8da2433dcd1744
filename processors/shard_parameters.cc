#include "processors/shard_parameters.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/check.h"
#include "models/parameter_handler.h"
#include "topics/gradient_codec.h"
#include "topics/parameter_layout.h"
#include "topics/slice_codec.h"

namespace millrace {

ShardParameters::ShardParameters(const ServerOptions& options)
    : range_(options.range), is_grouped_(options.groups > 1), tables_(options) {
  for (const ServedParameter& parameter : options.parameters) {
    parameters_.push_back(
        {.part = PartOf(parameter.keys, options.range), .handler = parameter.handler});
    has_foreign_ = has_foreign_ || parameter.handler->is_foreign();
  }
}

size_t ShardParameters::SlotCount(const ServerOptions& options) {
  size_t most = 0;
  for (const ServedParameter& parameter : options.parameters) {
    most = std::max(most, parameter.handler->slot_count());
  }
  return most;
}

StatusOr<ShardParameters::Outcome> ShardParameters::Step(
    std::span<const Gradient::Update* const> updates, Clock clock, ParameterShard& shard,
    const Rows& rows, const GroupSync& sync) {
  Outcome outcome;
  for (const Gradient::Update* update : updates) {
    for (const ParameterPart& put : update->put()) {
      Parameter& parameter = parameters_.at(put.parameter());
      if (parameter.values_from) continue;  // the first counts
      if (!Put(parameter, Values(put), shard, sync, outcome)) continue;
      parameter.values_from = clock + 1;
      outcome.has_changed = true;
    }
  }
  outcome.parts_before_put = Combine(updates);
  const bool rows_are_finite = tables_.Combine(updates);
  outcome.is_finite = SumsAreFinite() && rows_are_finite;
  if (!outcome.is_finite) return outcome;
  for (Parameter& parameter : parameters_) {
    if (parameter.summed == 0) continue;
    const auto call = [&](const ParameterHandler& handler, const ParameterSlice& slice) {
      return handler.HandleUpdate(slice, parameter.sum, parameter.weight);
    };
    if (!Handle(parameter, call, shard, outcome)) continue;
    ++parameter.updates;
    outcome.has_changed = true;
  }
  if (!tables_.is_named()) return outcome;
  MILLRACE_CHECK(rows.rows != nullptr);
  MILLRACE_RETURN_IF_ERROR(tables_.Step(*rows.rows, rows.now, rows.previous));
  outcome.has_changed = true;
  return outcome;
}

bool ShardParameters::Put(const Parameter& parameter, std::span<const float> values,
                          ParameterShard& shard, const GroupSync& sync, Outcome& outcome) {
  const auto call = [&values](const ParameterHandler& handler, const ParameterSlice& slice) {
    return handler.HandlePut(slice, values);
  };
  if (!is_grouped_) return Handle(parameter, call, shard, outcome);
  const std::span<float> now = SliceOf(parameter, shard).values;
  const std::vector<float> changes(now.begin(), now.end());
  std::ranges::fill(now, 0.0f);
  const bool is_put = Handle(parameter, call, shard, outcome);
  if (is_put) sync.AddFirst(parameter.part, now, shard);
  for (size_t i = 0; i < now.size(); ++i) now[i] += changes[i];
  return is_put;
}

bool ShardParameters::SyncNow(uint64_t updates_since) const {
  return std::ranges::any_of(parameters_, [updates_since](const Parameter& parameter) {
    return parameter.values_from && parameter.part.size() > 0 &&
           parameter.handler->SyncNow(updates_since);
  });
}

std::vector<KeyRange> ShardParameters::KeysOf(std::span<const uint32_t> numbers) const {
  std::vector<KeyRange> keys;
  for (const uint32_t number : numbers) {
    const Parameter& parameter = parameters_.at(number);
    if (parameter.values_from && parameter.part.size() > 0) keys.push_back(parameter.part);
  }
  return keys;
}

bool ShardParameters::Handle(const Parameter& parameter, const Call& call, ParameterShard& shard,
                             Outcome& outcome) {
  const ParameterSlice slice = SliceOf(parameter, shard);
  if (parameter.handler->is_foreign()) {
    return HandleForeign(*parameter.handler, call, slice, outcome);
  }
  MILLRACE_CHECK(call(*parameter.handler, slice).ok());
  return true;
}

// Number by number, since another shard may have those beside a bad one.
bool ShardParameters::HandleForeign(const ParameterHandler& handler, const Call& call,
                                    const ParameterSlice& slice, Outcome& outcome) {
  const size_t size = slice.values.size();
  copy_.assign(slice.values.begin(), slice.values.end());
  for (const std::span<float> slot : slice.slots) {
    copy_.insert(copy_.end(), slot.begin(), slot.end());
  }
  std::vector<std::span<float>> slots;
  for (size_t slot = 1; slot <= slice.slots.size(); ++slot) {
    slots.push_back(std::span(copy_).subspan(slot * size, size));
  }
  const std::span<float> values = std::span(copy_).first(size);
  if (!call(handler, {.values = values, .slots = slots, .updates = slice.updates}).ok()) {
    ++outcome.handler_errors;
    return false;
  }
  for (size_t i = 0; i < size; ++i) {
    bool is_good = std::abs(values[i]) <= kLargestValue;
    for (const std::span<float> slot : slots) is_good = is_good && std::isfinite(slot[i]);
    if (!is_good) {
      ++outcome.numbers_refused;
      continue;
    }
    slice.values[i] = values[i];
    for (size_t slot = 0; slot < slots.size(); ++slot) slice.slots[slot][i] = slots[slot][i];
  }
  return true;
}

std::span<const float> ShardParameters::AsRead(std::span<const float> values,
                                               std::vector<float>& scratch) const {
  if (!has_foreign_) return values;
  scratch.assign(values.begin(), values.end());
  std::vector<float> read;
  for (const Parameter& parameter : parameters_) {
    if (!parameter.handler->is_foreign() || !parameter.values_from) continue;
    const size_t begin = parameter.part.begin - range_.begin;
    read.assign(values.begin() + static_cast<ptrdiff_t>(begin),
                values.begin() + static_cast<ptrdiff_t>(begin + parameter.part.size()));
    if (!parameter.handler->HandleGet(read).ok()) continue;
    for (size_t i = 0; i < read.size(); ++i) {
      if (std::abs(read[i]) <= kLargestValue) scratch[begin + i] = read[i];
    }
  }
  return scratch;
}

uint64_t ShardParameters::Combine(std::span<const Gradient::Update* const> updates) {
  uint64_t before_put = 0;
  for (Parameter& parameter : parameters_) {
    parameter.summed = 0;
    parameter.sum = {};
  }
  for (const Gradient::Update* update : updates) {
    for (const ParameterPart& part : update->part()) {
      Parameter& parameter = parameters_.at(part.parameter());
      if (!parameter.values_from) {
        ++before_put;
        continue;
      }
      const std::span<const float> values = Values(part);
      MILLRACE_CHECK(values.size() == parameter.part.size());
      const bool replaces = parameter.summed == 0 || parameter.handler->combination() ==
                                                         ParameterHandler::Combination::kLast;
      if (replaces) {
        parameter.sum = values;  // which need not be copied
        parameter.weight = update->weight_sum();
        parameter.summed = 1;
      } else {
        const std::span<float> sum = ScratchOf(parameter);
        for (size_t i = 0; i < sum.size(); ++i) sum[i] = parameter.sum[i] + values[i];
        parameter.sum = sum;
        parameter.weight += update->weight_sum();
        ++parameter.summed;
      }
    }
  }
  return before_put;
}

// Sane updates may overflow together, or be divided by a tiny weight. (Where they cannot, to look
// at all of them would take as long as the step.)
bool ShardParameters::SumsAreFinite() const {
  return std::ranges::all_of(parameters_, [](const Parameter& parameter) {
    return parameter.summed == 0 || !MayOverflow(parameter.summed, parameter.weight) ||
           AreFinite(parameter.sum, static_cast<float>(1.0 / parameter.weight));
  });
}

std::span<float> ShardParameters::ScratchOf(const Parameter& parameter) {
  sums_.resize(range_.size());
  return std::span(sums_).subspan(parameter.part.begin - range_.begin, parameter.part.size());
}

ParameterSlice ShardParameters::SliceOf(const Parameter& parameter, ParameterShard& shard) {
  const size_t begin = parameter.part.begin - range_.begin;
  slots_.clear();
  for (size_t slot = 0; slot < parameter.handler->slot_count(); ++slot) {
    slots_.push_back(
        shard.mutable_slots().subspan(slot * range_.size() + begin, parameter.part.size()));
  }
  return {.values = shard.mutable_weights().subspan(begin, parameter.part.size()),
          .slots = slots_,
          .updates = parameter.updates};
}

std::vector<uint32_t> ShardParameters::WithValues(std::optional<Clock> at) const {
  std::vector<uint32_t> numbers;
  for (size_t number = 0; number < parameters_.size(); ++number) {
    const std::optional<Clock>& from = parameters_[number].values_from;
    if (from && (!at || *from <= *at)) numbers.push_back(static_cast<uint32_t>(number));
  }
  return numbers;
}

void ShardParameters::Save(ShardState& state) const {
  for (const uint32_t number : WithValues()) {
    ParameterProgress& saved = *state.add_parameters();
    saved.set_parameter(number);
    saved.set_values_from(*parameters_[number].values_from);
    saved.set_updates(parameters_[number].updates);
  }
  tables_.Save(state);
  std::ranges::sort(*state.mutable_parameters(), {}, &ParameterProgress::parameter);
}

Status ShardParameters::Load(const ShardState& state) {
  for (Parameter& parameter : parameters_) {
    parameter.values_from.reset();
    parameter.updates = 0;
  }
  tables_.Clear();
  int64_t last = -1;
  for (const ParameterProgress& saved : state.parameters()) {
    const uint32_t number = saved.parameter();
    const bool is_table = tables_.IsTable(number);
    const bool is_known = number < parameters_.size() && parameters_[number].part.size() > 0;
    if (number <= last || !(is_known || is_table) || saved.values_from() > kMostClock + 1 ||
        (is_table && saved.values_from() > 0) || saved.updates() > state.steps()) {
      return absl::InvalidArgumentError("its parameter " + std::to_string(number) +
                                        " is not one of this shard, or has impossible numbers");
    }
    last = number;
    if (is_table) {
      tables_.set_updates(number, saved.updates());
      continue;
    }
    parameters_[number].values_from = Clock(saved.values_from());
    parameters_[number].updates = saved.updates();
  }
  return absl::OkStatus();
}

}  // namespace millrace
