// Room for rows of one size: in memory as far as allowed, then in a scratch file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/huge_pages.h"
#include "base/status.h"
#include "stores/scratch_file.h"

namespace millrace {

struct RowSpaceOptions {
  size_t memory_bytes = SIZE_MAX;
  size_t scratch_bytes = 0;
  std::string scratch_folder;
};

// Rows are numbered from 0, aligned to 8 bytes, and never move: an address is valid as long as the
// space. Different threads may write and read different rows, but not while a row is added.
class RowSpace {
 public:
  RowSpace(size_t row_bytes, RowSpaceOptions options);

  size_t size() const { return size_; }
  // REQUIRES: row < size().
  std::byte* at(size_t row) const {
    MILLRACE_CHECK(row < size_);
    return segments_[row >> shift_] + (row & ((size_t{1} << shift_) - 1)) * row_bytes_;
  }
  // Adds a row, whose bytes are undefined. When memory and scratch file are full, it goes to memory
  // nevertheless.
  void Add();
  // Removes all rows; their memory is kept for others.
  void Clear() { size_ = 0; }
  // The number of rows that fit into the memory and the scratch file: fewer than allowed once the
  // disk is full.
  size_t fitting() const { return fitting_; }
  // OK, or why the scratch file cannot grow, with a remedy.
  const Status& scratch_status() const { return scratch_status_; }

 private:
  struct FreeBlock {
    size_t bytes;
    void operator()(std::byte* block) const {
      HugePageAllocator<std::byte>().deallocate(block, bytes);
    }
  };

  std::byte* NewMemorySegment();
  bool AddScratchSegment();

  RowSpaceOptions options_;
  size_t row_bytes_;
  unsigned shift_;  // from a row's number to its segment's
  size_t memory_rows_;
  size_t fitting_;
  size_t size_ = 0;
  std::vector<std::byte*> segments_;
  std::vector<std::unique_ptr<std::byte, FreeBlock>> blocks_;  // of segments in memory
  size_t block_used_ = 0;                                      // bytes of the last block
  std::optional<ScratchFile> scratch_;
  Status scratch_status_;
};

}  // namespace millrace
