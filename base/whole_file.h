// A file that is read at once.
#pragma once

#include <cstddef>
#include <string>

#include "base/status.h"

namespace millrace {

// All bytes of the file. NotFound: it cannot be opened; OutOfRange: it has more than `most_bytes`,
// of which no more are read; Unavailable: reading fails. Messages say what is wrong, without the
// path.
StatusOr<std::string> ReadWholeFile(const std::string& path, size_t most_bytes);

}  // namespace millrace
