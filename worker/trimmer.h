// Deletes what nobody needs any more, beside the hot path.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/background_worker.h"
#include "base/types.h"
#include "kafka/admin.h"

namespace millrace {

// Of several positions of a partition only the newest is worth a call. A failed call is made good
// by the next one: deleting only frees space. For the owner's thread.
class Trimmer {
 public:
  explicit Trimmer(std::unique_ptr<KafkaAdmin> admin) : admin_(std::move(admin)) {}

  // Records of the partition below `offset` are needed by nobody. Returns at once.
  void Trim(const std::string& topic, int32_t partition, Offset offset);

 private:
  using Place = std::pair<std::string, int32_t>;
  std::unique_ptr<KafkaAdmin> admin_;  // the worker's, as is done_
  std::map<Place, Offset> done_;
  BackgroundWorker worker_;  // last: it uses all of the above
};

}  // namespace millrace
