#include "stores/row_space.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"

namespace millrace {
namespace {

// Few are needed, and what is not touched costs nothing.
constexpr size_t kMostSegmentBytes = size_t{1} << 20;

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
      in_memory_.push_back(std::make_unique_for_overwrite<std::byte[]>(rows * row_bytes_));
      segments_.push_back(in_memory_.back().get());
    }
  }
  ++size_;
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
