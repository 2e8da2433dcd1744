// Deletes records that are no longer needed, in the background of the hot path.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/background_worker.h"
#include "base/types.h"
#include "kafka/admin.h"

namespace millrace {

// Of several positions of a partition only the newest is sent. A failed call is not repeated: the
// next one deletes more. For the owner's thread.
class Trimmer {
 public:
  explicit Trimmer(std::unique_ptr<KafkaAdmin> admin) : admin_(std::move(admin)) {}

  // Deletes records of the partition below `offset`, which are no longer needed. Returns at once.
  void Trim(const std::string& topic, int32_t partition, Offset offset);

 private:
  using Place = std::pair<std::string, int32_t>;
  std::unique_ptr<KafkaAdmin> admin_;  // the worker's, as is done_
  std::map<Place, Offset> done_;
  BackgroundWorker worker_;  // last: it uses all of the above
};

}  // namespace millrace
