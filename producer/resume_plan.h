// Which rows are still to be sent, by what the topic holds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "messages/source.pb.h"
#include "topics/partitioning.h"
#include "topics/row_codec.h"

namespace millrace {

// The end of a partition of input-data, by its last record.
struct PartitionTail {
  RowNumber rows = 0;  // that it holds or held; the number of the next one
  bool ended = false;  // the last record is the end
  // Row rows - 1 by itself (EncodeRow); empty without rows, or if the end of the stream follows it.
  std::string last_value;
  uint64_t fingerprint = 0;  // of its rows (row_fingerprint.h), if it has ended; 0: not known
  std::optional<SourceState> source{};  // that the record has
};

// Parses the last record of a partition. NotFound: it is a flush, so the record before it counts.
// InvalidArgument: it does not belong to a job of this shape.
StatusOr<PartitionTail> TailOfRecord(std::string_view key, std::string_view value,
                                     const RowShape& shape);

// Rows in a partition are in order and without gaps, so it has all rows up to its last one and no
// others. Pure.
class ResumePlan {
 public:
  // One tail per worker of the job.
  ResumePlan(std::vector<PartitionTail> tails, const Dealing& dealing);

  bool fresh() const;  // nothing was sent yet
  bool all_ended() const;
  uint64_t rows_present() const;  // in all partitions
  const std::vector<PartitionTail>& tails() const { return tails_; }
  const Dealing& dealing() const { return dealing_; }

  enum class Action {
    kSkip,   // the topic has it
    kCheck,  // the topic has it, and it must be equal: call Check()
    kSend,
    kAfterEnd,  // the partition has ended before it: CheckEnd() gives the error
  };
  Action ActionFor(RowPlace place) const;

  // `value` is EncodeRow's. FailedPrecondition: the topic holds another row in this place, so it is
  // not of this input.
  Status Check(RowPlace place, std::string_view value, std::string_view topic) const;

  // At the end of the input, which has `rows` rows. FailedPrecondition: the topic holds more, or
  // a partition has ended elsewhere.
  Status CheckEnd(uint64_t rows, std::string_view topic) const;

  // When a file that is followed has given `rows` rows and no more for now. FailedPrecondition: the
  // topic holds more, so the file has lost some, or the stream has ended.
  Status CheckFollowed(uint64_t rows, std::string_view topic) const;

  // At the end of the input, whose rows of the partition have this fingerprint. FailedPrecondition:
  // the partition has ended after as many other rows. (Of an end that an older version wrote
  // nothing is known.)
  Status CheckFingerprint(WorkerId worker, uint64_t fingerprint, std::string_view topic) const;

 private:
  uint32_t workers() const { return static_cast<uint32_t>(tails_.size()); }

  std::vector<PartitionTail> tails_;
  Dealing dealing_;
};

}  // namespace millrace
