#include "kafka/offset_range.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "kafka/rdkafka_handles.h"
#include "kafka/status_of_error.h"
#include "kafka/topic_metadata.h"

namespace millrace::kafka_internal {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kRetryEvery(20);

int MillisecondsUntil(SteadyClock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - SteadyClock::now());
  return static_cast<int>(std::max<int64_t>(left.count(), 1));
}

// What the cluster says about a partition now. librdkafka 2.0.2 says "unknown partition" of one
// without a leader, too, and goes on saying so from its cache when the leader has come back; this
// request renews the cache.
rd_kafka_resp_err_t AskAboutPartition(rd_kafka_t* client, const std::string& topic,
                                      int32_t partition, int timeout_ms) {
  Handle<const rd_kafka_metadata_t> metadata;
  const rd_kafka_resp_err_t error = RequestTopicMetadata(client, topic, timeout_ms, metadata);
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return error;
  const rd_kafka_metadata_topic_t& found = metadata->topics[0];
  for (int i = 0; i < found.partition_cnt; ++i) {
    if (found.partitions[i].id == partition) {
      return found.partitions[i].leader < 0 ? RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE
                                            : RD_KAFKA_RESP_ERR_NO_ERROR;
    }
  }
  return RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION;
}

}  // namespace

// Kafka's ListOffsets takes the logical offsets where a time is meant. (librdkafka's
// query_watermark_offsets does the same, but waits on when its time has run out.)
StatusOr<Offset> QueryOffset(rd_kafka_t* client, const std::string& topic, int32_t partition,
                             int64_t at, SteadyClock::time_point deadline) {
  const Handle<rd_kafka_topic_partition_list_t> list(rd_kafka_topic_partition_list_new(1));
  rd_kafka_topic_partition_t* const entry =
      rd_kafka_topic_partition_list_add(list.get(), topic.c_str(), partition);
  // What the cluster said last. An attempt that the deadline cuts off says less.
  rd_kafka_resp_err_t told = RD_KAFKA_RESP_ERR__TIMED_OUT;
  while (true) {
    entry->offset = at;
    entry->err = RD_KAFKA_RESP_ERR_NO_ERROR;
    // librdkafka may wait for a topic that is not there as long as it is given; so there is time
    // left to ask about it.
    const int half_ms = std::max(MillisecondsUntil(deadline) / 2, 1);
    rd_kafka_resp_err_t error = rd_kafka_offsets_for_times(client, list.get(), half_ms);
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) error = entry->err;
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return entry->offset;
    if (error == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION || error == RD_KAFKA_RESP_ERR__TIMED_OUT) {
      error = AskAboutPartition(client, topic, partition, MillisecondsUntil(deadline));
      // It has a leader, which came meanwhile or is slow: unavailable, for now.
      if (error == RD_KAFKA_RESP_ERR_NO_ERROR) error = RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE;
    }
    if (error == RD_KAFKA_RESP_ERR__TIMED_OUT) error = told;
    told = error;
    // A topic that has just been made has no leader for a moment, nor has one whose broker starts.
    if (IsPermanent(error) || deadline - SteadyClock::now() <= kRetryEvery) {
      return StatusOfError(error, absl::StrCat("offsets of ", topic, " [", partition, "]"));
    }
    std::this_thread::sleep_for(kRetryEvery);
  }
}

StatusOr<OffsetRange> QueryOffsetRange(rd_kafka_t* client, const std::string& topic,
                                       int32_t partition, std::chrono::milliseconds timeout) {
  const auto deadline = SteadyClock::now() + timeout;
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
