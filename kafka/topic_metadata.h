// What the cluster says about one topic. Private to this folder.
#pragma once

#include <librdkafka/rdkafka.h>

#include <string>

#include "kafka/rdkafka_handles.h"

namespace millrace::kafka_internal {

// Asks the cluster, and waits at most `timeout_ms` for the answer, which renews the client's cache.
// Returns the error of the request, or else of the topic; when there is none (or the topic lacks
// a leader only), topics[0] of `metadata` is the topic.
rd_kafka_resp_err_t RequestTopicMetadata(rd_kafka_t* client, const std::string& topic,
                                         int timeout_ms,
                                         Handle<const rd_kafka_metadata_t>& metadata);

}  // namespace millrace::kafka_internal
