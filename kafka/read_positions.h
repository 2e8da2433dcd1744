// Which records and events of a partition still belong to its present assignment. Private to this
// folder.
#pragma once

#include <cstdint>
#include <map>

#include "base/types.h"

namespace millrace::kafka_internal {

// librdkafka drops records that it had fetched for an earlier assignment of a partition, but not
// all of its events. Here every partition that is read has the offset that is expected next.
class ReadPositions {
 public:
  void Start(int32_t partition, Offset offset) { expected_[partition] = offset; }
  void Stop(int32_t partition) { expected_.erase(partition); }
  bool Contains(int32_t partition) const { return expected_.contains(partition); }
  const std::map<int32_t, Offset>& all() const { return expected_; }

  // False: to be dropped. (Offsets may leave gaps: compaction, markers of transactions.)
  bool AcceptRecord(int32_t partition, Offset offset);
  // `end`: where the reader is, behind records that are never handed out.
  bool AcceptEnd(int32_t partition, Offset end);

  enum class OutOfRange {
    kIgnore,  // not read any more
    kReport,
    // The event tells of another offset than we are at: it comes from an earlier assignment, or
    // from behind records that are never handed out. Reading must be started again at `expected`;
    // a position that is really outside the log is then reported with it.
    kRestart,
  };
  OutOfRange JudgeOutOfRange(int32_t partition, Offset offset) const;

 private:
  std::map<int32_t, Offset> expected_;
};

}  // namespace millrace::kafka_internal
