#include "stores/scratch_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "base/file_error.h"

namespace millrace {

StatusOr<ScratchFile> ScratchFile::Create(const std::string& folder) {
  std::string path = folder + "/scratch-XXXXXX";
  const int file = ::mkostemp(path.data(), O_CLOEXEC);
  if (file < 0) return CannotWrite(path, errno);
  (void)::unlink(path.c_str());
  return ScratchFile(file, folder);
}

ScratchFile::ScratchFile(ScratchFile&& other) noexcept
    : file_(std::exchange(other.file_, -1)), folder_(std::move(other.folder_)), end_(other.end_) {}

ScratchFile::~ScratchFile() {
  if (file_ >= 0) (void)::close(file_);
}

void ScratchFile::Unmap::operator()(std::byte* begin) const { (void)::munmap(begin, bytes); }

StatusOr<ScratchFile::Piece> ScratchFile::Grow(size_t bytes) {
  const auto failed = [this](int error) {
    return CannotWrite("a scratch file in " + folder_, error);
  };
  int error = EINTR;
  while (error == EINTR) {
    error = ::posix_fallocate(file_, static_cast<off_t>(end_), static_cast<off_t>(bytes));
  }
  if (error != 0) return failed(error);
  void* const begin =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, static_cast<off_t>(end_));
  if (begin == MAP_FAILED) return failed(errno);
  // What lies beside is not wanted with it.
  (void)::madvise(begin, bytes, MADV_RANDOM);
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  end_ += (bytes + page - 1) / page * page;
  return Piece(static_cast<std::byte*>(begin), Unmap{bytes});
}

}  // namespace millrace
