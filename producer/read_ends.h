// To where the partitions of a topic that others write are read. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "base/types.h"

namespace millrace {

// Not thread-safe.
class ReadEnds {
 public:
  // `ends`: of partitions 0, 1, ..: what is at them and behind them does not count. Empty: all
  // does.
  void Begin(std::vector<Offset> ends);

  // Whether a record counts. One that does not says that its partition has been read to the end.
  bool Counts(int32_t partition, Offset offset);
  // How far a partition is read that ends here now.
  Offset Until(int32_t partition, Offset end) const;
  // Whether all that counts was read; `next`: of a partition what is before was read. Never, if all
  // counts.
  bool IsAtEnd(const std::function<Offset(int32_t partition)>& next) const;

  // The same of one partition.
  bool IsAtEnd(int32_t partition, Offset next) const;

  // Notes that a partition was read to where it ends now. True once: when that is so of all
  // `partitions` for the first time, and all counts.
  bool NoteEnd(int32_t partition, int32_t partitions);

 private:
  std::vector<Offset> ends_;
  std::set<int32_t> finished_;  // partitions of which a record did not count
  std::set<int32_t> at_end_;
  bool was_at_end_ = false;
};

}  // namespace millrace
