// Where a partition ends, as one broker after the other says it. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "base/types.h"

namespace millrace {

// A broker that has just become a partition's leader, or does not know yet that another has, may
// say for a moment that the partition ends before records that were there already. So a reader that
// is told that it stands at the end has read everything only where no further end is known.
// Not thread-safe.
class KnownEnd {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // So long an earlier end may be said, before the records between count as lost.
  static constexpr std::chrono::seconds kPatience{10};

  explicit KnownEnd(Offset offset = 0) : offset_(offset) {}

  // There are, or were, records up to there. What is known never goes back.
  void Know(Offset end);
  // A broker has said to the reader, which has read on since it was last told, that it stands at
  // the end.
  void Meet(Offset end, Time now);
  // The reader has read the record at this offset. (It is never told of an end where records come
  // faster than it reads them.)
  void Pass(Offset record);

  // The earlier end, if one was met, is said from now on only.
  void Restart(Time now) { met_at_ = now; }

  Offset offset() const { return offset_; }
  // Everything up to the known end has been read. Stays so unless a further one becomes known.
  bool is_reached() const { return met_ && *met_ >= offset_; }
  // The earlier end has been said for longer than kPatience.
  bool is_overdue(Time now) const { return met_ && !is_reached() && now - met_at_ > kPatience; }
  // What is_overdue() means, in words.
  Status Overdue(const std::string& topic, int32_t partition) const;

 private:
  Offset offset_;
  std::optional<Offset> met_;  // the furthest
  Time met_at_;
};

// Unavailable: records of the partition were known up to `known`, but its broker says that it ends
// at `told`.
Status EndOfBefore(const std::string& topic, int32_t partition, Offset told, Offset known);

}  // namespace millrace
