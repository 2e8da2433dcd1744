#include "topics/row_batch.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "base/check.h"
#include "topics/slice_codec.h"

namespace millrace {
namespace {

constexpr float kMostFloat = std::numeric_limits<float>::max();

Status Bad(const std::string& reason) { return absl::InvalidArgumentError(reason); }

bool IsFloat(double value) {
  if (std::isnan(value)) return true;
  return std::abs(value) <= kMostFloat && static_cast<float>(value) == value;
}

void Narrow(RowBatch::Numeric& column) {
  if (!std::all_of(column.wide().begin(), column.wide().end(), IsFloat)) return;
  column.mutable_narrow()->Reserve(column.wide_size());
  for (const double value : column.wide()) {
    column.mutable_narrow()->AddAlreadyReserved(static_cast<float>(value));
  }
  column.clear_wide();
}

// Drops a column that says of every row what a missing one says.
template <typename T>
void DropIfAll(T value, google::protobuf::RepeatedField<T>& column) {
  if (std::ranges::all_of(column, [value](T other) { return other == value; })) column.Clear();
}

// From row by row to column by column.
void Transpose(size_t rows, google::protobuf::RepeatedField<uint64_t>& ids) {
  const size_t columns = static_cast<size_t>(ids.size()) / rows;
  if (rows < 2 || columns < 2) return;
  const std::vector<uint64_t> by_row(ids.begin(), ids.end());
  uint64_t* to = ids.mutable_data();
  for (size_t column = 0; column < columns; ++column) {
    for (size_t row = 0; row < rows; ++row) *to++ = by_row[row * columns + column];
  }
}

// Whether each is larger than the one before, and the first at least `least`; without branches.
bool Ascend(const std::vector<uint32_t>& index, size_t least) {
  int wrong = !index.empty() && index.front() < least;
  for (size_t i = 1; i < index.size(); ++i) wrong |= index[i] <= index[i - 1];
  return wrong == 0;
}

Status OutOfOrder(const Row& row, const RowShape& shape) {
  int64_t previous = static_cast<int64_t>(shape.numeric) - 1;
  for (const uint32_t index : row.index) {
    if (index <= previous) return Bad("feature " + std::to_string(index) + " out of order");
    previous = index;
  }
  MILLRACE_CHECK(false);
}

Status CheckRow(const Row& row, const RowShape& shape) {
  if (row.label >= std::max<size_t>(shape.classes, 1)) {
    return Bad("class id " + std::to_string(row.label));
  }
  if (!Ascend(row.index, shape.numeric)) return OutOfOrder(row, shape);
  if (!row.index.empty() && row.index.back() >= shape.features) {
    return Bad("feature " + std::to_string(row.index.back()) + ", but the job has only " +
               std::to_string(shape.features));
  }
  if (!std::isfinite(row.target)) return Bad("a target that is not finite");
  if (!AllWithin(row.value, kMostFloat)) return Bad("a value that is not finite");
  if (std::ranges::any_of(row.numeric, [](double value) { return std::isinf(value); })) {
    return Bad("an infinite number");
  }
  return absl::OkStatus();
}

// At least what a row adds to a record.
size_t ValueBytes(const Row& row) {
  constexpr size_t kLabelTargetAndCount = 16;
  return kLabelTargetAndCount + row.numeric.size() * sizeof(double) +
         row.index.size() * (sizeof(uint32_t) + sizeof(float)) +
         row.ids.size() * sizeof(EmbeddingId);
}

// `size` values where there must be `rows`, or none.
bool IsColumn(int size, uint32_t rows) { return size == 0 || static_cast<uint32_t>(size) == rows; }

Status CheckNumeric(const RowBatch& batch, const RowShape& shape) {
  if (static_cast<size_t>(batch.numeric_size()) != shape.numeric) {
    return Bad(std::to_string(batch.numeric_size()) + " numeric columns, but the job has " +
               std::to_string(shape.numeric));
  }
  for (const RowBatch::Numeric& column : batch.numeric()) {
    const auto wide = static_cast<size_t>(column.wide_size());
    const auto narrow = static_cast<size_t>(column.narrow_size());
    if (std::max(wide, narrow) != batch.row_count() || std::min(wide, narrow) != 0) {
      return Bad("a numeric column that has not one value for each row");
    }
  }
  return absl::OkStatus();
}

Status CheckFeatures(const RowBatch& batch) {
  uint64_t features = 0;
  for (const uint32_t count : batch.feature_count()) features += count;
  if (!IsColumn(batch.feature_count_size(), batch.row_count()) ||
      features != static_cast<uint64_t>(batch.index_size())) {
    return Bad("not as many features as the rows are said to have");
  }
  if (batch.value_size() != 0 && batch.value_size() != batch.index_size()) {
    return Bad("not as many feature values as feature indices");
  }
  return absl::OkStatus();
}

}  // namespace

size_t EncodedBytesOf(const Row& row) {
  // Beside the values: the record's own fields, and those of each numeric column.
  constexpr size_t kRecord = 96;
  constexpr size_t kColumn = 16;
  return kRecord + row.numeric.size() * kColumn + ValueBytes(row);
}

bool RowBatchEncoder::Takes(const Row& row) const {
  if (rows_ == 0) return true;
  return !full() && row.replayed == record_.rows().replayed() &&
         bytes_ + ValueBytes(row) <= kFullBatchBytes;
}

void RowBatchEncoder::Add(const Row& row) {
  RowBatch& batch = *record_.mutable_rows();
  if (rows_ == 0) {
    for (size_t i = 0; i < row.numeric.size(); ++i) batch.add_numeric();
  }
  MILLRACE_CHECK(static_cast<size_t>(batch.numeric_size()) == row.numeric.size());
  ++rows_;
  bytes_ += ValueBytes(row);
  batch.set_replayed(row.replayed);
  batch.add_label(row.label);
  batch.add_target(row.target);
  for (size_t i = 0; i < row.numeric.size(); ++i) {
    batch.mutable_numeric(static_cast<int>(i))->add_wide(row.numeric[i]);
  }
  batch.add_feature_count(static_cast<uint32_t>(row.index.size()));
  batch.mutable_index()->Add(row.index.begin(), row.index.end());
  batch.mutable_value()->Add(row.value.begin(), row.value.end());
  batch.mutable_id()->Add(row.ids.begin(), row.ids.end());
}

void RowBatchEncoder::Finish(std::string& bytes) {
  MILLRACE_CHECK(rows_ > 0);
  RowBatch& batch = *record_.mutable_rows();
  batch.set_format(kRowBatchFormat);
  batch.set_row_count(rows_);
  for (RowBatch::Numeric& column : *batch.mutable_numeric()) Narrow(column);
  DropIfAll(0U, *batch.mutable_label());
  DropIfAll(0.0F, *batch.mutable_target());
  DropIfAll(0U, *batch.mutable_feature_count());
  if (batch.value_size() == batch.index_size()) DropIfAll(1.0F, *batch.mutable_value());
  Transpose(rows_, *batch.mutable_id());
  record_.AppendToString(&bytes);
  record_.Clear();
  rows_ = 0;
  bytes_ = 0;
}

Status CheckRowBatch(const RowBatch& batch, const RowShape& shape) {
  if (batch.format() != kRowBatchFormat) {
    return Bad("rows in format " + std::to_string(batch.format()) + ", but this program reads " +
               std::to_string(kRowBatchFormat));
  }
  const uint32_t rows = batch.row_count();
  if (rows == 0 || rows > kMostBatchRows) {
    return Bad(std::to_string(rows) + " rows in a record, which has 1 to " +
               std::to_string(kMostBatchRows));
  }
  MILLRACE_RETURN_IF_ERROR(CheckNumeric(batch, shape));
  MILLRACE_RETURN_IF_ERROR(CheckFeatures(batch));
  if (static_cast<size_t>(batch.id_size()) != rows * shape.ids) {
    return Bad(std::to_string(batch.id_size()) + " ids of " + std::to_string(rows) +
               " rows, but the job has " + std::to_string(shape.ids) + " id columns");
  }
  if (!IsColumn(batch.label_size(), rows) || !IsColumn(batch.target_size(), rows) ||
      !IsColumn(batch.event_time_ms_size(), rows) ||
      !IsColumn(batch.source_partition_size(), rows) ||
      batch.source_offset_size() != batch.source_partition_size()) {
    return Bad("a column that has not one value for each row");
  }
  return absl::OkStatus();
}

void RowBatchReader::Begin(const RowBatch& batch, const RowShape& shape) {
  batch_ = &batch;
  shape_ = shape;
  next_ = 0;
  next_feature_ = 0;
  numeric_.clear();
  for (const RowBatch::Numeric& column : batch.numeric()) {
    const bool is_wide = column.wide_size() > 0;
    numeric_.push_back(
        {is_wide ? column.wide().data() : nullptr, is_wide ? nullptr : column.narrow().data()});
  }
}

size_t RowBatchReader::FeaturesOf(uint32_t row) const {
  return batch_->feature_count().empty() ? 0 : batch_->feature_count(static_cast<int>(row));
}

void RowBatchReader::Skip(uint32_t rows) {
  for (; rows > 0; --rows) {
    MILLRACE_CHECK(next_ < batch_->row_count());
    next_feature_ += FeaturesOf(next_++);
  }
}

Status RowBatchReader::Next(Row& row) {
  MILLRACE_CHECK(next_ < batch_->row_count());
  const auto i = static_cast<int>(next_);
  row.label = batch_->label().empty() ? 0 : batch_->label(i);
  row.target = batch_->target().empty() ? 0 : batch_->target(i);
  row.replayed = batch_->replayed();
  row.numeric.resize(numeric_.size());
  for (size_t column = 0; column < numeric_.size(); ++column) {
    const auto& [wide, narrow] = numeric_[column];
    row.numeric[column] = wide != nullptr ? wide[next_] : narrow[next_];
  }
  const size_t features = FeaturesOf(next_);
  const uint32_t* const index = batch_->index().data() + next_feature_;
  row.index.assign(index, index + features);
  if (batch_->value().empty()) {
    row.value.assign(features, 1.0F);
  } else {
    const float* const value = batch_->value().data() + next_feature_;
    row.value.assign(value, value + features);
  }
  row.ids.resize(shape_.ids);
  for (size_t column = 0; column < shape_.ids; ++column) {
    row.ids[column] =
        EmbeddingId(batch_->id(static_cast<int>(column * batch_->row_count() + next_)));
  }
  ++next_;
  next_feature_ += features;
  return CheckRow(row, shape_);
}

int64_t RowBatchReader::TimeOfNext(int64_t record_time_ms) const {
  MILLRACE_CHECK(next_ < batch_->row_count());
  return batch_->event_time_ms().empty() ? record_time_ms
                                         : batch_->event_time_ms(static_cast<int>(next_));
}

}  // namespace millrace
