// Makes librdkafka fetch again soon after its queue was full. Private to this folder.
#pragma once

#include <librdkafka/rdkafka.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

namespace millrace::kafka_internal {

// librdkafka 2.0.2 stops fetching into a queue that is full, and looks again only when its broker
// thread wakes up for another reason, else after as long as a second: a reader slower than the
// broker would get one queueful a second. (fetch.error.backoff.ms has no part in it;
// fetch.queue.backoff.ms came with 2.2.) A request to the broker is such a reason, so each time a
// quarter of the queue has been taken out, this class sends the smallest request, a ListOffsets,
// and does not wait for its answer.
class FetchNudge {
 public:
  FetchNudge(rd_kafka_t* client, std::string topic, size_t queue_kbytes);

  // Counts a record taken out of a queue.
  void Taken(int32_t partition, size_t value_bytes) {
    bytes_ += value_bytes;
    ++records_;
    if (partition != last_partition_) Remember(partition);
  }
  // Sends the request when it is time. Does not wait.
  void NudgeIfDue() {
    if (bytes_ >= bytes_per_nudge_ || records_ >= records_per_nudge_) Nudge();
  }

 private:
  void Remember(int32_t partition);
  void Nudge();

  rd_kafka_t* const client_;
  const std::string topic_;
  const size_t bytes_per_nudge_;
  const size_t records_per_nudge_;
  size_t bytes_ = 0;
  size_t records_ = 0;
  int32_t last_partition_ = -1;
  std::set<int32_t> partitions_;  // taken from since the last nudge; their leaders may differ
};

}  // namespace millrace::kafka_internal
