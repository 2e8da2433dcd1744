#include "topics/codec.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "topics/frame.h"
#include "topics/partitioning.h"

namespace millrace {
namespace {

std::string EncodeInput(const InputRecord& record) {
  std::string frame = WholeFrameHeader();
  record.AppendToString(&frame);
  return frame;
}

Status Invalid(const std::string& reason) { return absl::InvalidArgumentError(reason); }

// NaN compares as false. No branch in the loop, so that it takes many values at once.
template <typename Values>
bool Within(const Values& values, float limit) {
  int beyond = 0;
  for (const float value : values) beyond |= !(std::abs(value) <= limit);
  return beyond == 0;
}

// Whether each is larger than the one before, and the first at least `least`; without branches.
bool Ascend(const google::protobuf::RepeatedField<uint32_t>& indices, size_t least) {
  const uint32_t* const index = indices.data();
  const int size = indices.size();
  int wrong = size > 0 && index[0] < least;
  for (int i = 1; i < size; ++i) wrong |= index[i] <= index[i - 1];
  return wrong == 0;
}

Status OutOfOrder(const TrainingRow& row, const RowShape& shape) {
  int64_t previous = static_cast<int64_t>(shape.numeric) - 1;
  for (uint32_t index : row.index()) {
    if (index <= previous) return Invalid("feature " + std::to_string(index) + " out of order");
    previous = index;
  }
  MILLRACE_CHECK(false);
}

Status CheckRow(const TrainingRow& row, const RowShape& shape) {
  if (row.label() >= std::max<size_t>(shape.classes, 1))
    return Invalid("class id " + std::to_string(row.label()));
  if (static_cast<size_t>(row.numeric_size()) != shape.numeric) {
    return Invalid(std::to_string(row.numeric_size()) + " numeric values where the job has " +
                   std::to_string(shape.numeric));
  }
  if (row.index_size() != row.value_size()) return Invalid("as many indices as values expected");
  if (!Ascend(row.index(), shape.numeric)) return OutOfOrder(row, shape);
  if (!row.index().empty() && *row.index().rbegin() >= shape.features) {
    return Invalid("feature " + std::to_string(*row.index().rbegin()) + " where the job has " +
                   std::to_string(shape.features));
  }
  if (static_cast<size_t>(row.id_size()) != shape.ids) {
    return Invalid(std::to_string(row.id_size()) + " ids where the job has " +
                   std::to_string(shape.ids));
  }
  if (!std::isfinite(row.target())) return Invalid("a target that is not finite");
  if (!Within(row.value(), std::numeric_limits<float>::max()))
    return Invalid("a value that is not finite");
  for (double value : row.numeric()) {
    if (std::isinf(value)) return Invalid("an infinite number");
  }
  return absl::OkStatus();
}

}  // namespace

RowShape RowShapeFrom(const JobFeatures& features) {
  RowShape shape;
  shape.numeric = static_cast<size_t>(features.spec().numeric_size());
  shape.features = features.feature_count();
  shape.classes = static_cast<size_t>(features.spec().classes_size());
  shape.ids = static_cast<size_t>(features.spec().ids_size());
  return shape;
}

std::string EncodeRow(const Row& row) {
  thread_local InputRecord record;  // keeps its memory from row to row
  record.Clear();
  TrainingRow& message = *record.mutable_row();
  message.set_label(row.label);
  message.mutable_numeric()->Add(row.numeric.begin(), row.numeric.end());
  message.mutable_index()->Add(row.index.begin(), row.index.end());
  message.mutable_value()->Add(row.value.begin(), row.value.end());
  message.set_replayed(row.replayed);
  message.mutable_id()->Add(row.ids.begin(), row.ids.end());
  message.set_target(row.target);
  return EncodeInput(record);
}

std::string EncodeEnd(RowNumber row_count) {
  InputRecord record;
  record.mutable_end()->set_row_count(row_count);
  return EncodeInput(record);
}

Status DecodeInput(std::string_view value, const RowShape& shape, InputRecord& record) {
  MILLRACE_ASSIGN_OR_RETURN(const Frame frame, ParseFrame(value));
  if (frame.is_chunk) return Invalid("a chunk where a whole row is expected");
  MILLRACE_RETURN_IF_ERROR(ParseMessage(frame.body, record));
  if (record.has_row() == record.has_end()) return Invalid("neither a row nor an end");
  return record.has_row() ? CheckRow(record.row(), shape) : absl::OkStatus();
}

void ToRow(const TrainingRow& message, Row& row) {
  row.label = message.label();
  row.numeric.assign(message.numeric().begin(), message.numeric().end());
  row.index.assign(message.index().begin(), message.index().end());
  row.value.assign(message.value().begin(), message.value().end());
  row.replayed = message.replayed();
  row.ids.assign(message.id().begin(), message.id().end());
  row.target = message.target();
}

EvaluationSums FromProto(const EvaluationSumsMessage& message) {
  EvaluationSums sums;
  sums.rows = message.rows();
  sums.log_loss = message.log_loss();
  sums.squared_error = message.squared_error();
  sums.target = message.target();
  sums.squared_target = message.squared_target();
  for (int i = 0; i < message.cell_size(); ++i) {
    sums.cells[message.cell(i)] += message.cell_count(i);
  }
  for (int i = 0; i < message.score_bin_size(); ++i) {
    sums.score_bins[message.score_bin(i)] += message.score_count(i);
  }
  return sums;
}

void ToProto(const EvaluationSums& sums, EvaluationSumsMessage& message) {
  message.Clear();
  message.set_rows(sums.rows);
  message.set_log_loss(sums.log_loss);
  message.set_squared_error(sums.squared_error);
  message.set_target(sums.target);
  message.set_squared_target(sums.squared_target);
  for (const auto& [cell, count] : sums.cells) {
    message.add_cell(cell);
    message.add_cell_count(count);
  }
  for (const auto& [bin, count] : sums.score_bins) {
    message.add_score_bin(bin);
    message.add_score_count(count);
  }
}

Moments FromProto(const MomentsMessage& message) {
  Moments moments;
  moments.count.assign(message.count().begin(), message.count().end());
  moments.mean.assign(message.mean().begin(), message.mean().end());
  moments.m2.assign(message.m2().begin(), message.m2().end());
  return moments;
}

void ToProto(const Moments& moments, MomentsMessage& message) {
  message.Clear();
  message.mutable_count()->Add(moments.count.begin(), moments.count.end());
  message.mutable_mean()->Add(moments.mean.begin(), moments.mean.end());
  message.mutable_m2()->Add(moments.m2.begin(), moments.m2.end());
}

void ToProto(const EvaluationFigures& figures, Figures& message) {
  message.Clear();
  message.set_rows(figures.rows);
  message.set_accuracy(figures.accuracy);
  message.set_f1_macro(figures.f1_macro);
  message.set_f1_weighted(figures.f1_weighted);
  message.set_log_loss(figures.log_loss);
  message.set_has_auc(figures.auc.has_value());
  message.set_auc(figures.auc.value_or(0));
  message.set_prior_accuracy(figures.prior_accuracy);
  message.set_prior_log_loss(figures.prior_log_loss);
  message.set_has_rmse(figures.rmse.has_value());
  message.set_rmse(figures.rmse.value_or(0));
  message.set_prior_rmse(figures.prior_rmse);
}

Status CheckSums(const EvaluationSumsMessage& message, size_t classes) {
  if (message.cell_size() != message.cell_count_size() ||
      message.score_bin_size() != message.score_count_size()) {
    return Invalid("evaluation sums of unequal length");
  }
  for (uint32_t cell : message.cell()) {
    if (cell >= classes * classes) return Invalid("confusion cell " + std::to_string(cell));
  }
  for (uint32_t bin : message.score_bin()) {
    if (bin >= 2 * EvaluationSums::kScoreBins) return Invalid("score bin " + std::to_string(bin));
  }
  return absl::OkStatus();
}

Status CheckMoments(const MomentsMessage& message, size_t columns) {
  const auto size = static_cast<int>(columns);
  const bool empty = message.count_size() == 0;
  if ((!empty && message.count_size() != size) || message.mean_size() != message.count_size() ||
      message.m2_size() != message.count_size()) {
    return Invalid("moments of " + std::to_string(message.count_size()) +
                   " columns where the job has " + std::to_string(columns));
  }
  return absl::OkStatus();
}

Status CheckSlice(const Slice& slice, KeyRange range) {
  if (slice.begin() != range.begin || slice.end() != range.end) {
    return Invalid("keys [" + std::to_string(slice.begin()) + ", " + std::to_string(slice.end()) +
                   ") where this shard owns [" + std::to_string(range.begin) + ", " +
                   std::to_string(range.end) + ")");
  }
  if (slice.dense_size() != 0 && static_cast<size_t>(slice.dense_size()) != range.size()) {
    return Invalid(std::to_string(slice.dense_size()) + " values for " +
                   std::to_string(range.size()) + " keys");
  }
  if (slice.sparse_index_size() != slice.sparse_value_size() ||
      (slice.dense_size() != 0 && slice.sparse_index_size() != 0)) {
    return Invalid("a slice neither dense nor sparse");
  }
  int64_t previous = -1;
  for (uint32_t index : slice.sparse_index()) {
    if (index <= previous) return Invalid("sparse keys out of order");
    previous = index;
  }
  if (previous >= static_cast<int64_t>(range.size())) {
    return Invalid("sparse key " + std::to_string(previous) + " outside the range");
  }
  return absl::OkStatus();
}

Status CheckIds(const google::protobuf::RepeatedField<uint64_t>& ids, ShardId shard,
                uint32_t shards) {
  for (int i = 0; i < ids.size(); ++i) {
    if (i > 0 && ids[i] <= ids[i - 1]) return Invalid("embedding ids out of order");
    if (ShardOfEmbedding(ids[i], shards) != shard) {
      return Invalid("embedding " + std::to_string(ids[i]) + " is of another shard");
    }
  }
  return absl::OkStatus();
}

Status CheckEmbeddings(const EmbeddingBlock& block, size_t width, ShardId shard, uint32_t shards) {
  MILLRACE_RETURN_IF_ERROR(CheckIds(block.id(), shard, shards));
  if (static_cast<size_t>(block.value_size()) != static_cast<size_t>(block.id_size()) * width) {
    return Invalid(std::to_string(block.value_size()) + " values of " +
                   std::to_string(block.id_size()) + " embedding rows where a row has " +
                   std::to_string(width));
  }
  return absl::OkStatus();
}

bool AllWithin(std::span<const float> values, float limit) { return Within(values, limit); }

bool AllWithin(const EmbeddingBlock& block, float limit) { return Within(block.value(), limit); }

bool AllWithin(const Slice& slice, float limit) {
  return Within(slice.dense(), limit) && Within(slice.sparse_value(), limit);
}

void EncodeDenseSlice(std::span<const float> values, KeyRange range, Slice& slice) {
  MILLRACE_CHECK(values.size() == range.size());
  slice.Clear();
  slice.set_begin(range.begin);
  slice.set_end(range.end);
  slice.mutable_dense()->Add(values.begin(), values.end());
}

namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;

void AppendVarint(size_t value, std::string& bytes) {
  std::array<uint8_t, 10> buffer{};
  const uint8_t* const end = CodedOutputStream::WriteVarint64ToArray(value, buffer.data());
  bytes.append(reinterpret_cast<const char*>(buffer.data()),
               static_cast<size_t>(end - buffer.data()));
}

// The head of a field that is so many bytes long.
void AppendHead(int field, size_t size, std::string& bytes) {
  AppendVarint(WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED), bytes);
  AppendVarint(size, bytes);
}

