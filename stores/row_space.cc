#include "stores/row_space.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"

namespace millrace {
namespace {

// Few are needed, and what is not touched costs nothing.
constexpr size_t kMostSegmentBytes = size_t{1} << 20;
// Segments stand one behind the other in a block, so that they fill its huge pages.
constexpr size_t kBlockBytes = size_t{32} << 20;

}  // namespace

RowSpace::RowSpace(size_t row_bytes, RowSpaceOptions options)
    : options_(std::move(options)),
      row_bytes_((row_bytes + 7) / 8 * 8),
      shift_(static_cast<unsigned>(
          std::bit_width(std::max<size_t>(
              1, std::min(kMostSegmentBytes, options_.memory_bytes) / row_bytes_)) -
          1)),
      memory_rows_(options_.memory_bytes / row_bytes_),
      fitting_(memory_rows_ + options_.scratch_bytes / row_bytes_) {}

void RowSpace::Add() {
  const size_t rows = size_t{1} << shift_;
  if (size_ == segments_.size() * rows) {
    const bool fits_scratch = size_ >= memory_rows_ && size_ < fitting_;
    if (!fits_scratch || !AddScratchSegment()) {
      segments_.push_back(NewMemorySegment());
    }
  }
  ++size_;
}

std::byte* RowSpace::NewMemorySegment() {
  const size_t bytes = row_bytes_ << shift_;
  if (blocks_.empty() || blocks_.back().get_deleter().bytes - block_used_ < bytes) {
    // Most spaces never have more than a segment, and to map a whole block for it takes time. (Nor
    // has a small space any use for more than it may fill.)
    const size_t block =
        blocks_.empty() ? bytes : std::max(bytes, std::min(kBlockBytes, options_.memory_bytes));
    blocks_.emplace_back(HugePageAllocator<std::byte>().allocate(block), FreeBlock{block});
    block_used_ = 0;
  }
  std::byte* const segment = blocks_.back().get() + block_used_;
  block_used_ += bytes;
  return segment;
}

bool RowSpace::AddScratchSegment() {
  if (!scratch_) {
    StatusOr<ScratchFile> created = ScratchFile::Create(
        options_.scratch_folder, options_.scratch_bytes + (row_bytes_ << shift_));
    scratch_status_ = created.status();
    if (created.ok()) scratch_.emplace(*std::move(created));
  }
  if (scratch_) {
    const StatusOr<std::byte*> segment = scratch_->Grow(row_bytes_ << shift_);
    scratch_status_ = segment.status();
    if (segment.ok()) segments_.push_back(*segment);
  }
  if (!scratch_status_.ok()) {
    fitting_ = size_;
    return false;
  }
  return true;
}

}  // namespace millrace
