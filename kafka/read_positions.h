// Which records and events of a partition still belong to its present assignment. Private to this
// folder.
#pragma once

#include <cstdint>
#include <map>

#include "base/types.h"

namespace millrace::kafka_internal {

// librdkafka drops records that it had fetched for an earlier assignment of a partition, but not
// all of its events. This class knows the next expected offset of every partition that is read.
class ReadPositions {
 public:
  void Start(int32_t partition, Offset offset) { expected_[partition] = offset; }
  void Stop(int32_t partition) { expected_.erase(partition); }
  bool Contains(int32_t partition) const { return expected_.contains(partition); }
  const std::map<int32_t, Offset>& all() const { return expected_; }

  // False: to be dropped. (Offsets may leave gaps: compaction, markers of transactions.)
  bool AcceptRecord(int32_t partition, Offset offset);
  // `end`: the reader's position, after records that are never handed out.
  bool AcceptEnd(int32_t partition, Offset end);

  enum class OutOfRange {
    kIgnore,  // not read any more
    kReport,
    // The event names another offset than the expected one: it belongs to an earlier assignment, or
    // follows records that are never handed out. Reading must be restarted at `expected`; if that
    // position is outside the log, the next event reports it.
    kRestart,
  };
  OutOfRange JudgeOutOfRange(int32_t partition, Offset offset) const;

 private:
  std::map<int32_t, Offset> expected_;
};

}  // namespace millrace::kafka_internal
