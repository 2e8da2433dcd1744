// A folder of files that come over a network: there when it is whole, and not before.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace millrace {

// Files are written to `folder`.incoming, which gets the name `folder` when all of it is on the
// disk; a crash in between leaves nothing that looks like `folder`. Used by one thread.
class ReceivedFolder {
 public:
  // Removes what an earlier try has left behind.
  static StatusOr<std::unique_ptr<ReceivedFolder>> Begin(const std::string& folder);
  // Removes what was not committed.
  ~ReceivedFolder();

  // Files come one after the other. DataLoss when the name is no plain name of a store's file, when
  // it has other than `bytes` bytes, or another sum (Crc32c).
  Status BeginFile(const std::string& name, uint64_t bytes);
  Status Append(std::string_view bytes);
  Status EndFile(uint32_t crc32c);

  // Where the files stand until Commit.
  const std::string& path() const { return path_; }
  // DataLoss when a file is unfinished. REQUIRES: called once; no process has a file open.
  Status Commit();

 private:
  explicit ReceivedFolder(const std::string& folder);

  const std::string folder_;
  const std::string path_;
  int file_ = -1;
  std::string name_;
  uint64_t expected_ = 0;
  uint64_t written_ = 0;
  uint32_t crc_ = 0;
  bool committed_ = false;
};

}  // namespace millrace
