#include "base/atomic_file.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/file_error.h"

namespace millrace {

StatusOr<NewFile> NewFile::Create(const std::string& path) {
  NewFile file(path, nullptr);
  file.file_.reset(std::fopen(file.temporary().c_str(), "wb"));
  if (file.file_ == nullptr) return file.Failed();
  return file;
}

NewFile::~NewFile() {
  if (file_ != nullptr) (void)std::remove(temporary().c_str());
}

Status NewFile::Failed() const { return CannotWrite(path_, errno); }

Status NewFile::Append(std::string_view bytes) {
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) == bytes.size();
  return written ? absl::OkStatus() : Failed();
}

Status NewFile::Rewind() {
  return std::fseek(file_.get(), 0, SEEK_SET) == 0 ? absl::OkStatus() : Failed();
}

Status NewFile::Commit() {
  if (std::fflush(file_.get()) != 0 || fsync(fileno(file_.get())) != 0 ||
      std::rename(temporary().c_str(), path_.c_str()) != 0) {
    return Failed();
  }
  return std::fclose(file_.release()) == 0 ? absl::OkStatus() : Failed();
}

Status WriteNewFile(const std::string& path, std::string_view bytes) {
  MILLRACE_ASSIGN_OR_RETURN(NewFile file, NewFile::Create(path));
  MILLRACE_RETURN_IF_ERROR(file.Append(bytes));
  return file.Commit();
}

}  // namespace millrace