// A sparse entry has its key beside it.
bool DenseIsSmaller(size_t entries, KeyRange range, size_t value_bytes) {
  return entries * (sizeof(uint32_t) + value_bytes) >= range.size() * value_bytes;
}

std::span<const uint32_t> TouchedBlocks(GradientSum& gradient, KeyRange range) {
  const size_t block = gradient.block_size();
  const std::span<const uint32_t> touched = gradient.SortedBlocks();
  const auto begin = std::lower_bound(touched.begin(), touched.end(), range.begin / block);
  const auto end = std::lower_bound(begin, touched.end(), (range.end + block - 1) / block);
  return {begin, end};
}

}  // namespace

std::string SerializeWithDenseSlice(const google::protobuf::Message& message, int field,
                                    std::span<const float> values, KeyRange range) {
  MILLRACE_CHECK(values.size() == range.size());
  // On the wire, a packed float is four bytes, the lowest first.
  static_assert(std::endian::native == std::endian::little);
  Slice begin_and_end;
  begin_and_end.set_begin(range.begin);
  begin_and_end.set_end(range.end);
  std::string slice = begin_and_end.SerializeAsString();
  AppendHead(Slice::kDenseFieldNumber, values.size_bytes(), slice);
  std::string bytes;
  bytes.reserve(message.ByteSizeLong() + slice.size() + values.size_bytes() + 32);
  message.AppendToString(&bytes);
  AppendHead(field, slice.size() + values.size_bytes(), bytes);
  bytes.append(slice);
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  return bytes;
}

