// Which places of input-data a process reads for its workers, whose leases are anywhere.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/types.h"

namespace millrace {

// One reader has one position in each partition, and reads one lease there at a time: to its end,
// or until its worker has enough rows for now; then that which begins first. So nobody waits for a
// worker that is slow, and leases that follow one another are read without going back. Pure; not
// thread-safe.
class LeaseReader {
 public:
  // A worker wants the record at this place, or the next one behind it.
  struct Wish {
    WorkerId worker = 0;
    uint64_t lease = 0;  // its number of the lease that the record is for
    uint32_t partition = 0;
    Offset offset = 0;
  };
  // What is to be done with a partition.
  struct Step {
    enum class Kind {
      kSeek,  // read from `offset`; then Sought
      kHold,  // hand out none of its records
      kGoOn,  // hand them out again, from where it stood
    };
    Kind kind = Kind::kSeek;
    uint32_t partition = 0;
    Offset offset = 0;
    bool operator==(const Step&) const = default;
  };

  // What is to be done when these are all wishes, one of a worker at most. To be asked whenever
  // they have changed, also between two records. A partition that has another wish than before is
  // read for nobody until Follow has been told.
  std::vector<Step> Follow(const std::vector<Wish>& wishes);
  // What the last kSeek of the partition says is done: records that come now are those from there
  // on.
  void Sought(uint32_t partition);
  // A record has come. Returns whose it is; none: nobody's. It is not lost: where somebody wants
  // it, the next Follow goes back.
  std::optional<WorkerId> Take(uint32_t partition, Offset offset);
  // The reader of the partition has lost its position: the next Follow says it again.
  void Lose(uint32_t partition);

 private:
  struct Reading {
    std::optional<WorkerId> worker;  // none: it is held
    uint64_t lease = 0;
    Offset next = 0;      // records from here on have not been handed out
    bool stands = false;  // at `next`; otherwise it does when it has been sought
    bool seeks = false;   // Follow has said so
  };

  std::map<uint32_t, Reading> readings_;  // by partition; of those that were ever read
};

}  // namespace millrace
