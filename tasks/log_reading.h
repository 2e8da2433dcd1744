// Whether a process reads the weights that its workers share from the log, beside its streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "base/types.h"

namespace millrace {

class SharedWeights;

// Of one shared partition of `weights`. What is published there for those who follow the job has
// all of the model, and is no use to workers whose answers come straight. So the partition is read
// until kEnough records in a row have come by streams only, and again as soon as an answer may be
// lost. (Whether there are streams does not decide: an answer that is too large for one comes
// through Kafka each time.) Not thread-safe.
class LogReading {
 public:
  static constexpr size_t kEnough = 64;

  enum class Way { kStream, kLog };

  bool reads() const { return reads_; }

  // A message that all workers share has come. One that has come the other way before, or answers
  // nobody, does not count.
  void Take(const SharedWeights& shared, Way way);
  // A record of a worker's own has come.
  void TakeOwn(Way way);

  // Whether reading is to end now.
  bool TakeEnd();
  // A stream has ended, or a worker asks again or for the first time. Whether reading is to begin
  // again now, at the partition's end: then whoever waits for an answer is to ask.
  bool Begin();

 private:
  bool IsNew(const SharedWeights& shared);

  bool reads_ = true;
  size_t straight_ = 0;                   // records in a row
  std::map<ShardId, uint64_t> versions_;  // of each shard's last answer
};

}  // namespace millrace
