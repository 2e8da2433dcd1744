// Deletes what nobody needs any more, beside the hot path.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "base/types.h"
#include "kafka/admin.h"

namespace millrace {

// One thread; of several positions of a partition only the newest is worth a call. A failed call
// is made good by the next one: deleting only frees space.
class Trimmer {
 public:
  explicit Trimmer(std::unique_ptr<KafkaAdmin> admin);
  ~Trimmer();

  // Records of the partition below `offset` are needed by nobody. Returns at once.
  void Trim(const std::string& topic, int32_t partition, Offset offset);

 private:
  void Run();

  using Place = std::pair<std::string, int32_t>;
  std::unique_ptr<KafkaAdmin> admin_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;           // guarded by mutex_
  std::map<Place, Offset> todo_;  // guarded by mutex_
  std::map<Place, Offset> done_;  // the thread's
  std::thread thread_;            // last: it uses all of the above
};

}  // namespace millrace
