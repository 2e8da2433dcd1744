// A gradient summed over rows: dense storage, and the list of the features it touches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace millrace {

// Parameters come in blocks (a feature's weights, one per class). Clearing costs only what was
// touched, so that a batch of sparse rows never pays for the whole model. Not thread-safe.
class GradientSum {
 public:
  // REQUIRES: block_size divides parameter_count
  GradientSum(size_t parameter_count, size_t block_size);

  // The block's sums, to be added to.
  float* Block(size_t block) {
    Touch(static_cast<uint32_t>(block));
    return values_.data() + block * block_size_;
  }

  // Marks blocks as added to; mutable_values() then gives the sums. For loops that would otherwise
  // pay for the bookkeeping between two additions.
  void TouchAll(std::span<const uint32_t> blocks);
  void TouchRange(uint32_t begin, uint32_t end);
  float* mutable_values() { return values_.data(); }

  void Clear();

  // Ascending; valid until the next change.
  std::span<const uint32_t> SortedBlocks();

  std::span<const float> values() const { return values_; }
  size_t block_size() const { return block_size_; }

 private:
  // Whether a block is new is a coin toss in a batch of sparse rows, so there is no branch on it:
  // the list always takes the block, but keeps it only if it is new (hence one place to spare).
  void Touch(uint32_t block) {
    touched_[touched_count_] = block;
    touched_count_ += 1u - is_touched_[block];
    is_touched_[block] = 1;
  }
  size_t block_count() const { return is_touched_.size(); }

  size_t block_size_;
  std::vector<float> values_;
  std::vector<uint8_t> is_touched_;
  std::vector<uint32_t> touched_;  // block_count() + 1 places, of which touched_count_ are in use
  size_t touched_count_ = 0;
};

}  // namespace millrace
