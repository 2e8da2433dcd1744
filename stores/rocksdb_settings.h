// The settings of RocksDB. Private to this folder, except for the benchmarks, whose bare RocksDB
// uses the same settings.
#pragma once

#include <cstddef>
#include <memory>

#include "rocksdb/cache.h"
#include "rocksdb/options.h"
#include "rocksdb/write_buffer_manager.h"
#include "stores/rocksdb_byte_map.h"

namespace millrace {

class RocksDbMemory {
 public:
  RocksDbMemory(size_t block_cache_bytes, size_t write_buffer_bytes)
      : usual_write_buffer_bytes(write_buffer_bytes),
        block_cache(rocksdb::NewLRUCache(block_cache_bytes)),
        // Not charged to the cache: memtables would push out the indexes, and a read that has to
        // load its index first takes twenty times as long.
        write_buffers(std::make_shared<rocksdb::WriteBufferManager>(write_buffer_bytes)) {}

  const size_t usual_write_buffer_bytes;  // except while a map is filled in bulk
  const std::shared_ptr<rocksdb::Cache> block_cache;
  const std::shared_ptr<rocksdb::WriteBufferManager> write_buffers;
};

// The number of files at which some of them are merged; while a map is filled in bulk, this many
// files have 2 GiB.
inline constexpr int kFilesMergedAt = 6;
inline constexpr int kFilesMergedAtInBulk = 32;

// The size of one buffer out of the bytes for all: one is filled while another is written.
size_t BufferBytes(size_t of_all);

rocksdb::Options RocksDbSettings(const RocksDbOptions& options, const RocksDbMemory& memory);

}  // namespace millrace
