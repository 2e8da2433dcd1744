#include "models/gradient_sum.h"

#include <algorithm>

#include "base/check.h"

namespace millrace {

GradientSum::GradientSum(size_t parameter_count, size_t block_size)
    : block_size_(block_size),
      values_(parameter_count),
      is_touched_(parameter_count / block_size),
      touched_(parameter_count / block_size + 1) {
  MILLRACE_CHECK(parameter_count % block_size == 0);
}

void GradientSum::TouchAll(std::span<const uint32_t> blocks) {
  // Local copies: the compiler must assume that a byte store changes the members.
  uint8_t* is_touched = is_touched_.data();
  uint32_t* touched = touched_.data();
  size_t count = touched_count_;
  for (uint32_t block : blocks) {
    touched[count] = block;
    count += 1u - is_touched[block];
    is_touched[block] = 1;
  }
  touched_count_ = count;
}

void GradientSum::TouchRange(uint32_t begin, uint32_t end) {
  for (uint32_t block = begin; block < end; ++block) Touch(block);
}

void GradientSum::Clear() {
  if (touched_count_ > block_count() / 4) {  // One sweep is faster than many short ones.
    std::fill(values_.begin(), values_.end(), 0.0f);
    std::fill(is_touched_.begin(), is_touched_.end(), uint8_t{0});
  } else {
    for (size_t i = 0; i < touched_count_; ++i) {
      const size_t block = touched_[i];
      std::fill_n(values_.data() + block * block_size_, block_size_, 0.0f);
      is_touched_[block] = 0;
    }
  }
  touched_count_ = 0;
}

std::span<const uint32_t> GradientSum::SortedBlocks() {
  const auto begin = touched_.begin();
  if (touched_count_ > block_count() / 16) {  // Listing anew is faster than sorting.
    size_t count = 0;
    for (size_t block = 0; block < block_count(); ++block) {
      touched_[count] = static_cast<uint32_t>(block);
      count += is_touched_[block];
    }
  } else {
    std::sort(begin, begin + static_cast<ptrdiff_t>(touched_count_));
  }
  return {touched_.data(), touched_count_};
}

}  // namespace millrace
