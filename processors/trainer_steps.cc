#include "processors/trainer_steps.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "topics/parameter_layout.h"
#include "topics/partitioning.h"

namespace millrace {
TrainerSteps::TrainerSteps(std::vector<KeyRange> keys, std::vector<NamedTable> tables,
                           std::vector<KeyRange> shards)
    : keys_(std::move(keys)),
      tables_(std::move(tables)),
      row_width_(WidestRow(tables_)),
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
  ForgetRows();
  missing_.clear();
  wants_new_rows_ = false;
}

void TrainerSteps::Add(Clock clock, TrainerStep step) {
  if (clock < forgotten_) return;
  if (steps_.contains(clock)) return;
  steps_.emplace(clock, std::make_shared<const TrainerStep>(std::move(step)));
}

void TrainerSteps::TakeValues(Clock clock, std::vector<std::shared_ptr<const Slice>> values,
                              const std::vector<std::span<const uint32_t>>& put) {
  values_at_ = clock;
  ForgetRows();
  missing_.clear();
  values_ = std::move(values);
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

void TrainerSteps::CopyValues(KeyRange keys, std::span<float> to) const {
  MILLRACE_CHECK(to.size() == keys.size());
  size_t copied = 0;
  for (const std::shared_ptr<const Slice>& slice : values_) {
    const KeyRange part = PartOf(keys, {slice->begin(), slice->end()});
    if (part.size() == 0) continue;
    std::copy_n(slice->dense().data() + (part.begin - slice->begin()), part.size(),
                to.data() + (part.begin - keys.begin));
    copied += part.size();
  }
  MILLRACE_CHECK(copied == keys.size());
}

std::vector<float> TrainerSteps::values() const {
  std::vector<float> values(keys_.empty() ? 0 : keys_.back().end);
  CopyValues({0, values.size()}, values);
  return values;
}

void TrainerSteps::ReadRows(std::span<const EmbeddingId> ids) {
  MILLRACE_CHECK(values_at_.has_value());
  MILLRACE_CHECK(std::ranges::adjacent_find(ids, std::greater_equal<>()) == ids.end());
  MILLRACE_CHECK(ids.empty() || TableOf(ids.back()) < tables_.size());
  std::vector<EmbeddingId> fresh;
  fresh.reserve(ids.size());
  std::ranges::set_difference(ids, row_ids_, std::back_inserter(fresh));
  if (missing_.empty()) {
    missing_ = std::move(fresh);
    return;
  }
  std::vector<EmbeddingId> all;
  std::ranges::set_union(missing_, fresh, std::back_inserter(all));
  missing_ = std::move(all);
}

bool TrainerSteps::HasRows(std::span<const EmbeddingId> ids) const {
  return std::ranges::includes(row_ids_, ids);
}

std::span<const float> TrainerSteps::ValuesOf(EmbeddingId id) const {
  const auto found = std::ranges::lower_bound(row_ids_, id);
  MILLRACE_CHECK(found != row_ids_.end() && *found == id);
  const auto place = static_cast<size_t>(found - row_ids_.begin());
  return std::span(row_values_).subspan(place * row_width_, tables_[TableOf(id)].width);
}

std::span<const float> TrainerSteps::Rows(std::span<const EmbeddingId> ids,
                                          std::vector<float>& scratch) const {
  if (std::ranges::equal(ids, row_ids_)) return row_values_;
  scratch.clear();
  scratch.reserve(ids.size() * row_width_);
  size_t place = 0;
  for (const EmbeddingId id : ids) {
    while (place < row_ids_.size() && row_ids_[place] != id) ++place;
    MILLRACE_CHECK(place < row_ids_.size());
    const float* const row = row_values_.data() + place * row_width_;
    scratch.insert(scratch.end(), row, row + row_width_);
  }
  return scratch;
}

void TrainerSteps::TakeRows(std::vector<float>& values) {
  MILLRACE_CHECK(values.size() == missing_.size() * row_width_);
  if (row_ids_.empty()) {
    row_ids_.swap(missing_);
    row_values_.swap(values);
    return;
  }
  std::vector<EmbeddingId> ids;
  std::vector<float> rows;
  rows.reserve(row_values_.size() + values.size());
  const float* old = row_values_.data();
  const float* fresh = values.data();
  for (size_t i = 0, k = 0; i < row_ids_.size() || k < missing_.size();) {
    const bool is_old = k == missing_.size() || (i < row_ids_.size() && row_ids_[i] < missing_[k]);
    ids.push_back(is_old ? row_ids_[i++] : missing_[k++]);
    const float*& row = is_old ? old : fresh;
    rows.insert(rows.end(), row, row + row_width_);
    row += row_width_;
  }
  row_ids_ = std::move(ids);
  row_values_ = std::move(rows);
  missing_.clear();
}

std::vector<PartView> TrainerSteps::Cut(const std::map<uint32_t, std::vector<float>>& values,
                                        ShardId shard) const {
  std::vector<PartView> parts;
  for (const auto& [number, all] : values) {
    const KeyRange parameter = keys_.at(number);
    MILLRACE_CHECK(all.size() == parameter.size());
    const KeyRange part = PartOf(parameter, shards_[shard]);
    if (part.size() == 0) continue;
    parts.push_back({number, std::span(all).subspan(part.begin - parameter.begin, part.size())});
  }
  return parts;
}

TableRowsView TrainerSteps::CutRows(const TrainerStep& step, ShardId shard,
                                    StepRows& scratch) const {
  const StepRows& rows = step.table_rows;
  const auto shards = static_cast<uint32_t>(shards_.size());
  if (shards == 1) return {rows.ids, rows.values};
  scratch.ids.clear();
  scratch.values.clear();
  scratch.ids.reserve(rows.ids.size() / shards);  // about as many as it will be
  scratch.values.reserve(rows.values.size() / shards);
  const float* sums = rows.values.data();
  for (const EmbeddingId id : rows.ids) {
    const size_t width = tables_.at(TableOf(id)).width;
    const float* const row = std::exchange(sums, sums + width);
    if (ShardOfEmbedding(id, shards) != shard) continue;
    scratch.ids.push_back(id);
    scratch.values.insert(scratch.values.end(), row, row + width);
  }
  MILLRACE_CHECK(sums == rows.values.data() + rows.values.size());
  return {scratch.ids, scratch.values};
}

void TrainerSteps::NameRows(const TrainerStep& step, ShardId shard,
                            Gradient::Update& update) const {
  update.clear_table();
  for (const EmbeddingId id : step.table_rows.ids) {
    const uint32_t table = tables_.at(TableOf(id)).parameter;
    const bool is_new = update.table().empty() || *update.table().rbegin() != table;
    if (is_new) update.add_table(table);  // (they ascend)
  }
  update.clear_wanted();
  const auto shards = static_cast<uint32_t>(shards_.size());
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
