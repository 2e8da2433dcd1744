#include "stores/parameter_shard.h"

#include <algorithm>

#include "base/big_endian.h"
#include "base/check.h"
#include "messages/records.pb.h"
#include "topics/frame.h"
#include "topics/message_codec.h"

namespace millrace {
namespace {

constexpr char kBlockPrefix = 'p';

}  // namespace

ParameterShard::ParameterShard(KeyRange range, size_t slot_count, bool keeps_previous_round,
                               std::vector<float> initial)
    : range_(range),
      slot_count_(slot_count),
      weights_(std::move(initial)),
      slots_(range.size() * slot_count),
      previous_round_(keeps_previous_round ? range.size() : 0),
      is_updated_((range.size() + kBlockKeys - 1) / kBlockKeys) {
  if (weights_.empty()) weights_.resize(range.size());
  MILLRACE_CHECK(weights_.size() == range.size());
}

void ParameterShard::KeepPreviousRound() {
  MILLRACE_CHECK(previous_round_.size() == weights_.size());
  previous_round_ = weights_;
  MarkAllUpdated();
}

size_t ParameterShard::BlockEnd(size_t block) const {
  return std::min<size_t>(range_.size(), (block + 1) * kBlockKeys);
}

std::vector<size_t> ParameterShard::TakeUpdated() {
  std::vector<size_t> blocks;
  for (size_t block = 0; block < is_updated_.size(); ++block) {
    if (is_updated_[block]) blocks.push_back(block);
  }
  is_updated_.assign(is_updated_.size(), 0);
  updated_blocks_ = 0;
  return blocks;
}

ParameterShard::Encoded ParameterShard::EncodeBlock(size_t block) const {
  const size_t begin = BlockBegin(block);
  const size_t end = BlockEnd(block);
  ParameterBlock message;
  message.set_begin(range_.begin + begin);
  message.mutable_weights()->Add(weights_.begin() + begin, weights_.begin() + end);
  for (size_t slot = 0; slot < slot_count_; ++slot) {
    const auto first = slots_.begin() + static_cast<ptrdiff_t>(slot * range_.size());
    message.mutable_slots()->Add(first + begin, first + end);
  }
  if (!previous_round_.empty()) {
    message.mutable_previous_round()->Add(previous_round_.begin() + static_cast<ptrdiff_t>(begin),
                                          previous_round_.begin() + static_cast<ptrdiff_t>(end));
  }
  return {kBlockPrefix + EncodeBigEndian64(range_.begin + begin),
          std::move(MakeFrames(message.SerializeAsString(), 0).front())};
}

Status ParameterShard::ScanBlocks(
    const OrderedByteMap& store,
    const std::function<bool(std::string_view key, std::string_view value)>& visit) {
  const auto only_blocks = [&](std::string_view key, std::string_view value) {
    return !IsBlockKey(key) || visit(key, value);
  };
  return store.Scan(std::string(1, kBlockPrefix), std::string(1, kBlockPrefix + 1), only_blocks);
}

bool ParameterShard::IsBlockKey(std::string_view key) {
  return key.size() == 9 && key.front() == kBlockPrefix;
}

Status ParameterShard::DecodeBlock(std::string_view key, std::string_view value,
                                   const BlockShape& shape, ParameterBlock& block) {
  const StatusOr<Frame> frame = ParseFrame(value);
  block.Clear();
  if (!frame.ok() || frame->is_chunk || !ParseMessage(frame->body, block).ok()) {
    return absl::DataLossError("a parameter block cannot be decoded");
  }
  const KeyRange range = shape.range;
  const uint64_t begin = block.begin();
  const bool in_range = begin >= range.begin && begin < range.end &&
                        (begin - range.begin) % kBlockKeys == 0 &&
                        DecodeBigEndian64(key.substr(1)) == begin;
  const size_t size = in_range ? std::min(kBlockKeys, range.end - begin) : 0;
  if (!in_range || static_cast<size_t>(block.weights_size()) != size ||
      static_cast<size_t>(block.slots_size()) != size * shape.slot_count ||
      static_cast<size_t>(block.previous_round_size()) != (shape.has_previous_round ? size : 0)) {
    return absl::DataLossError("a parameter block at key " + std::to_string(begin) +
                               " does not fit this shard's keys [" + std::to_string(range.begin) +
                               ", " + std::to_string(range.end) +
                               "): it was written by a job with other settings");
  }
  return absl::OkStatus();
}

Status ParameterShard::LoadBlock(std::string_view key, std::string_view value) {
  ParameterBlock message;
  MILLRACE_RETURN_IF_ERROR(
      DecodeBlock(key, value, {range_, slot_count_, !previous_round_.empty()}, message));
  const size_t block = (message.begin() - range_.begin) / kBlockKeys;
  const auto size = static_cast<size_t>(message.weights_size());
  std::copy(message.weights().begin(), message.weights().end(),
            weights_.begin() + static_cast<ptrdiff_t>(BlockBegin(block)));
  std::copy(message.previous_round().begin(), message.previous_round().end(),
            previous_round_.begin() +
                static_cast<ptrdiff_t>(previous_round_.empty() ? 0 : BlockBegin(block)));
  for (size_t slot = 0; slot < slot_count_; ++slot) {
    std::copy_n(message.slots().begin() + static_cast<ptrdiff_t>(slot * size), size,
                slots_.begin() + static_cast<ptrdiff_t>(slot * range_.size() + BlockBegin(block)));
  }
  return absl::OkStatus();
}

}  // namespace millrace
