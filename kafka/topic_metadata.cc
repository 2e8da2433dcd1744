#include "kafka/topic_metadata.h"

namespace millrace::kafka_internal {

rd_kafka_resp_err_t RequestTopicMetadata(rd_kafka_t* client, const std::string& topic,
                                         int timeout_ms,
                                         Handle<const rd_kafka_metadata_t>& metadata) {
  const Handle<rd_kafka_topic_t> handle(rd_kafka_topic_new(client, topic.c_str(), nullptr));
  if (handle == nullptr) return rd_kafka_last_error();
  const rd_kafka_metadata_t* raw = nullptr;
  const rd_kafka_resp_err_t error = rd_kafka_metadata(client, 0, handle.get(), &raw, timeout_ms);
  metadata.reset(raw);
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return error;
  return metadata->topic_cnt == 1 ? metadata->topics[0].err : RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC;
}

}  // namespace millrace::kafka_internal
