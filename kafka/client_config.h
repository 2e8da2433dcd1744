// How every client of a process is configured. Private to this folder.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "kafka/consumer.h"
#include "kafka/options.h"
#include "kafka/rdkafka_handles.h"

namespace millrace::kafka_internal {

using Settings = std::vector<std::pair<std::string, std::string>>;

// The settings of all clients, overridden by `ours` (those of a kind of client), overridden by the
// user's. Errors: InvalidArgument that names the setting; the value only if it is not a secret.
StatusOr<Handle<rd_kafka_conf_t>> MakeConfiguration(const KafkaOptions& kafka,
                                                    const std::string& client_id,
                                                    const Settings& ours);

StatusOr<Handle<rd_kafka_t>> MakeClient(rd_kafka_type_t type, Handle<rd_kafka_conf_t> conf);

// The settings of every consumer. `queue_kbytes` bounds one fetch queue.
Settings ConsumerSettings(const ConsumerOptions& options, size_t queue_kbytes);

// How many records one fetch queue may hold: a small record costs librdkafka about 300 bytes, so
// that a bound on values' bytes alone would not bound memory.
size_t QueueRecords(size_t queue_kbytes);

}  // namespace millrace::kafka_internal
