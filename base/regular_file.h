// Files that a folder of ours holds, such as a model's: whatever else stands in the place of one (a
// named pipe, a device, a folder) is refused. A pipe that nobody writes to would be waited for.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>

#include "base/atomic_file.h"
#include "base/status.h"

namespace millrace {

// Open for reading. NotFound: it cannot be opened; FailedPrecondition: it is no regular file.
// Messages say what is wrong, without the path.
StatusOr<File> OpenRegularFile(const std::string& path);

// All bytes of it. Errors: also those of ReadToEnd.
StatusOr<std::string> ReadRegularFile(const std::string& path, size_t most_bytes);

// What follows in the file. OutOfRange: that is more than `most_bytes`, of which no more are read;
// Unavailable: reading fails. Messages as above.
StatusOr<std::string> ReadToEnd(std::FILE* file, size_t most_bytes);

}  // namespace millrace
