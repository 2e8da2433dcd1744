// Memory that the kernel may write out to a disk.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "base/status.h"

namespace millrace {

// A mapped file without a name, which ends with its process. As with every file, the kernel keeps
// its pages in memory while it has use for them, writes changed ones to the disk after a while (30
// s, unless the machine is told otherwise) and lets go of them when memory is short: swap space for
// these bytes alone, which can be counted on where swap itself is off, as on most clusters.
//
// Blocks are reserved on the disk before they are used, so a full disk is an error here and not a
// signal later. (A disk that breaks is one, SIGBUS; so is a full one whose file system cannot
// reserve, as some that copy on write.) What others need of the disk is left: a tenth of it, but 1
// GiB at most. Not thread-safe.
class ScratchFile {
 public:
  // The file may grow to `most_bytes`.
  static StatusOr<ScratchFile> Create(const std::string& folder, size_t most_bytes);
  ScratchFile(ScratchFile&& other) noexcept;
  ScratchFile& operator=(ScratchFile&& other) = delete;
  ~ScratchFile();

  // Appends so many zero bytes, which can be read and written as long as the file exists.
  // ResourceExhausted when the disk or the file is full.
  StatusOr<std::byte*> Grow(size_t bytes);

 private:
  ScratchFile(int file, std::string folder, std::byte* begin, size_t most_bytes)
      : file_(file), folder_(std::move(folder)), begin_(begin), most_bytes_(most_bytes) {}
  Status LeavesRoomForOthers(size_t bytes) const;
  Status Failed(int error) const;

  int file_;
  std::string folder_;
  std::byte* begin_;
  size_t most_bytes_;
  size_t bytes_ = 0;
};

}  // namespace millrace
