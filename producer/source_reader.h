// The records of a topic that somebody else writes, from given offsets on.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "kafka/broker_retry.h"
#include "kafka/consumer.h"
#include "kafka/options.h"
#include "kafka/wakeup.h"

namespace millrace {

// Reads committed records. Used by one thread.
class SourceReader {
 public:
  // What the owner does with what comes; each gets a partition and an offset.
  struct Handler {
    std::function<Status(const ConsumedRecord&)> on_record;
    // There are no records before `end` that were not handed out.
    std::function<void(int32_t partition, Offset end)> on_end;
    // Where reading of the partition is to go on.
    std::function<Offset(int32_t partition)> next_offset;
    // The records from there to `begin` were deleted. An error ends the Poll with it; else reading
    // goes on at `begin`, which next_offset then says.
    std::function<Status(int32_t partition, Offset begin)> on_deleted;
    bool wants_headers = false;
  };
  // What the program that reads is called.
  struct Names {
    std::string client = "topic-source";  // the beginning of its clients' names
    // What to do about a topic that ends before what was read of it.
    std::string remedy = "Start a new job (another --job)";
  };

  // `stop` outlives the reader.
  static StatusOr<std::unique_ptr<SourceReader>> Create(const KafkaOptions& kafka,
                                                        std::string topic,
                                                        const std::atomic<bool>& stop,
                                                        const Names& names);
  // For TopicSource.
  static StatusOr<std::unique_ptr<SourceReader>> Create(const KafkaOptions& kafka,
                                                        std::string topic,
                                                        const std::atomic<bool>& stop) {
    return Create(kafka, std::move(topic), stop, Names());
  }

  // Waits for a broker. Errors: NotFound; Cancelled.
  StatusOr<std::vector<OffsetRange>> Ranges(int32_t partitions);
  // Where partitions 0, 1, .. end now, the records of open transactions included, which are read
  // when these have ended: a line is told of each partition that has some. Errors as of Ranges.
  StatusOr<std::vector<Offset>> Ends(int32_t partitions,
                                     const std::function<void(const std::string&)>& tell);
  // Begins with a partition, at handler.next_offset(). FailedPrecondition: the log ends before.
  Status Start(int32_t partition, const Handler& handler);
  // Reads no more of a partition until it is started again.
  Status Hold(int32_t partition) { return consumer_->Unassign(partition); }
  // Of now, without retries. Unavailable or DeadlineExceeded: no broker answers.
  StatusOr<OffsetRange> RangeNow(int32_t partition);
  // Hands out at most `max_records`; returns how many events there were.
  StatusOr<size_t> Poll(size_t max_records, const Handler& handler);
  // Returns when there is something to Poll, or after `timeout`.
  void Wait(std::chrono::milliseconds timeout) { wakeup_.WaitFor(timeout); }

 private:
  SourceReader(std::string topic, const KafkaOptions& kafka, const std::atomic<bool>& stop,
               Names names)
      : topic_(std::move(topic)),
        kafka_(kafka),
        names_(std::move(names)),
        stop_(stop),
        broker_retry_(stop, kafka.broker_timeout_s) {}

  StatusOr<OffsetRange> RangeOf(int32_t partition);

  const std::string topic_;
  const KafkaOptions kafka_;
  const Names names_;
  const std::atomic<bool>& stop_;
  const BrokerRetry broker_retry_;
  Wakeup wakeup_;
  std::unique_ptr<PartitionConsumer> consumer_;
  // A client whose connection waits for records answers a question about offsets only after that.
  std::unique_ptr<PartitionConsumer> ranges_;
};

}  // namespace millrace
