// Files and folders that only their owner can read, whatever the umask of the process.
#pragma once

#include <string>
#include <system_error>

namespace millrace {

// Creates a folder, and those above it that do not exist, with mode 0700. A folder that exists
// stays as it is.
std::error_code MakePrivateFolder(const std::string& path);

// Takes an open file's permissions from everybody but its owner. What is no regular file (a pipe,
// /dev/null), and a file of another user, stays as it is.
void MakePrivate(int file);

}  // namespace millrace
