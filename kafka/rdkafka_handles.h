// Owners of librdkafka's C objects. Private to this folder.
#pragma once

#include <librdkafka/rdkafka.h>

#include <memory>

namespace millrace::kafka_internal {

struct HandleDeleter {
  // Skips librdkafka's own leaving of a consumer group, which may wait for ever for a coordinator
  // that is unreachable; GroupConsumer leaves before.
  void operator()(rd_kafka_t* p) const {
    rd_kafka_destroy_flags(p, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
  }
  void operator()(rd_kafka_conf_t* p) const { rd_kafka_conf_destroy(p); }
  void operator()(rd_kafka_topic_conf_t* p) const { rd_kafka_topic_conf_destroy(p); }
  void operator()(rd_kafka_topic_t* p) const { rd_kafka_topic_destroy(p); }
  void operator()(rd_kafka_topic_partition_list_t* p) const {
    rd_kafka_topic_partition_list_destroy(p);
  }
  void operator()(rd_kafka_headers_t* p) const { rd_kafka_headers_destroy(p); }
  void operator()(rd_kafka_consumer_group_metadata_t* p) const {
    rd_kafka_consumer_group_metadata_destroy(p);
  }
  void operator()(rd_kafka_error_t* p) const { rd_kafka_error_destroy(p); }
  void operator()(rd_kafka_event_t* p) const { rd_kafka_event_destroy(p); }
  void operator()(rd_kafka_queue_t* p) const { rd_kafka_queue_destroy(p); }
  void operator()(const rd_kafka_metadata_t* p) const { rd_kafka_metadata_destroy(p); }
  void operator()(rd_kafka_AdminOptions_t* p) const { rd_kafka_AdminOptions_destroy(p); }
  void operator()(rd_kafka_NewTopic_t* p) const { rd_kafka_NewTopic_destroy(p); }
  void operator()(rd_kafka_DeleteTopic_t* p) const { rd_kafka_DeleteTopic_destroy(p); }
  void operator()(rd_kafka_ConfigResource_t* p) const { rd_kafka_ConfigResource_destroy(p); }
  void operator()(rd_kafka_DeleteRecords_t* p) const { rd_kafka_DeleteRecords_destroy(p); }
};

// All other handles of a client must be destroyed before its Handle<rd_kafka_t>, whose destruction
// otherwise waits for ever: declare that one first.
template <typename T>
using Handle = std::unique_ptr<T, HandleDeleter>;

}  // namespace millrace::kafka_internal
