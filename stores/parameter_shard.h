// A shard's weights and optimizer state, kept in memory, saved in blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "stores/ordered_byte_map.h"

namespace millrace {

class ParameterBlock;  // messages/records.proto

// What a shard's blocks hold.
struct BlockShape {
  KeyRange range;  // of the shard
  size_t slot_count = 0;
  bool has_previous_round = false;
};

// The dense parameters of keys [begin, end) and the optimizer's slots, which are initially zero. A
// block of kBlockKeys keys is the unit of saving: what was updated since the last checkpoint is
// taken by TakeUpdated, and a block's bytes (key and value of a record of `parameters` and of a
// RocksDB entry alike) come from EncodeBlock. Not thread-safe.
//
// With keeps_previous_round it also has the weights as of the last KeepPreviousRound.
class ParameterShard {
 public:
  static constexpr uint64_t kBlockKeys = 4096;

  // `initial`: the initial parameters, range.size() of them; empty: zeros. A block that was never
  // saved gets them again when the shard is loaded.
  ParameterShard(KeyRange range, size_t slot_count, bool keeps_previous_round = false,
                 std::vector<float> initial = {});

  KeyRange range() const { return range_; }
  std::span<const float> weights() const { return weights_; }
  std::span<float> mutable_weights() { return weights_; }
  std::span<const float> slots() const { return slots_; }
  std::span<float> mutable_slots() { return slots_; }  // slot s of key i: [s * range.size() + i]

  // The weights as of the last KeepPreviousRound; empty unless made with keeps_previous_round.
  std::span<const float> previous_round() const { return previous_round_; }
  // Copies the present weights to previous_round(). REQUIRES: made with keeps_previous_round.
  void KeepPreviousRound();

  size_t block_count() const { return is_updated_.size(); }
  void MarkUpdated(size_t block) {
    updated_blocks_ += is_updated_[block] == 0 ? 1 : 0;
    is_updated_[block] = 1;
  }
  void MarkAllUpdated() {
    is_updated_.assign(is_updated_.size(), 1);
    updated_blocks_ = is_updated_.size();
  }
  // The approximate size in bytes of the blocks that TakeUpdated would return.
  size_t updated_bytes() const {
    return updated_blocks_ * kBlockKeys * (1 + slot_count_) * sizeof(float);
  }
  // The blocks marked since the last call, ascending. A checkpoint that fails marks them again.
  std::vector<size_t> TakeUpdated();

  struct Encoded {
    std::string key;
    std::string value;
  };
  Encoded EncodeBlock(size_t block) const;

  // Visits the entries of a store that are blocks, in order, until `visit` returns false.
  static Status ScanBlocks(
      const OrderedByteMap& store,
      const std::function<bool(std::string_view key, std::string_view value)>& visit);
  // True when `key` is a block's.
  static bool IsBlockKey(std::string_view key);
  // Decodes a block. DataLoss when the bytes are not a block of a shard of this shape.
  static Status DecodeBlock(std::string_view key, std::string_view value, const BlockShape& shape,
                            ParameterBlock& block);
  // Takes over a block. Errors: DecodeBlock's.
  Status LoadBlock(std::string_view key, std::string_view value);

 private:
  size_t BlockBegin(size_t block) const { return block * kBlockKeys; }
  size_t BlockEnd(size_t block) const;

  KeyRange range_;
  size_t slot_count_;
  std::vector<float> weights_;
  std::vector<float> slots_;
  std::vector<float> previous_round_;  // as long as weights_, or empty
  std::vector<uint8_t> is_updated_;
  size_t updated_blocks_ = 0;
};

}  // namespace millrace
