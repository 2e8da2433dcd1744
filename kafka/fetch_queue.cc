#include "kafka/fetch_queue.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kafka/client_log.h"
#include "kafka/status_of_error.h"
#include "kafka/topic_presence.h"

namespace millrace::kafka_internal {
namespace {

std::string_view Bytes(const void* data, size_t size) {
  return {static_cast<const char*>(data), size};
}

// What went wrong while reading, if it is not to be mended by waiting.
Status JudgeError(const rd_kafka_message_t& message) {
  std::string place = "reading";
  if (message.rkt != nullptr) {
    absl::StrAppend(&place, " ", rd_kafka_topic_name(message.rkt));
    if (message.partition >= 0) absl::StrAppend(&place, " [", message.partition, "]");
  }
  if (message.err == RD_KAFKA_RESP_ERR__MAX_POLL_EXCEEDED) {
    ClientLog::OfProcess().Line(
        4, "stalled",
        "this process made no progress for longer than its stall timeout (--stall-timeout), so its "
        "partitions were reassigned; it rejoins its consumer group");
    return absl::OkStatus();
  }
  if (IsPermanent(message.err)) {
    return StatusOfError(message.err, place, rd_kafka_message_errstr(&message));
  }
  ClientLog::OfProcess().Line(ClientLog::kWarning, rd_kafka_err2name(message.err),
                              absl::StrCat(place, ": ", rd_kafka_message_errstr(&message)));
  return absl::OkStatus();
}

// Those that cannot be read are as good as none: a broker does not look at them either.
void ReadHeaders(const rd_kafka_message_t& message, std::vector<RecordHeader>& headers) {
  headers.clear();
  rd_kafka_headers_t* found = nullptr;  // the message's
  if (rd_kafka_message_headers(&message, &found) != RD_KAFKA_RESP_ERR_NO_ERROR) return;
  const char* name = nullptr;
  const void* value = nullptr;
  size_t size = 0;
  for (size_t i = 0;
       rd_kafka_header_get_all(found, i, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR; ++i) {
    headers.push_back({name, Bytes(value, size)});
  }
}

bool IsAccepted(ReadPositions::Verdict verdict, int32_t partition, PollResult& result) {
  if (verdict == ReadPositions::Verdict::kRestart) result.restart.push_back(partition);
  return verdict == ReadPositions::Verdict::kAccept;
}

Status HandOutOne(const rd_kafka_message_t& message, const ConsumerHandler& handler,
                  ReadPositions& positions, FetchNudge& nudge, std::vector<RecordHeader>& headers,
                  PollResult& result) {
  switch (message.err) {
    case RD_KAFKA_RESP_ERR_NO_ERROR:
      nudge.Taken(message.partition, message.len);
      if (!IsAccepted(positions.JudgeRecord(message.partition, Offset(message.offset)),
                      message.partition, result)) {
        break;
      }
      ++result.events;
      if (handler.wants_headers) ReadHeaders(message, headers);
      return handler.on_record({.partition = message.partition,
                                .offset = Offset(message.offset),
                                .timestamp_ms = rd_kafka_message_timestamp(&message, nullptr),
                                .key = Bytes(message.key, message.key_len),
                                .value = Bytes(message.payload, message.len),
                                .headers = headers});
    case RD_KAFKA_RESP_ERR__PARTITION_EOF:
      if (!IsAccepted(positions.JudgeEnd(message.partition, Offset(message.offset)),
                      message.partition, result)) {
        break;
      }
      ++result.events;
      if (handler.on_end) handler.on_end(message.partition, Offset(message.offset));
      break;
    case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET:
      switch (positions.JudgeOutOfRange(message.partition, Offset(message.offset))) {
        case ReadPositions::OutOfRange::kIgnore:
          break;
        case ReadPositions::OutOfRange::kRestart:
          result.restart.push_back(message.partition);
          break;
        case ReadPositions::OutOfRange::kReport:
          ++result.events;
          if (handler.on_out_of_range) return handler.on_out_of_range(message.partition);
          break;
      }
      break;
    default:
      if (!IsUnknownTopic(message.err)) return JudgeError(message);
      result.is_topic_unknown = true;
      break;
  }
  return absl::OkStatus();
}

}  // namespace

FetchQueue::FetchQueue(Handle<rd_kafka_queue_t> queue, Wakeup* wakeup,
                       const std::atomic<uint64_t>* closed)
    : queue_(std::move(queue)), closed_(closed) {
  if (wakeup == nullptr) return;
  rd_kafka_queue_cb_event_enable(
      queue_.get(), [](rd_kafka_t*, void* target) { static_cast<Wakeup*>(target)->Notify(); },
      wakeup);
}

FetchQueue::~FetchQueue() {
  rd_kafka_queue_cb_event_enable(queue_.get(), nullptr, nullptr);
  while (next_ < count_) rd_kafka_message_destroy(batch_[next_++]);
}

bool FetchQueue::Refill() {
  const auto count = rd_kafka_consume_batch_queue(queue_.get(), 0, batch_.data(), batch_.size());
  next_ = 0;
  count_ = count > 0 ? static_cast<size_t>(count) : 0;
  return count_ > 0;
}

bool FetchQueue::TakeConnectionLost() {
  if (closed_ == nullptr) return false;
  const uint64_t closed = *closed_;
  return std::exchange(closed_seen_, closed) != closed;
}

Status FetchQueue::HandOut(size_t max_events, const ConsumerHandler& handler,
                           ReadPositions& positions, FetchNudge& nudge, PollResult& result) {
  while (!held_ && result.events < max_events) {
    if (next_ == count_ && !Refill()) break;
    if (handler.on_connection_lost && TakeConnectionLost()) {
      result.is_connection_lost = true;
      break;
    }
    while (next_ < count_ && !held_ && result.events < max_events) {
      rd_kafka_message_t* const message = batch_[next_++];
      const Status status = HandOutOne(*message, handler, positions, nudge, headers_, result);
      rd_kafka_message_destroy(message);
      MILLRACE_RETURN_IF_ERROR(status);
    }
    nudge.NudgeIfDue();
  }
  return absl::OkStatus();
}

void FetchQueue::Drop(int32_t partition) {
  size_t kept = next_;
  for (size_t i = next_; i < count_; ++i) {
    if (batch_[i]->partition == partition) {
      rd_kafka_message_destroy(batch_[i]);
    } else {
      batch_[kept++] = batch_[i];
    }
  }
  count_ = kept;
}

void FetchQueue::DropAll() {
  do {
    while (next_ < count_) rd_kafka_message_destroy(batch_[next_++]);
  } while (Refill());
}

}  // namespace millrace::kafka_internal
