#include "models/gradient_sum.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace millrace {
namespace {

// Marks are looked through in runs of this many, most of which are empty in a large model.
constexpr size_t kRun = 64;
// Above this many touched blocks of a run, one sweep is faster than many short ones.
constexpr int kManyOfRun = 16;

using Words = std::array<uint64_t, kRun / sizeof(uint64_t)>;  // a run's marks

size_t RoundUpToRuns(size_t blocks) { return (blocks + kRun - 1) / kRun * kRun; }

Words LoadRun(const std::vector<uint8_t>& marks, size_t begin) {
  Words words;
  std::memcpy(words.data(), marks.data() + begin, sizeof(words));
  return words;
}

bool IsEmpty(const Words& words) {
  uint64_t any = 0;
  for (uint64_t word : words) any |= word;
  return any == 0;
}

int CountMarks(const Words& words) {
  uint64_t sums = 0;  // eight small sums in parallel
  for (uint64_t word : words) sums += word;
  return static_cast<int>((sums * 0x0101010101010101u) >> 56);
}

// Calls visit(block) for each mark, in ascending order. A mark is one bit, the lowest of its byte
// (the memory's first byte is the word's lowest on the machines that Millrace runs on).
template <class Visit>
void VisitMarks(const Words& words, size_t begin, const Visit& visit) {
  static_assert(std::endian::native == std::endian::little);
  for (size_t i = 0; i < words.size(); ++i) {
    for (uint64_t left = words[i]; left != 0; left &= left - 1) {
      visit(begin + i * sizeof(uint64_t) + static_cast<size_t>(std::countr_zero(left)) / 8);
    }
  }
}

}  // namespace

GradientSum::GradientSum(size_t parameter_count, size_t block_size)
    : block_size_(block_size),
      values_(parameter_count),
      marks_(RoundUpToRuns(parameter_count / block_size)) {
  MILLRACE_CHECK(parameter_count % block_size == 0);
}

void GradientSum::Clear() {
  for (size_t begin = 0; begin < marks_.size(); begin += kRun) {
    const Words words = LoadRun(marks_, begin);
    if (IsEmpty(words)) continue;
    float* values = values_.data();
    if (CountMarks(words) > kManyOfRun) {
      const size_t end = std::min((begin + kRun) * block_size_, values_.size());
      std::fill(values + begin * block_size_, values + end, 0.0f);
    } else {
      VisitMarks(words, begin, [this, values](size_t block) {
        std::fill_n(values + block * block_size_, block_size_, 0.0f);
      });
    }
    std::fill_n(marks_.data() + begin, kRun, uint8_t{0});
  }
}

std::span<const uint32_t> GradientSum::SortedBlocks() {
  sorted_blocks_.clear();
  for (size_t begin = 0; begin < marks_.size(); begin += kRun) {
    VisitMarks(LoadRun(marks_, begin), begin,
               [this](size_t block) { sorted_blocks_.push_back(static_cast<uint32_t>(block)); });
  }
  return sorted_blocks_;
}

}  // namespace millrace
