#include "processors/shard_model.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/distinct_ids.h"
#include "models/initial_weights.h"
#include "processors/group_sync.h"
#include "topics/slice_codec.h"

namespace millrace {
namespace {

// The number of the range's keys below `end`.
size_t CountBefore(uint64_t end, KeyRange range) {
  return std::clamp(end, range.begin, range.end) - range.begin;
}

bool AllFinite(const std::vector<float>& values) {
  return AllWithin(values, std::numeric_limits<float>::max());
}

}  // namespace

BlockShape BlockShapeOf(const ServerOptions& options) {
  const size_t slots = options.parameters.empty()
                           ? Optimizer::Create(options.optimizer)->slot_count()
                           : ShardParameters::SlotCount(options);
  return {
      options.range,
      (options.updates == UpdateKind::kAverageChanges ? 0 : slots) + GroupSync::SlotCount(options),
      options.keeps_previous_round()};
}

EmbeddingTableOptions TableOptionsOf(const ServerOptions& options) {
  EmbeddingTableOptions table = *options.embeddings;
  if (!options.parameters.empty()) {
    table.slot_floats = ShardTables::SlotFloats(options);
    return table;
  }
  const ParameterParts parts{options.row_linear_end, options.row_linear_end};
  const std::shared_ptr<const Optimizer> optimizer = Optimizer::Create(options.optimizer);
  table.slot_floats = optimizer->slot_floats(table.width(), parts);
  if (options.optimizer.kind == OptimizerOptions::Kind::kSum) {
    table.catch_up = [](double missed, std::span<float> values, std::span<const float> /*slots*/) {
      OnlineForgetting::ForgetRow(missed, values);
    };
    return table;
  }
  table.catch_up = [optimizer](double missed, std::span<float> values,
                               std::span<const float> slots) {
    optimizer->CatchUp(missed, values, slots);
  };
  return table;
}

ShardModel::ShardModel(const ServerOptions& options, const OrderedByteMap* store)
    : range_(options.range),
      parts_{CountBefore(options.penalised_end, options.range),
             CountBefore(options.linear_end, options.range)},
      row_parts_{options.row_linear_end, options.row_linear_end},
      updates_(options.updates),
      adds_up_(options.optimizer.kind == OptimizerOptions::Kind::kSum),
      l2_(options.l2),
      row_l2_(options.row_l2),
      forgets_(options.forgets),
      optimizer_(Optimizer::Create(options.optimizer)),
      shard_(options.range, BlockShapeOf(options).slot_count, options.keeps_previous_round(),
             InitialWeights(options.random_init_ranges, options.seed, options.range)),
      sum_(options.parameters.empty() ? options.range.size() : 0) {
  if (!options.parameters.empty()) parameters_ = std::make_unique<ShardParameters>(options);
  if (!options.embeddings) return;
  embeddings_ = std::make_unique<EmbeddingTable>(TableOptionsOf(options), store);
}

void ShardModel::Forget() {
  MILLRACE_CHECK(forgets_ && row_l2_ == 0);
  forgets_->Forget(range_.begin, shard_.mutable_weights());
  shard_.MarkAllUpdated();
  shrinkage_ += 1;  // each row forgets when it is read or changed next
}

void ShardModel::SetWeights(const Slice& slice) {
  MILLRACE_CHECK(static_cast<size_t>(slice.dense_size()) == range_.size());
  std::ranges::copy(slice.dense(), shard_.mutable_weights().begin());
  shard_.MarkAllUpdated();
}

StatusOr<bool> ShardModel::Step(Updates updates, size_t average_over, int64_t now_ms,
                                PreviousRound* previous) {
  double weight = 0;
  for (const Gradient::Update* update : updates) {
    if (update->row_count() > 0) weight += update->weight_sum();
  }
  if (weight <= 0) return true;  // a round without rows performs no optimizer step
  std::ranges::fill(sum_, 0.0f);
  StatusOr<bool> is_finite = updates_ == UpdateKind::kAverageChanges
                                 ? AddChanges(updates, weight, average_over)
                                 : StepByGradients(updates, weight, now_ms, previous);
  if (!is_finite.ok() || !*is_finite) return is_finite;
  ++steps_;
  shard_.MarkAllUpdated();
  return true;
}

StatusOr<ShardParameters::Outcome> ShardModel::StepParameters(Updates updates, Clock clock,
                                                              int64_t now_ms,
                                                              PreviousRound* previous,
                                                              const GroupSync& sync) {
  MILLRACE_CHECK(parameters_ != nullptr);
  MILLRACE_ASSIGN_OR_RETURN(
      const ShardParameters::Outcome outcome,
      parameters_->Step(updates, clock, shard_,
                        {.rows = embeddings_.get(), .now = {now_ms, 0}, .previous = previous},
                        sync));
  if (outcome.has_changed) {
    ++steps_;
    shard_.MarkAllUpdated();
  }
  return outcome;
}

// Federated averaging (McMahan et al., AISTATS 2017): each change by its share of the rows.
StatusOr<bool> ShardModel::AddChanges(Updates updates, double weight, size_t average_over) {
  for (const Gradient::Update* update : updates) {
    if (update->row_count() == 0) continue;
    const double share =
        average_over > 0 ? 1.0 / static_cast<double>(average_over) : update->weight_sum() / weight;
    AddSlice(update->slice(), static_cast<float>(share), sum_);
  }
  if (!AllFinite(sum_)) return false;  // sane changes may still overflow together
  const std::span<float> weights = shard_.mutable_weights();
  for (size_t i = 0; i < sum_.size(); ++i) weights[i] += sum_[i];
  return true;
}

StatusOr<bool> ShardModel::StepByGradients(Updates updates, double weight, int64_t now_ms,
                                           PreviousRound* previous) {
  for (const Gradient::Update* update : updates) {
    if (update->row_count() > 0) AddSlice(update->slice(), 1.0f, sum_);
  }
  const float scale = adds_up_ ? 1.0f : static_cast<float>(1.0 / weight);
  for (float& value : sum_) value *= scale;
  const std::span<float> weights = shard_.mutable_weights();
  if (l2_ > 0) {
    const auto l2 = static_cast<float>(l2_);
    for (size_t i = 0; i < parts_.penalised_end; ++i) sum_[i] += l2 * weights[i];
  }
  if (embeddings_ != nullptr) SumEmbeddings(updates, scale);
  if (!AllFinite(sum_) || !AllFinite(row_sum_)) return false;     // divided by a tiny weight, say
  const size_t slots = optimizer_->slot_count() * range_.size();  // others are not its own
  optimizer_->Step(steps_, sum_, weights, shard_.mutable_slots().first(slots), parts_);
  if (embeddings_ != nullptr) MILLRACE_RETURN_IF_ERROR(StepEmbeddings(now_ms, previous));
  return true;
}

void ShardModel::SumEmbeddings(Updates updates, float scale) {
  row_ids_.clear();
  for (const Gradient::Update* update : updates) {
    const auto& ids = update->embeddings().id();
    row_ids_.insert(row_ids_.end(), ids.begin(), ids.end());
  }
  if (updates.size() > 1) {
    SortDistinct(row_ids_);
  }
  const size_t width = embeddings_->width();
  row_sum_.assign(row_ids_.size() * width, 0.0f);
  for (const Gradient::Update* update : updates) {
    const auto& ids = update->embeddings().id();
    MILLRACE_CHECK(static_cast<size_t>(update->embeddings().value_size()) ==
                   static_cast<size_t>(ids.size()) * width);
    const float* value = update->embeddings().value().data();
    size_t place = 0;
    for (int i = 0; i < ids.size(); ++i, value += width) {
      while (place < row_ids_.size() && row_ids_[place] != ids[i]) ++place;
      MILLRACE_CHECK(place < row_ids_.size());
      float* const sum = row_sum_.data() + place * width;
      for (size_t k = 0; k < width; ++k) sum[k] += value[k];
    }
  }
  for (float& value : row_sum_) value *= scale;
}

Status ShardModel::StepEmbeddings(int64_t now_ms, PreviousRound* previous) {
  std::vector<float> before(previous == nullptr ? 0 : row_sum_.size());
  EmbeddingTable::Before keep;
  if (previous != nullptr) keep = {previous->row_time(), before};
  const RowTime now = {now_ms, shrinkage_};
  if (row_l2_ > 0) shrinkage_ += optimizer_->Shrinkage(steps_, row_l2_);
  row_gradient_.resize(embeddings_->width());
  const auto step = [this](std::span<const float> gradient, std::span<float> values,
                           std::span<float> slots) {
    if (row_l2_ > 0) {
      const auto l2 = static_cast<float>(row_l2_);
      for (size_t i = 0; i < values.size(); ++i) row_gradient_[i] = gradient[i] + l2 * values[i];
      gradient = row_gradient_;
    }
    optimizer_->Step(steps_, gradient, values, slots, row_parts_);
  };
  MILLRACE_RETURN_IF_ERROR(embeddings_->Update(row_ids_, row_sum_, now, shrinkage_, step, keep));
  if (previous != nullptr) previous->KeepRows(row_ids_, std::move(before));
  return absl::OkStatus();
}

}  // namespace millrace
