#include "topics/slice_codec.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "base/check.h"
#include "topics/partitioning.h"

namespace millrace {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;

Status BadSlice(const std::string& reason) { return absl::InvalidArgumentError(reason); }

// NaN compares as false. No branch in the loop, so that it takes many values at once.
template <typename Values>
bool Within(const Values& values, float limit) {
  int beyond = 0;
  for (const float value : values) beyond |= !(std::abs(value) <= limit);
  return beyond == 0;
}

void AppendVarint(size_t value, std::string& bytes) {
  std::array<uint8_t, 10> buffer{};
  const uint8_t* const end = CodedOutputStream::WriteVarint64ToArray(value, buffer.data());
  bytes.append(reinterpret_cast<const char*>(buffer.data()),
               static_cast<size_t>(end - buffer.data()));
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

// A field that is a slice of a dense range, up to its values.
std::string DenseSliceFieldHead(int field, KeyRange range) {
  const size_t value_bytes = range.size() * sizeof(float);
  Slice begin_and_end;
  begin_and_end.set_begin(range.begin);
  begin_and_end.set_end(range.end);
  std::string slice = begin_and_end.SerializeAsString();
  AppendFieldHead(Slice::kDenseFieldNumber, value_bytes, slice);
  std::string head;
  AppendFieldHead(field, slice.size() + value_bytes, head);
  head.append(slice);
  return head;
}

}  // namespace

Status CheckSlice(const Slice& slice, KeyRange range) {
  if (slice.begin() != range.begin || slice.end() != range.end) {
    return BadSlice("keys [" + std::to_string(slice.begin()) + ", " + std::to_string(slice.end()) +
                    "), but this shard owns [" + std::to_string(range.begin) + ", " +
                    std::to_string(range.end) + ")");
  }
  if (slice.dense_size() != 0 && static_cast<size_t>(slice.dense_size()) != range.size()) {
    return BadSlice(std::to_string(slice.dense_size()) + " values for " +
                    std::to_string(range.size()) + " keys: a dense slice has one for each");
  }
  if (slice.sparse_index_size() != slice.sparse_value_size() ||
      (slice.dense_size() != 0 && slice.sparse_index_size() != 0)) {
    return BadSlice("a slice neither dense (values only) nor sparse (as many values as indexes)");
  }
  int64_t previous = -1;
  for (uint32_t index : slice.sparse_index()) {
    if (index <= previous) return BadSlice("sparse keys out of order");
    previous = index;
  }
  if (previous >= static_cast<int64_t>(range.size())) {
    return BadSlice("sparse key " + std::to_string(previous) + " outside the range");
  }
  return absl::OkStatus();
}

Status CheckIds(const google::protobuf::RepeatedField<uint64_t>& ids, ShardId shard,
                uint32_t shards) {
  for (int i = 0; i < ids.size(); ++i) {
    if (i > 0 && ids[i] <= ids[i - 1]) return BadSlice("embedding ids out of order");
    if (ShardOfEmbedding(ids[i], shards) != shard) {
      return BadSlice("embedding " + std::to_string(ids[i]) + " belongs to another shard");
    }
  }
  return absl::OkStatus();
}

Status CheckEmbeddings(const EmbeddingBlock& block, size_t width, ShardId shard, uint32_t shards) {
  MILLRACE_RETURN_IF_ERROR(CheckIds(block.id(), shard, shards));
  if (static_cast<size_t>(block.value_size()) != static_cast<size_t>(block.id_size()) * width) {
    return BadSlice(std::to_string(block.value_size()) + " values of " +
                    std::to_string(block.id_size()) + " embedding rows, but a row has " +
                    std::to_string(width));
  }
  return absl::OkStatus();
}

bool AllWithin(std::span<const float> values, float limit) { return Within(values, limit); }

bool AllWithin(const EmbeddingBlock& block, float limit) { return Within(block.value(), limit); }

bool AllWithin(const Slice& slice, float limit) {
  return Within(slice.dense(), limit) && Within(slice.sparse_value(), limit);
}

bool AppendWithin(std::span<const float> values, float limit, std::vector<float>& to) {
  constexpr size_t kBlock = 4096;  // stays in a core's cache
  to.reserve(to.size() + values.size());
  while (!values.empty()) {
    const std::span<const float> block = values.first(std::min(kBlock, values.size()));
    if (!Within(block, limit)) return false;
    to.insert(to.end(), block.begin(), block.end());
    values = values.subspan(block.size());
  }
  return true;
}

bool AreFinite(std::span<const float> values, float scale) {
  constexpr float kMost = std::numeric_limits<float>::max();
  int beyond = 0;
  for (const float value : values) {
    beyond |= !(std::abs(value) <= kMost);
    beyond |= !(std::abs(value * scale) <= kMost);
  }
  return beyond == 0;
}

void EncodeDenseSlice(std::span<const float> values, KeyRange range, Slice& slice) {
  MILLRACE_CHECK(values.size() == range.size());
  slice.Clear();
  slice.set_begin(range.begin);
  slice.set_end(range.end);
  slice.mutable_dense()->Add(values.begin(), values.end());
}

void AppendFieldHead(int field, size_t size, std::string& bytes) {
  AppendVarint(WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED), bytes);
  AppendVarint(size, bytes);
}

size_t DenseSliceFieldBytes(int field, KeyRange range) {
  return DenseSliceFieldHead(field, range).size() + range.size() * sizeof(float);
}

void AppendDenseSlice(int field, std::span<const float> values, KeyRange range,
                      std::string& bytes) {
  MILLRACE_CHECK(values.size() == range.size());
  // On the wire, a packed float is four bytes, the lowest first.
  static_assert(std::endian::native == std::endian::little);
  bytes.append(DenseSliceFieldHead(field, range));
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

void AppendDenseSlice(int field, std::span<const float> values, KeyRange range,
                      MessageBytes& bytes) {
  MILLRACE_CHECK(values.size() == range.size());
  bytes.Append(DenseSliceFieldHead(field, range));
  bytes.AppendView(values);
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
  const auto begin = std::ranges::lower_bound(keys, range.begin);
  const auto end = std::ranges::lower_bound(keys, range.end);
  MILLRACE_CHECK(begin <= end);
  // (Those of this range: a shard each looks at its own.)
  MILLRACE_CHECK(std::adjacent_find(begin, end, std::greater_equal<>()) == end);
  MILLRACE_CHECK(begin == end || (*begin >= range.begin && *(end - 1) < range.end));
  const auto first = begin - keys.begin();
  const auto last = end - keys.begin();
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
    MILLRACE_CHECK(static_cast<size_t>(slice.dense_size()) == target.size());
    const float* values = slice.dense().data();
    for (size_t i = 0; i < target.size(); ++i) target[i] += factor * values[i];
    return;
  }
  MILLRACE_CHECK(slice.sparse_index_size() == slice.sparse_value_size());
  // The largest is the last.
  MILLRACE_CHECK(slice.sparse_index_size() == 0 || *slice.sparse_index().rbegin() < target.size());
  for (int i = 0; i < slice.sparse_index_size(); ++i) {
    target[slice.sparse_index(i)] += factor * slice.sparse_value(i);
  }
}

}  // namespace millrace
