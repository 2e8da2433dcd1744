// A file that appears under its name only when it is complete.
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "base/write_lock.h"

namespace millrace {

struct CloseFile {
  void operator()(std::FILE* file) const { (void)std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

// Written as `path`.tmp, which Commit syncs to the disk and renames to `path`: a crash before that
// leaves the old file. Its mode is 0600. Errors: CannotWrite's, and FailedPrecondition if the path
// is there and no regular file (a device or a pipe would be replaced by one), or if another process
// is writing it. Not thread-safe.
class AtomicFile {
 public:
  static StatusOr<AtomicFile> Create(const std::string& path);
  AtomicFile(AtomicFile&&) = default;
  AtomicFile& operator=(AtomicFile&&) = delete;
  // Removes the file if it was not committed.
  ~AtomicFile();

  Status Append(std::string_view bytes);
  // Goes back to the beginning, to overwrite what was written there.
  Status Rewind();
  // REQUIRES: no other function is called after it.
  Status Commit();

  const std::string& path() const { return path_; }

 private:
  AtomicFile(std::string path, File file) : path_(std::move(path)), file_(std::move(file)) {}
  std::string temporary() const { return path_ + ".tmp"; }
  Status Failed() const;

  std::string path_;
  File file_;
  std::optional<WriteLock> lock_;  // of the temporary file
};

// Writes a complete file in one call.
Status WriteAtomicFile(const std::string& path, std::string_view bytes);

}  // namespace millrace
