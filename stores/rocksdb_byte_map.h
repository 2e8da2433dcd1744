// The ordered byte map on disk, in RocksDB and within bounds of memory.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "stores/ordered_byte_map.h"

namespace millrace {

// The memory of RocksDB (blocks read and blocks to be written) that several maps share.
class RocksDbMemory;
std::shared_ptr<RocksDbMemory> MakeRocksDbMemory(size_t block_cache_bytes,
                                                 size_t write_buffer_bytes);

struct RocksDbOptions {
  // Blocks read from disk, with the indexes of the files. Too small for the indexes of a large map
  // makes reads slow, so that a map of many gigabytes wants more.
  size_t block_cache_bytes = size_t{16} << 20;
  // Write buffers: two halves, so that one is filled while the other is written to a file.
  size_t write_buffer_bytes = size_t{16} << 20;
  int max_open_files = 64;
  // Without a log, a crash of the process loses the newest writes (up to write_buffer_bytes); what
  // remains is a prefix of the writes. It halves the bytes that are written.
  bool has_log = true;
  // When set, the map takes its memory from here and the first two bounds are not used.
  std::shared_ptr<RocksDbMemory> memory{};
};

// A map on disk, which can be filled in bulk and can copy itself.
class DiskByteMap : public OrderedByteMap {
 public:
  // Calls `fill`, which writes much, and returns when all of it is in files. Meanwhile reads are
  // slower: nothing is logged, buffers have kBulkBufferBytes, and many more files are written
  // before they are merged (which begins afterwards, in the background). A crash of the process may
  // lose the newest writes, as if has_log were false. The writer's thread; an error, also one of
  // `fill`, leaves a map that is to be closed. REQUIRES: memory of its own
  // (RocksDbOptions::memory).
  static constexpr size_t kBulkBufferBytes = size_t{128} << 20;
  virtual Status FillInBulk(const std::function<Status()>& fill) = 0;

  // Creates `folder`, which must not exist, as a map with the present content of this one, for its
  // owner only. On the same file system its files are hard links, so that it costs little for any
  // size. Any thread, also while another writes.
  virtual Status CopyTo(const std::string& folder) const = 0;
};

// Opens the map in the folder `path`, which is made (with its parents, all for their owner only) if
// it is not there. Errors:
//   FailedPrecondition  another process (IsLockedByAnother), or another map of this one, has the
//                       folder open
//   DataLoss            the folder is damaged
//   ResourceExhausted   the disk is full, or no more files can be opened
//   PermissionDenied    the folder cannot be written
// and Unavailable for what else the disk refuses. Later calls give these errors too, and each
// message names the folder and says what to do. After a Write that failed every Write fails, until
// the folder is opened again.
//
// A batch is in the page cache of the operating system when Write returns, so the death of the
// process loses none (unless has_log is false) and Flush has nothing to wait for. The death of the
// machine may lose the last ones, in order; Kafka has them.
//
// WriteSortedRun writes a file of its own, past the log and the buffers, which then counts as one
// of the map's. It waits until the file and all that was written before are on the disk: for some
// megabytes or more.
StatusOr<std::unique_ptr<DiskByteMap>> OpenRocksDb(const std::string& path,
                                                   const RocksDbOptions& options = {});

// Where the map in the folder `path` is open, by its lock; nowhere if there is no such folder.
enum class OpenIn { kNoProcess, kThisProcess, kAnotherProcess };
OpenIn WhereIsOpen(const std::string& path);

// Whether OpenRocksDb failed because another process, which may hang, has the folder open.
bool IsLockedByAnother(const Status& status);

}  // namespace millrace
