// A file that is there when it is whole, and not before.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"

namespace millrace {

struct CloseFile {
  void operator()(std::FILE* file) const { (void)std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

// Written beside its name (`path`.tmp), which it gets by Commit when it is on the disk: a crash in
// between leaves what was there before. Its mode is 0600. Errors: CannotWrite's. Not thread-safe.
class AtomicFile {
 public:
  static StatusOr<AtomicFile> Create(const std::string& path);
  AtomicFile(AtomicFile&&) = default;
  AtomicFile& operator=(AtomicFile&&) = delete;
  // Removes what was not committed.
  ~AtomicFile();

  Status Append(std::string_view bytes);
  // Goes back to the beginning, to write over what stands there.
  Status Rewind();
  // REQUIRES: nothing but the destructor is called after it.
  Status Commit();

  const std::string& path() const { return path_; }

 private:
  AtomicFile(std::string path, File file) : path_(std::move(path)), file_(std::move(file)) {}
  std::string temporary() const { return path_ + ".tmp"; }
  Status Failed() const;

  std::string path_;
  File file_;
};

// The whole of it in one call.
Status WriteAtomicFile(const std::string& path, std::string_view bytes);

}  // namespace millrace
