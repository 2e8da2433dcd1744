#include "kafka/offset_range.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "kafka/rdkafka_handles.h"
#include "kafka/status_of_error.h"

namespace millrace::kafka_internal {
namespace {

constexpr std::chrono::milliseconds kRetryEvery(20);

// Kafka's ListOffsets takes the logical offsets where a time is meant. (librdkafka's
// query_watermark_offsets does the same, but waits on when its time has run out.)
StatusOr<Offset> QueryOffset(rd_kafka_t* client, const std::string& topic, int32_t partition,
                             int64_t logical, std::chrono::steady_clock::time_point deadline) {
  const Handle<rd_kafka_topic_partition_list_t> list(rd_kafka_topic_partition_list_new(1));
  rd_kafka_topic_partition_t* const entry =
      rd_kafka_topic_partition_list_add(list.get(), topic.c_str(), partition);
  entry->offset = logical;
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    rd_kafka_resp_err_t error = rd_kafka_offsets_for_times(
        client, list.get(), static_cast<int>(std::max<int64_t>(left.count(), 1)));
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) error = entry->err;
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return entry->offset;
    // A topic that has just been made has no leader for a moment, nor has one whose broker starts.
    if (IsPermanent(error) || left <= kRetryEvery) {
      return StatusOfError(error, absl::StrCat("offsets of ", topic, " [", partition, "]"));
    }
    std::this_thread::sleep_for(kRetryEvery);
    entry->offset = logical;
    entry->err = RD_KAFKA_RESP_ERR_NO_ERROR;
  }
}

}  // namespace

StatusOr<OffsetRange> QueryOffsetRange(rd_kafka_t* client, const std::string& topic,
                                       int32_t partition, std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  OffsetRange range;
  MILLRACE_ASSIGN_OR_RETURN(
      range.begin, QueryOffset(client, topic, partition, RD_KAFKA_OFFSET_BEGINNING, deadline));
  MILLRACE_ASSIGN_OR_RETURN(range.end,
                            QueryOffset(client, topic, partition, RD_KAFKA_OFFSET_END, deadline));
  // Records may have been deleted between the two questions.
  range.end = std::max(range.end, range.begin);
  return range;
}

}  // namespace millrace::kafka_internal
