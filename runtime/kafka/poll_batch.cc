#include "runtime/kafka/poll_batch.h"

#include <algorithm>
#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/kafka/client_log.h"
#include "runtime/kafka/status_of_error.h"

namespace millrace::kafka_internal {
namespace {

std::string_view Bytes(const void* data, size_t size) {
  return {static_cast<const char*>(data), size};
}

// What went wrong while reading, if it is not to be mended by waiting.
Status JudgeError(const rd_kafka_message_t& message) {
  std::string place = "reading";
  if (message.rkt != nullptr) {
    absl::StrAppend(&place, " ", rd_kafka_topic_name(message.rkt), " [", message.partition, "]");
  }
  if (IsPermanent(message.err)) {
    return StatusOfError(message.err, place, rd_kafka_message_errstr(&message));
  }
  ClientLog::OfProcess().Line(
      4, rd_kafka_err2name(message.err),
      absl::StrCat(place, ": ", rd_kafka_message_errstr(&message)));
  return absl::OkStatus();
}

Status Dispatch(const rd_kafka_message_t& message, const ConsumerHandler& handler,
                ReadPositions& positions, FetchNudge& nudge, BatchResult& result) {
  switch (message.err) {
    case RD_KAFKA_RESP_ERR_NO_ERROR:
      nudge.Taken(message.partition, message.len);
      if (!positions.AcceptRecord(message.partition, message.offset)) break;
      ++result.events;
      handler.on_record({.partition = message.partition,
                         .offset = message.offset,
                         .timestamp_ms = rd_kafka_message_timestamp(&message, nullptr),
                         .key = Bytes(message.key, message.key_len),
                         .value = Bytes(message.payload, message.len)});
      break;
    case RD_KAFKA_RESP_ERR__PARTITION_EOF:
      if (!positions.AcceptEnd(message.partition, message.offset)) break;
      ++result.events;
      if (handler.on_end) handler.on_end(message.partition, message.offset);
      break;
    case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET:
      switch (positions.JudgeOutOfRange(message.partition, message.offset)) {
        case ReadPositions::OutOfRange::kIgnore:
          break;
        case ReadPositions::OutOfRange::kRestart:
          result.restart.push_back(message.partition);
          break;
        case ReadPositions::OutOfRange::kReport:
          ++result.events;
          if (handler.on_out_of_range) handler.on_out_of_range(message.partition);
          break;
      }
      break;
    default:
      return JudgeError(message);
  }
  return absl::OkStatus();
}

}  // namespace

Status PollBatches(rd_kafka_queue_t* queue, size_t max_events, const ConsumerHandler& handler,
                   ReadPositions& positions, FetchNudge& nudge, BatchResult& result) {
  std::array<rd_kafka_message_t*, 256> batch;
  while (result.events < max_events) {
    const size_t wanted = std::min(batch.size(), max_events - result.events);
    const auto count = rd_kafka_consume_batch_queue(queue, 0, batch.data(), wanted);
    Status status;
    for (int64_t i = 0; i < count; ++i) {
      // After an error the rest of the batch is dropped: nothing of this consumer is of use then.
      if (status.ok()) status = Dispatch(*batch[i], handler, positions, nudge, result);
      rd_kafka_message_destroy(batch[i]);
    }
    MILLRACE_RETURN_IF_ERROR(status);
    nudge.NudgeIfDue();
    if (count < static_cast<int64_t>(wanted)) return absl::OkStatus();
  }
  result.drained = false;
  return absl::OkStatus();
}

}  // namespace millrace::kafka_internal
