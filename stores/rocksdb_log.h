// RocksDB's own log: warnings of its background threads.
#pragma once

#include <memory>
#include <string>

#include "rocksdb/env.h"

namespace millrace {

// Writes into the file LOG of the folder `path`, which begins again at 1 MiB. A line that cannot be
// written is lost: RocksDB's own logger fails an assertion at the next line, which would end the
// process of a full disk, maybe one that could do without this store. Thread-safe.
std::shared_ptr<rocksdb::Logger> MakeRocksDbLog(const std::string& path);

}  // namespace millrace
