// The rows of input-data that are leased to the workers of a process.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "kafka/consumer.h"
#include "kafka/wakeup.h"
#include "messages/job.pb.h"
#include "processors/input_data_processor.h"
#include "tasks/lease_reader.h"

namespace millrace {

// Reads what the workers want (LeaseReader), from any partition. Used by one thread.
class LeasedInput {
 public:
  using Wish = LeaseReader::Wish;
  struct Handler {
    // What all workers want now, and what this one does; none: nothing.
    std::function<std::vector<Wish>()> wishes;
    std::function<std::optional<Wish>(WorkerId)> wish_of;
    // The record that it wanted, or the next one. An error ends the Poll.
    std::function<Status(WorkerId, const InputDataRecord&)> on_record;
    // What the partition holds; waits for a broker.
    std::function<StatusOr<OffsetRange>(int32_t partition)> range_of;
  };

  // For how long leased rows may be missing before they count as gone for good: they are deleted
  // when `plan` says that they are counted, which this process will read, too.
  static constexpr std::chrono::seconds kPatience{30};

  // `config` and `wakeup`, which is notified of records, outlive it. Errors are
  // PartitionConsumer::Create's.
  static StatusOr<std::unique_ptr<LeasedInput>> Create(
      const JobConfig& config, Wakeup* wakeup, std::chrono::milliseconds patience = kPatience);

  // Hands out about so many records of what has come, without waiting; returns how many events
  // there were. DataLoss: rows that are leased are gone for good. Others are those of
  // PartitionConsumer::Poll.
  StatusOr<size_t> Poll(size_t max_records, const Handler& handler);

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Gone {
    WorkerId worker = 0;  // whose lease
    uint64_t lease = 0;
    Time since{};
    Time retry_at{};
  };

  LeasedInput(std::string topic, std::chrono::milliseconds patience)
      : topic_(std::move(topic)), patience_(patience) {}
  Status Open(const JobConfig& config, Wakeup* wakeup);
  Status Take(const ConsumedRecord& record, const Handler& handler);
  // Follows the wishes, as far as that can be done within a Poll of the consumer.
  void Follow(const Handler& handler);
  Status Seek();
  Status CheckGone(int32_t partition, const Handler& handler);

  const std::string topic_;
  const std::chrono::milliseconds patience_;
  std::unique_ptr<PartitionConsumer> consumer_;
  LeaseReader reader_;
  std::map<int32_t, Offset> seeks_;  // to be done
  std::set<int32_t> held_;           // as the reader has said last
  std::set<int32_t> out_of_range_;
  std::map<int32_t, Gone> gone_;  // partitions of which leased rows were not there
};

}  // namespace millrace
