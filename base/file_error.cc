#include "base/file_error.h"

#include <cerrno>
#include <system_error>

namespace millrace {

Status FileError(const std::string& message, int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return absl::ResourceExhaustedError(message + "; free space on this disk");
    case EFBIG:
      return absl::ResourceExhaustedError(message +
                                          "; raise the limit of a file's size (ulimit -f)");
    case EMFILE:
    case ENFILE:
      return absl::ResourceExhaustedError(message + "; raise the limit of open files (ulimit -n)");
    case EPIPE:
      return absl::UnavailableError(message + "; who read it has closed it");
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(message +
                                         "; let this user write there, or choose another folder");
    default:
      return absl::UnavailableError(message + "; check the disk and the folder");
  }
}

Status CannotWrite(const std::string& path, int error) {
  return FileError(path + " cannot be written: " + std::generic_category().message(error), error);
}

}  // namespace millrace
