// A folder of files received over a network, which appears under its name only when it is complete.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace millrace {

// Files are written to `folder`.incoming, which is renamed to `folder` when all of it is on the
// disk; a crash before that leaves no `folder`. Used by one thread.
class ReceivedFolder {
 public:
  // Removes what an earlier attempt has left.
  static StatusOr<std::unique_ptr<ReceivedFolder>> Begin(const std::string& folder);
  // Removes the files if they were not committed.
  ~ReceivedFolder();

  // Files are received one after the other. DataLoss when the name is not a plain name of a store's
  // file, or when the file does not have `bytes` bytes or this checksum (Crc32c).
  Status BeginFile(const std::string& name, uint64_t bytes);
  Status Append(std::string_view bytes);
  Status EndFile(uint32_t crc32c);

  // Where the files are until Commit.
  const std::string& path() const { return path_; }
  // Gives the folder its name. DataLoss when the last file has not been ended. REQUIRES: no call
  // has failed. To be called once.
  Status Commit();

 private:
  explicit ReceivedFolder(const std::string& folder);

  Status OpenFile(const std::string& name, uint64_t bytes);
  Status Write(std::string_view bytes);
  Status CloseFile(uint32_t crc32c);
  // Remembers an error.
  Status Note(Status status) {
    if (!status.ok()) failed_ = true;
    return status;
  }

  const std::string folder_;
  const std::string path_;
  int file_ = -1;
  std::string name_;
  uint64_t expected_ = 0;
  uint64_t written_ = 0;
  uint32_t crc_ = 0;
  bool failed_ = false;
  bool committed_ = false;
};

}  // namespace millrace
