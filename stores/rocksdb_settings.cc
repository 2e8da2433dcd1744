#include "stores/rocksdb_settings.h"

#include <algorithm>

#include "rocksdb/filter_policy.h"
#include "rocksdb/slice_transform.h"
#include "rocksdb/table.h"

namespace millrace {
namespace {

// From so many files on RocksDB slows writers down, and stops them: far more than bulk leaves, so
// that who comes next does not wait until all of that is merged.
constexpr int kSlowAt = 64;
constexpr int kStopAt = 96;

}  // namespace

std::shared_ptr<RocksDbMemory> MakeRocksDbMemory(size_t block_cache_bytes,
                                                 size_t write_buffer_bytes) {
  return std::make_shared<RocksDbMemory>(block_cache_bytes, write_buffer_bytes);
}

size_t BufferBytes(size_t of_all) { return std::max<size_t>(of_all / 2, size_t{64} << 10); }

rocksdb::Options RocksDbSettings(const RocksDbOptions& options, const RocksDbMemory& memory) {
  rocksdb::Options result;
  result.create_if_missing = true;
  result.max_open_files = options.max_open_files;

  rocksdb::BlockBasedTableOptions table;
  table.block_cache = memory.block_cache;
  table.cache_index_and_filter_blocks = true;  // else they are outside of every bound
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  // Many keys that are asked for are not there: embedding rows that no update has created yet.
  constexpr int kBloomBitsPerKey = 10;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(kBloomBitsPerKey));
  // Debian's RocksDB is built for any x86-64 and computes CRC32c without the processor's help.
  table.checksum = rocksdb::kXXH3;
  // In parts, so that a read loads some kilobytes of them where they do not all fit.
  table.index_type = rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch;
  table.partition_filters = true;
  table.metadata_block_size = size_t{64} << 10;
  table.metadata_cache_options.top_level_index_pinning = rocksdb::PinningTier::kAll;
  result.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  result.write_buffer_manager = memory.write_buffers;
  result.write_buffer_size = BufferBytes(memory.usual_write_buffer_bytes);
  result.max_write_buffer_number = 2;
  // Most keys that are asked for are in a file: a search of the memtable costs as much as one
  // there.
  result.memtable_whole_key_filtering = true;
  result.memtable_prefix_bloom_size_ratio = 0.05;
  // A batch's keys ascend mostly, so that the next place in the memtable is near to the last.
  result.memtable_insert_with_hint_prefix_extractor.reset(rocksdb::NewCappedPrefixTransform(1));
  // Keys are updated in random order. Merging files of like size writes each entry a third as often
  // as sorting them into levels, and a read meets fewer files (measured with 4 million rows).
  result.compaction_style = rocksdb::kCompactionStyleUniversal;
  // A checkpoint of many rows fills several write buffers. Merging at the tenth file took a third
  // of the processor's time of merging at the fourth, as is the default; but at the sixth a read
  // still meets few files.
  result.level0_file_num_compaction_trigger = kFilesMergedAt;
  result.level0_slowdown_writes_trigger = kSlowAt;
  result.level0_stop_writes_trigger = kStopAt;
  // There is one writer.
  result.allow_concurrent_memtable_write = false;
  result.enable_write_thread_adaptive_yield = false;

  // Floats that are learnt do not compress.
  result.compression = rocksdb::kNoCompression;

  // One thread writes files, one merges them; none to print statistics.
  result.max_background_jobs = 2;
  result.stats_dump_period_sec = 0;
  result.stats_persist_period_sec = 0;
  result.max_manifest_file_size = size_t{1} << 20;
  result.manifest_preallocation_size = size_t{64} << 10;

  // A restart reads the log back into memory and goes on, without writing files first.
  result.avoid_flush_during_recovery = true;
  result.skip_stats_update_on_db_open = true;
  // The end of the log may be torn. Up to there every batch is whole.
  result.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  return result;
}

}  // namespace millrace
