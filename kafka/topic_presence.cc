#include "kafka/topic_presence.h"

#include <atomic>

#include "absl/strings/str_cat.h"
#include "kafka/rdkafka_handles.h"
#include "kafka/topic_metadata.h"

namespace millrace::kafka_internal {
namespace {

constexpr std::chrono::seconds kBetweenLooks(1);
constexpr int kLookTimeoutMs = 1000;

std::atomic<uint64_t> unknown_topics_noted = 0;

}  // namespace

bool IsUnknownTopic(rd_kafka_resp_err_t error) {
  return error == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
         error == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC || error == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION;
}

void TopicPresence::NoteUnknownTopic() { ++unknown_topics_noted; }

Status TopicPresence::Check() {
  if (const uint64_t noted = unknown_topics_noted; noted != notes_seen_) {
    notes_seen_ = noted;
    suspected_ = true;
  }
  const auto now = std::chrono::steady_clock::now();
  if (!suspected_ || now < next_look_) return absl::OkStatus();
  next_look_ = now + kBetweenLooks;
  Handle<const rd_kafka_metadata_t> metadata;
  const rd_kafka_resp_err_t error = RequestTopicMetadata(client_, topic_, kLookTimeoutMs, metadata);
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
    suspected_ = false;
    gone_since_.reset();
    return absl::OkStatus();
  }
  if (!IsUnknownTopic(error)) return absl::OkStatus();  // the brokers are away, too
  if (!gone_since_) gone_since_ = now;
  if (now - *gone_since_ < kGone) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(
      "topic '", topic_,
      "' is gone: it was deleted while this program used it. Stop the programs of this "
      "job and start a new one (another --job, or a higher --job-epoch with the job's "
      "other topics and data folders deleted)"));
}

}  // namespace millrace::kafka_internal
