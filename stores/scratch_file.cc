#include "stores/scratch_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "base/file_error.h"

namespace millrace {

StatusOr<ScratchFile> ScratchFile::Create(const std::string& folder, size_t most_bytes) {
  std::string path = folder + "/scratch-XXXXXX";
  const int file = ::mkostemp(path.data(), O_CLOEXEC);
  if (file < 0) return CannotWrite(path, errno);
  (void)::unlink(path.c_str());
  void* const begin = ::mmap(nullptr, most_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (begin == MAP_FAILED) {
    const int error = errno;
    (void)::close(file);
    return FileError(path + " cannot be mapped", error);
  }
  // What lies beside is not wanted with it.
  (void)::madvise(begin, most_bytes, MADV_RANDOM);
  return ScratchFile(file, folder, static_cast<std::byte*>(begin), most_bytes);
}

ScratchFile::ScratchFile(ScratchFile&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      folder_(std::move(other.folder_)),
      begin_(other.begin_),
      most_bytes_(other.most_bytes_),
      bytes_(other.bytes_) {}

ScratchFile::~ScratchFile() {
  if (file_ < 0) return;
  (void)::munmap(begin_, most_bytes_);
  (void)::close(file_);
}

StatusOr<std::byte*> ScratchFile::Grow(size_t bytes) {
  if (bytes > most_bytes_ - bytes_) {
    return absl::ResourceExhaustedError("the scratch file in " + folder_ +
                                        " has reached its size (--embedding-scratch)");
  }
  if (Status status = LeavesRoomForOthers(bytes); !status.ok()) return status;
  int error = EINTR;
  while (error == EINTR) {
    error = ::posix_fallocate(file_, static_cast<off_t>(bytes_), static_cast<off_t>(bytes));
  }
  if (error != 0) {
    (void)::ftruncate(file_, static_cast<off_t>(bytes_));  // some of it may have been reserved
    return Failed(error);
  }
  return begin_ + std::exchange(bytes_, bytes_ + bytes);
}

Status ScratchFile::LeavesRoomForOthers(size_t bytes) const {
  struct statvfs disk = {};
  if (::fstatvfs(file_, &disk) != 0) return Failed(errno);
  constexpr uint64_t kMostLeft = uint64_t{1} << 30;
  const uint64_t left = std::min<uint64_t>(kMostLeft, disk.f_blocks * disk.f_frsize / 10);
  return disk.f_bavail * disk.f_frsize >= bytes + left ? absl::OkStatus() : Failed(ENOSPC);
}

Status ScratchFile::Failed(int error) const {
  return CannotWrite("the scratch file in " + folder_, error);
}

}  // namespace millrace
