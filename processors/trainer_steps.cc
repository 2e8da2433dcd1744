#include "processors/trainer_steps.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "topics/parameter_layout.h"
#include "topics/partitioning.h"

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

TrainerSteps::TrainerSteps(std::vector<KeyRange> keys, std::vector<NamedTable> tables,
                           std::vector<KeyRange> shards)
    : keys_(std::move(keys)),
      tables_(std::move(tables)),
      shards_(std::move(shards)),
      owners_(CountOwners()) {}

std::vector<size_t> TrainerSteps::CountOwners() const {
  std::vector<size_t> owners;
  for (const KeyRange keys : keys_) {
    owners.push_back(static_cast<size_t>(std::ranges::count_if(
        shards_, [keys](KeyRange shard) { return PartOf(keys, shard).size() > 0; })));
  }
  return owners;
}

void TrainerSteps::GoOver(std::vector<KeyRange> shards) {
  shards_ = std::move(shards);
  owners_ = CountOwners();
  values_at_.reset();
  rows_.clear();
  missing_.clear();
  wants_new_rows_ = false;
}

void TrainerSteps::Add(Clock clock, TrainerStep step) {
  if (clock < forgotten_) return;
  const auto [place, is_new] = steps_.try_emplace(clock);
  if (is_new) place->second = std::move(step);
}

void TrainerSteps::TakeValues(Clock clock, std::span<const float> values,
                              const std::vector<std::span<const uint32_t>>& put) {
  values_at_ = clock;
  rows_.clear();
  missing_.clear();
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

void TrainerSteps::ReadRows(std::span<const EmbeddingId> ids) {
  MILLRACE_CHECK(values_at_.has_value());
  for (const EmbeddingId id : ids) {
    MILLRACE_CHECK(TableOf(id) < tables_.size());
    if (!rows_.contains(id)) missing_.insert(id);
  }
}

bool TrainerSteps::HasRows(std::span<const EmbeddingId> ids) const {
  return std::ranges::all_of(ids, [this](EmbeddingId id) { return rows_.contains(id); });
}

void TrainerSteps::TakeRows(std::span<const float> values, size_t width) {
  MILLRACE_CHECK(values.size() == missing_.size() * width);
  const float* row = values.data();
  for (const EmbeddingId id : missing_) {
    rows_.emplace(id, std::vector<float>(row, row + tables_[TableOf(id)].width));
    row += width;
  }
  missing_.clear();
}

void TrainerSteps::Cut(const TrainerStep& step, ShardId shard, Gradient::Update& update) const {
  CutParts(step.put, keys_, shards_[shard], *update.mutable_put());
  CutParts(step.part, keys_, shards_[shard], *update.mutable_part());
  CutRows(step, shard, update);
}

void TrainerSteps::CutRows(const TrainerStep& step, ShardId shard, Gradient::Update& update) const {
  const auto shards = static_cast<uint32_t>(shards_.size());
  update.clear_table();
  update.clear_embeddings();
  update.clear_wanted();
  for (const auto& [id, sums] : step.table_rows) {
    const NamedTable& table = tables_.at(TableOf(id));
    MILLRACE_CHECK(sums.size() == table.width);
    const bool is_new =
        update.table().empty() || *update.table().rbegin() != table.parameter;  // (they ascend)
    if (is_new) update.add_table(table.parameter);
    if (ShardOfEmbedding(id, shards) != shard) continue;
    update.mutable_embeddings()->add_id(id);
    update.mutable_embeddings()->mutable_value()->Add(sums.begin(), sums.end());
  }
  for (const EmbeddingId id : step.wanted) {
    if (ShardOfEmbedding(id, shards) == shard) update.add_wanted(id);
  }
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
