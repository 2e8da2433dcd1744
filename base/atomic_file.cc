#include "base/atomic_file.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/file_error.h"

namespace millrace {

StatusOr<AtomicFile> AtomicFile::Create(const std::string& path) {
  AtomicFile file(path, nullptr);
  file.file_.reset(std::fopen(file.temporary().c_str(), "wb"));
  if (file.file_ == nullptr) return file.Failed();
  return file;
}

AtomicFile::~AtomicFile() {
  if (file_ != nullptr) (void)std::remove(temporary().c_str());
}

Status AtomicFile::Failed() const { return CannotWrite(path_, errno); }

Status AtomicFile::Append(std::string_view bytes) {
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) == bytes.size();
  return written ? absl::OkStatus() : Failed();
}

Status AtomicFile::Rewind() {
  return std::fseek(file_.get(), 0, SEEK_SET) == 0 ? absl::OkStatus() : Failed();
}

Status AtomicFile::Commit() {
  if (std::fflush(file_.get()) != 0 || fsync(fileno(file_.get())) != 0 ||
      std::rename(temporary().c_str(), path_.c_str()) != 0) {
    return Failed();
  }
  return std::fclose(file_.release()) == 0 ? absl::OkStatus() : Failed();
}

Status WriteAtomicFile(const std::string& path, std::string_view bytes) {
  MILLRACE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  MILLRACE_RETURN_IF_ERROR(file.Append(bytes));
  return file.Commit();
}

}  // namespace millrace
