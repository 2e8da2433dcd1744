// What a shard's partition of `parameters` said after each of its checkpoints.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/types.h"
#include "stores/ordered_byte_map.h"

namespace millrace::simulation {

// Every copy of a shard, wherever it stands, is what `parameters` said after the checkpoint that
// the copy's own offset names. Keeps a sum of hashes for each, which does not depend on the order
// in which keys are seen. Sees the log's records only, none of the code that applies them.
class CheckpointHistory {
 public:
  // The next committed record.
  void Put(const std::string& key, const std::string& value);
  // It was the last of a checkpoint.
  void Committed(Offset end) { after_[end] = sum_; }

  Offset end() const { return after_.rbegin()->first; }
  // Empty, or what is wrong with a copy.
  std::string Check(const OrderedByteMap& copy) const;

 private:
  std::map<std::string, uint64_t> newest_;  // the hash of each key's last record
  uint64_t sum_ = 0;
  std::map<Offset, uint64_t> after_ = {{0, 0}};  // by the offset after the checkpoint
};

}  // namespace millrace::simulation
