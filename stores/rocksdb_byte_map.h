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
  size_t block_cache_bytes = size_t{8} << 20;
  // What was written and is on its way to a file: two halves, so that one is filled while the
  // other is written.
  size_t write_buffer_bytes = size_t{8} << 20;
  int max_open_files = 64;
  // When set, the map takes its memory from here and the first two bounds are not used.
  std::shared_ptr<RocksDbMemory> memory;
};

// Opens the map in the folder `path`, which is made (with its parents) if it is not there. Errors:
//   FailedPrecondition  another process, or another map of this one, has the folder open
//   DataLoss            the folder is damaged
//   ResourceExhausted   the disk is full, or no more files can be opened
//   PermissionDenied    the folder cannot be written
// and Unavailable for what else the disk refuses. Later calls give these errors too, and each
// message names the folder and says what to do.
//
// A batch is in the page cache of the operating system when Write returns, so the death of the
// process loses none and Flush has nothing to wait for. The death of the machine may lose the last
// ones, in order; Kafka has them.
StatusOr<std::unique_ptr<OrderedByteMap>> OpenRocksDb(const std::string& path,
                                                      const RocksDbOptions& options = {});

}  // namespace millrace
