#include "job/trimmer.h"

#include <chrono>

namespace millrace {
namespace {

constexpr std::chrono::milliseconds kDeleteCall = std::chrono::seconds(5);

}  // namespace

void Trimmer::Trim(const std::string& topic, int32_t partition, Offset offset) {
  if (offset <= 0) return;
  worker_.Post(topic + "/" + std::to_string(partition), [this, topic, partition, offset] {
    Offset& done = done_[{topic, partition}];
    if (offset > done && admin_->DeleteRecordsBefore(topic, partition, offset, kDeleteCall).ok()) {
      done = offset;
    }
  });
}

}  // namespace millrace
