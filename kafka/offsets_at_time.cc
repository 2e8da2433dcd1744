#include "kafka/offsets_at_time.h"

#include "kafka/client_config.h"
#include "kafka/consumer.h"
#include "kafka/offset_range.h"
#include "kafka/rdkafka_handles.h"

namespace millrace {

StatusOr<std::vector<Offset>> OffsetsAtTime(const KafkaOptions& kafka, const std::string& topic,
                                            int32_t partitions, int64_t timestamp_ms,
                                            std::chrono::milliseconds timeout) {
  ConsumerOptions options;
  options.client_id = "offsets-at-time";
  MILLRACE_ASSIGN_OR_RETURN(
      auto conf, kafka_internal::MakeConfiguration(
                     kafka, options.client_id, kafka_internal::ConsumerSettings(options, 1024)));
  MILLRACE_ASSIGN_OR_RETURN(const auto client,
                            kafka_internal::MakeClient(RD_KAFKA_CONSUMER, std::move(conf)));
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::vector<Offset> offsets;
  for (int32_t partition = 0; partition < partitions; ++partition) {
    MILLRACE_ASSIGN_OR_RETURN(
        const Offset offset,
        kafka_internal::QueryOffset(client.get(), topic, partition, timestamp_ms, deadline));
    // Kafka says of none what stands for the end.
    offsets.push_back(offset < 0 ? Offset(-1) : offset);
  }
  return offsets;
}

}  // namespace millrace