// Touched blocks bound the number of sparse entries.
bool GoesDensely(GradientSum& gradient, KeyRange range, size_t value_bytes) {
  return DenseIsSmaller(TouchedBlocks(gradient, range).size() * gradient.block_size(), range,
                        value_bytes);
}

void EncodeSlice(GradientSum& gradient, KeyRange range, size_t value_bytes, Slice& slice) {
  const std::span<const float> values = gradient.values();
  if (GoesDensely(gradient, range, value_bytes)) {
    EncodeDenseSlice(values.subspan(range.begin, range.size()), range, slice);
    return;
  }
  const size_t block = gradient.block_size();
  const std::span<const uint32_t> blocks = TouchedBlocks(gradient, range);
  slice.Clear();
  slice.set_begin(range.begin);
  slice.set_end(range.end);
  for (uint32_t b : blocks) {
    const uint64_t first = std::max<uint64_t>(b * block, range.begin);
    const uint64_t last = std::min<uint64_t>((b + uint64_t{1}) * block, range.end);
    for (uint64_t key = first; key < last; ++key) {
      slice.add_sparse_index(static_cast<uint32_t>(key - range.begin));
      slice.add_sparse_value(values[key]);
    }
  }
}

void EncodeSlice(std::span<const uint64_t> keys, std::span<const float> values, KeyRange range,
                 size_t value_bytes, Slice& slice) {
  MILLRACE_CHECK(keys.size() == values.size());
  const auto first = std::ranges::lower_bound(keys, range.begin) - keys.begin();
  const auto last = std::ranges::lower_bound(keys, range.end) - keys.begin();
  slice.Clear();
  slice.set_begin(range.begin);
  slice.set_end(range.end);
  const bool dense = DenseIsSmaller(static_cast<size_t>(last - first), range, value_bytes);
  if (dense) slice.mutable_dense()->Resize(static_cast<int>(range.size()), 0.0f);
  for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(last); ++i) {
    const uint64_t place = keys[i] - range.begin;
    if (dense) {
      slice.set_dense(static_cast<int>(place), values[i]);
    } else {
      slice.add_sparse_index(static_cast<uint32_t>(place));
      slice.add_sparse_value(values[i]);
    }
  }
}

void AddSlice(const Slice& slice, float factor, std::span<float> target) {
  if (slice.dense_size() != 0) {
    const float* values = slice.dense().data();
    for (size_t i = 0; i < target.size(); ++i) target[i] += factor * values[i];
    return;
  }
  for (int i = 0; i < slice.sparse_index_size(); ++i) {
    target[slice.sparse_index(i)] += factor * slice.sparse_value(i);
  }
}

}  // namespace millrace
