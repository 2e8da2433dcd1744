// Where partitions end, as brokers tell it again and again. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/types.h"
#include "kafka/consumer.h"
#include "kafka/known_end.h"

namespace millrace {

// Of all partitions of a topic, each a KnownEnd. Not thread-safe.
class TailEnds {
 public:
  explicit TailEnds(size_t partitions) : known_(partitions) {}

  enum class News {
    kNone,
    kFurther,  // of some partition; of none the end is before the known one
    kBack,     // of some partition (went_back()): ask again
  };
  // What was told, of all partitions. What is further is known from then on, whatever the others'.
  News Take(std::span<const OffsetRange> told);
  // The partition was read up to there.
  void NoteRead(size_t partition, Offset end);

  Offset known(size_t partition) const { return known_[partition].offset(); }
  // A partition of which the last Take was told an end that is too low, and that end.
  struct Back {
    size_t partition = 0;
    Offset told = 0;
  };
  const std::optional<Back>& went_back() const { return went_back_; }

 private:
  std::vector<KnownEnd> known_;
  std::optional<Back> went_back_;
};

}  // namespace millrace
