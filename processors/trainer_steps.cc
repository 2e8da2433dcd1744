#include "processors/trainer_steps.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "topics/parameter_layout.h"

namespace millrace {
namespace {

void CutParts(const std::map<uint32_t, std::vector<float>>& values,
              const std::vector<KeyRange>& keys, KeyRange shard,
              google::protobuf::RepeatedPtrField<ParameterPart>& parts) {
  parts.Clear();
  for (const auto& [number, all] : values) {
    const KeyRange parameter = keys.at(number);
    MILLRACE_CHECK(all.size() == parameter.size());
    const KeyRange part = PartOf(parameter, shard);
    if (part.size() == 0) continue;
    ParameterPart& sent = *parts.Add();
    sent.set_parameter(number);
    const auto first = all.begin() + static_cast<ptrdiff_t>(part.begin - parameter.begin);
    sent.mutable_value()->Add(first, first + static_cast<ptrdiff_t>(part.size()));
  }
}

}  // namespace

TrainerSteps::TrainerSteps(std::vector<KeyRange> keys, const std::vector<KeyRange>& shards)
    : keys_(std::move(keys)), owners_(keys_.size()) {
  for (size_t number = 0; number < keys_.size(); ++number) {
    owners_[number] = static_cast<size_t>(std::ranges::count_if(
        shards, [&](KeyRange shard) { return PartOf(keys_[number], shard).size() > 0; }));
  }
}

void TrainerSteps::Add(Clock clock, TrainerStep step) {
  if (clock < forgotten_) return;
  const auto [place, is_new] = steps_.try_emplace(clock);
  if (is_new) place->second = std::move(step);
}

void TrainerSteps::TakeValues(Clock clock, std::span<const float> values,
                              const std::vector<std::span<const uint32_t>>& put) {
  values_at_ = clock;
  values_.assign(values.begin(), values.end());
  std::vector<size_t> owners(keys_.size());
  for (const std::span<const uint32_t> of_shard : put) {
    for (const uint32_t number : of_shard) {
      if (number < owners.size()) ++owners[number];
    }
  }
  has_values_.clear();
  for (uint32_t number = 0; number < owners.size(); ++number) {
    if (owners[number] >= owners_[number]) has_values_.push_back(number);
  }
}

void TrainerSteps::Cut(const TrainerStep& step, KeyRange shard, Gradient::Update& update) const {
  CutParts(step.put, keys_, shard, *update.mutable_put());
  CutParts(step.part, keys_, shard, *update.mutable_part());
}

void TrainerSteps::Add(RowNumber /*number*/, int64_t /*timestamp_ms*/, Row* /*row*/) {
  MILLRACE_CHECK(false);
}

void TrainerSteps::End(RowNumber /*row_count*/) { MILLRACE_CHECK(false); }

StatusOr<BatchState> TrainerSteps::Next(const Progress& progress, Batch& batch) {
  batch = Batch();
  batch.rows_end = progress.rows_end;  // none are counted, but for those that somebody has made up
  if (steps_.contains(progress.clock)) return BatchState::kReady;
  return leaves_ ? BatchState::kLeave : BatchState::kWait;
}

void TrainerSteps::Forget(const Progress& progress) {
  BatchSource::Forget(progress);
  forgotten_ = std::max(forgotten_, progress.clock);
  steps_.erase(steps_.begin(), steps_.lower_bound(forgotten_));
}

}  // namespace millrace
