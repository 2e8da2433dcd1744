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
  void Start(int32_t partition, Offset offset);
  void Stop(int32_t partition);
  bool Contains(int32_t partition) const { return expected_.contains(partition); }
  const std::map<int32_t, Offset>& all() const { return expected_; }

  // The group has rebalanced. librdkafka pauses all partitions of a member then, from a thread of
  // its own. A call that takes several records at that moment loses some: they count as handed out,
  // and then the pause removes them from the call's result ("known issues" of its 2.0.0). Offsets
  // may leave gaps for other reasons (compaction, markers of transactions), so the next gaps of
  // each partition are read again, once each; what is missing then too was never there.
  void Rebalanced();

  enum class Verdict {
    kAccept,
    kDrop,
    kRestart,  // reading must be restarted at `expected`; what comes before that is dropped
  };
  Verdict JudgeRecord(int32_t partition, Offset offset);
  // `end`: the reader's position, after records that are never handed out.
  Verdict JudgeEnd(int32_t partition, Offset end);

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
  // Of a partition since the last rebalance.
  struct Gaps {
    int to_check = 0;
    bool restarting = false;
  };
  Verdict Judge(int32_t partition, Offset offset, Offset next);

  std::map<int32_t, Offset> expected_;
  std::map<int32_t, Gaps> gaps_;
};

}  // namespace millrace::kafka_internal
