#include "kafka/fetch_nudge.h"

#include <utility>

#include "kafka/client_config.h"
#include "kafka/rdkafka_handles.h"

namespace millrace::kafka_internal {

FetchNudge::FetchNudge(rd_kafka_t* client, std::string topic, size_t queue_kbytes)
    : client_(client),
      topic_(std::move(topic)),
      bytes_per_nudge_(queue_kbytes * 1024 / 4),
      records_per_nudge_(QueueRecords(queue_kbytes) / 4) {}

void FetchNudge::Remember(int32_t partition) {
  partitions_.insert(partition);
  last_partition_ = partition;
}

void FetchNudge::Nudge() {
  const Handle<rd_kafka_topic_partition_list_t> list(
      rd_kafka_topic_partition_list_new(static_cast<int>(partitions_.size())));
  for (const int32_t partition : partitions_) {
    rd_kafka_topic_partition_list_add(list.get(), topic_.c_str(), partition)->offset =
        RD_KAFKA_OFFSET_END;
  }
  // With a timeout of 0 this sends and returns (_TIMED_OUT); the late answer is dropped.
  static_cast<void>(rd_kafka_offsets_for_times(client_, list.get(), 0));
  bytes_ = 0;
  records_ = 0;
  partitions_.clear();
  last_partition_ = -1;
}

}  // namespace millrace::kafka_internal
