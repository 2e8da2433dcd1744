// A hash of all rows of a partition, in their order: what tells one input from another of as many
// rows. Ends of partitions carry it, so it is the same on every machine and in every version. Pure.
#pragma once

#include <cstdint>

#include "models/row.h"

namespace millrace {

class RowFingerprint {
 public:
  void Add(const Row& row);
  // Never 0, which stands for an end without a fingerprint.
  uint64_t value() const { return hash_ == 0 ? 1 : hash_; }

 private:
  // A bijection of the word and of what was before it, so that one row that differs changes the
  // end.
  void AddWord(uint64_t word) {
    hash_ = (hash_ ^ word) * 0x9e3779b97f4a7c15;
    hash_ ^= hash_ >> 32;
  }

  uint64_t hash_ = 0;
};

}  // namespace millrace
