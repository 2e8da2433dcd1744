// What the child of the kill test writes: batch n is a function of n, so that the parent knows what
// must be there.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>

#include "base/big_endian.h"
#include "stores/ordered_byte_map.h"

namespace millrace {

inline constexpr char kPositionKey[] = "position";

// Some rows written, some deleted, and the position in the middle of them.
inline WriteBatch ScriptedBatch(uint64_t n) {
  std::mt19937_64 random(n);
  WriteBatch batch;
  const uint64_t changes = 1 + random() % 200;
  for (uint64_t i = 0; i < changes; ++i) {
    if (i == changes / 2) batch.Put(kPositionKey, EncodeBigEndian64(n));
    const std::string key = "row/" + EncodeBigEndian32(static_cast<uint32_t>(random() % 1000));
    if (random() % 4 == 0) {
      batch.Delete(key);
    } else {
      batch.Put(
          key, std::string(random() % 600, static_cast<char>('a' + n % 26)) + EncodeBigEndian64(n));
    }
  }
  return batch;
}

// Those rows of it that are written, ascending, and the position.
inline std::map<std::string, std::string> ScriptedRun(uint64_t n) {
  std::map<std::string, std::string> run;
  const WriteBatch batch = ScriptedBatch(n);
  for (const WriteBatch::Change& change : batch.changes()) {
    if (change.value) run[change.key] = *change.value;
  }
  return run;
}

// Which batches are sorted runs where some are.
inline bool IsScriptedRun(uint64_t n) { return n % 5 == 0; }

}  // namespace millrace
