// Memory that the kernel may write out to a disk.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/status.h"

namespace millrace {

// A mapped file without a name, which ends with its process: the kernel keeps its pages in memory
// while there is room, and writes them out when there is not. That is swap space for these bytes
// alone, which can be counted on where swap itself is off, as on most clusters. Blocks are reserved
// on the disk before they are used, so a full one is an error here and not a signal later (a disk
// that breaks is one: SIGBUS). Not thread-safe.
class ScratchFile {
 public:
  static StatusOr<ScratchFile> Create(const std::string& folder);
  ScratchFile(ScratchFile&& other) noexcept;
  ScratchFile& operator=(ScratchFile&& other) = delete;
  ~ScratchFile();

  struct Unmap {
    size_t bytes = 0;
    void operator()(std::byte* begin) const;
  };
  using Piece = std::unique_ptr<std::byte[], Unmap>;
  // So many zeroes more, to read and to write. A piece may outlive the file. ResourceExhausted when
  // the disk is full.
  StatusOr<Piece> Grow(size_t bytes);

 private:
  ScratchFile(int file, std::string folder) : file_(file), folder_(std::move(folder)) {}

  int file_;
  std::string folder_;
  size_t end_ = 0;
};

}  // namespace millrace
