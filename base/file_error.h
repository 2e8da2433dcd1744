// An error of the operating system about a file, with the remedy.
#pragma once

#include <string>

#include "base/status.h"

namespace millrace {

// `message` names the file and says what went wrong; `error` is an errno. ResourceExhausted (disk
// full, too many files open), PermissionDenied, or Unavailable.
Status FileError(const std::string& message, int error);

// The same for a file that cannot be written.
Status CannotWrite(const std::string& path, int error);

}  // namespace millrace
