// How our RocksDB is set up. Private to this folder, but for the benchmarks: the bare RocksDB that
// is their floor is set up alike.
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

  const size_t usual_write_buffer_bytes;  // but for a map that is filled in bulk
  const std::shared_ptr<rocksdb::Cache> block_cache;
  const std::shared_ptr<rocksdb::WriteBufferManager> write_buffers;
};

// At so many files some of them are merged; a map that is filled in bulk has 2 GiB in so many.
inline constexpr int kFilesMergedAt = 6;
inline constexpr int kFilesMergedAtInBulk = 32;

// A buffer's part of the bytes for all: one is filled while another is written.
size_t BufferBytes(size_t of_all);

rocksdb::Options RocksDbSettings(const RocksDbOptions& options, const RocksDbMemory& memory);

}  // namespace millrace
