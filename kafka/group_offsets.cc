#include "kafka/group_offsets.h"

#include "absl/strings/str_cat.h"
#include "kafka/client_config.h"
#include "kafka/consumer.h"
#include "kafka/rdkafka_handles.h"
#include "kafka/status_of_error.h"

namespace millrace {
namespace {

using kafka_internal::Handle;
using kafka_internal::StatusOfError;

// What a client that waits for the group's coordinator was told meanwhile, if waiting does not
// help.
Status TroubleOf(rd_kafka_t* client, const std::string& context) {
  while (rd_kafka_message_t* const message = rd_kafka_consumer_poll(client, 0)) {
    const rd_kafka_resp_err_t error = message->err;
    rd_kafka_message_destroy(message);
    if (kafka_internal::IsPermanent(error)) return StatusOfError(error, context);
  }
  return absl::OkStatus();
}

}  // namespace

// (Not by the admin call that lists a group's offsets: in librdkafka 2.0.2 it crashes while the
// group has no coordinator, as on a cluster that never had a group.)
StatusOr<std::vector<std::optional<Offset>>> CommittedOffsets(const KafkaOptions& kafka,
                                                              const std::string& group,
                                                              const std::string& topic,
                                                              int32_t partitions,
                                                              std::chrono::milliseconds timeout) {
  ConsumerOptions options;
  options.client_id = "committed-offsets";
  options.read_committed = true;  // else offsets of a transaction that may be aborted are told
  kafka_internal::Settings settings = kafka_internal::ConsumerSettings(options, 1024);
  settings.emplace_back("group.id", group);
  MILLRACE_ASSIGN_OR_RETURN(auto conf,
                            kafka_internal::MakeConfiguration(kafka, options.client_id, settings));
  MILLRACE_ASSIGN_OR_RETURN(const auto client,
                            kafka_internal::MakeClient(RD_KAFKA_CONSUMER, std::move(conf)));
  const Handle<rd_kafka_topic_partition_list_t> list(rd_kafka_topic_partition_list_new(partitions));
  for (int32_t partition = 0; partition < partitions; ++partition) {
    rd_kafka_topic_partition_list_add(list.get(), topic.c_str(), partition);
  }
  const std::string context = absl::StrCat("the positions of the group '", group, "' in ", topic);
  const rd_kafka_resp_err_t error =
      rd_kafka_committed(client.get(), list.get(), static_cast<int>(timeout.count()));
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
    MILLRACE_RETURN_IF_ERROR(TroubleOf(client.get(), context));
    return StatusOfError(error, context);
  }
  std::vector<std::optional<Offset>> offsets(static_cast<size_t>(partitions));
  for (int i = 0; i < list->cnt; ++i) {
    const rd_kafka_topic_partition_t& entry = list->elems[i];
    MILLRACE_RETURN_IF_ERROR(StatusOfError(entry.err, context));
    if (entry.offset >= 0) offsets[static_cast<size_t>(entry.partition)] = Offset(entry.offset);
  }
  return offsets;
}

}  // namespace millrace
