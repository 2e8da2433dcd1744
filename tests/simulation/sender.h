// What a process has handed to its Kafka client and the broker has not got yet.
#pragma once

#include <deque>
#include <map>
#include <utility>

#include "tests/simulation/random.h"
#include "topics/outgoing_record.h"

namespace millrace::simulation {

// Any order between partitions, never inside one. Not thread-safe.
class Sender {
 public:
  void Send(OutgoingRecord record) {
    queues_[{record.topic, record.partition}].push_back(std::move(record));
  }
  bool empty() const { return queues_.empty(); }

  // The record that arrives next, of a partition drawn by `random`. REQUIRES !empty()
  OutgoingRecord& Front(Random& random) {
    auto queue = queues_.begin();
    std::advance(queue, static_cast<ptrdiff_t>(random.Below(queues_.size())));
    chosen_ = queue->first;
    return queue->second.front();
  }
  // It has arrived.
  void PopFront() {
    const auto queue = queues_.find(chosen_);
    queue->second.pop_front();
    if (queue->second.empty()) queues_.erase(queue);
  }

  // The process has died: of each partition some first records are on their way, the others are
  // lost.
  void Cut(Random& random) {
    for (auto queue = queues_.begin(); queue != queues_.end();) {
      queue->second.resize(random.Below(queue->second.size() + 1));
      queue = queue->second.empty() ? queues_.erase(queue) : std::next(queue);
    }
  }
  void Clear() { queues_.clear(); }

 private:
  using Place = std::pair<Topic, int32_t>;
  std::map<Place, std::deque<OutgoingRecord>> queues_;  // none is empty
  Place chosen_;
};

}  // namespace millrace::simulation
