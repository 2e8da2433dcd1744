// A gradient summed over rows: dense storage, and marks of the features it touches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace millrace {

// Parameters come in blocks (a feature's weights, one per class). Clearing costs only what was
// touched, so that a batch of sparse rows hardly pays for the whole model. Not thread-safe.
class GradientSum {
 public:
  // REQUIRES: block_size divides parameter_count
  GradientSum(size_t parameter_count, size_t block_size);

  // The block's sums, to be added to.
  float* Block(size_t block) {
    marks_[block] = 1;
    return values_.data() + block * block_size_;
  }

  // The same for inner loops: all sums, and a mark per block that must be set to 1 before the
  // block's sums are added to.
  float* mutable_values() { return values_.data(); }
  uint8_t* mutable_marks() { return marks_.data(); }

  void Clear();

  // The blocks touched since the last Clear. Ascending; valid until the next call.
  std::span<const uint32_t> SortedBlocks();

  std::span<const float> values() const { return values_; }
  size_t block_size() const { return block_size_; }

 private:
  size_t block_size_;
  std::vector<float> values_;
  std::vector<uint8_t> marks_;  // 0 or 1 each; rounded up to whole runs (see the .cc file)
  std::vector<uint32_t> sorted_blocks_;
};

}  // namespace millrace
