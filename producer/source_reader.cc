#include "producer/source_reader.h"

#include <chrono>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kafka/timeouts.h"
#include "producer/source_positions.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

// A leader that is new may know only later how far the log is committed.
constexpr seconds kBeyondTimeout(10);
constexpr milliseconds kBetweenLooks(200);
constexpr seconds kNowCall(1);

}  // namespace

StatusOr<std::unique_ptr<SourceReader>> SourceReader::Create(const KafkaOptions& kafka,
                                                             std::string topic,
                                                             const std::atomic<bool>& stop,
                                                             const Names& names) {
  std::unique_ptr<SourceReader> reader(new SourceReader(std::move(topic), kafka, stop, names));
  ConsumerOptions options;
  options.client_id = names.client + "-reader";
  options.read_committed = true;
  options.fetch_wait = kFetchWait;
  MILLRACE_ASSIGN_OR_RETURN(
      reader->consumer_,
      PartitionConsumer::Create(kafka, options, reader->topic_, &reader->wakeup_));
  options.client_id = names.client + "-ranges";
  MILLRACE_ASSIGN_OR_RETURN(reader->ranges_,
                            PartitionConsumer::Create(kafka, options, reader->topic_, nullptr));
  return reader;
}

StatusOr<OffsetRange> SourceReader::RangeNow(int32_t partition) {
  return ranges_->QueryRange(partition, kNowCall);
}

StatusOr<OffsetRange> SourceReader::RangeOf(int32_t partition) {
  return broker_retry_.Run([&] { return ranges_->QueryRange(partition, kBrokerCall); });
}

StatusOr<std::vector<OffsetRange>> SourceReader::Ranges(int32_t partitions) {
  std::vector<OffsetRange> ranges;
  for (int32_t partition = 0; partition < partitions; ++partition) {
    MILLRACE_ASSIGN_OR_RETURN(const OffsetRange range, RangeOf(partition));
    ranges.push_back(range);
  }
  return ranges;
}

StatusOr<std::vector<Offset>> SourceReader::Ends(
    int32_t partitions, const std::function<void(const std::string&)>& tell) {
  ConsumerOptions options;
  options.client_id = names_.client + "-ends";
  options.read_committed = false;  // else an open transaction ends the partition
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<PartitionConsumer> client,
                            PartitionConsumer::Create(kafka_, options, topic_, nullptr));
  std::vector<Offset> ends;
  for (int32_t partition = 0; partition < partitions; ++partition) {
    MILLRACE_ASSIGN_OR_RETURN(const OffsetRange all, broker_retry_.Run([&] {
      return client->QueryRange(partition, kBrokerCall);
    }));
    MILLRACE_ASSIGN_OR_RETURN(const OffsetRange committed, RangeOf(partition));
    ends.push_back(all.end);
    if (committed.end >= all.end) continue;
    tell(absl::StrCat(
        topic_, " [", partition, "]: ", all.end - committed.end, " offsets from ",
        int64_t{committed.end},
        " on belong to a transaction that is open, or stand behind it; waiting until it "
        "has ended"));
  }
  return ends;
}

Status SourceReader::Start(int32_t partition, const Handler& handler) {
  const auto deadline = steady_clock::now() + kBeyondTimeout;
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(const OffsetRange log, RangeOf(partition));
    const Offset next = handler.next_offset(partition);
    switch (GapBefore(next, log).kind) {
      case SourceGap::Kind::kNone:
        return consumer_->Assign(partition, next);
      case SourceGap::Kind::kDeleted:
        MILLRACE_RETURN_IF_ERROR(handler.on_deleted(partition, log.begin));
        return consumer_->Assign(partition, log.begin);
      case SourceGap::Kind::kBeyond:
        break;
    }
    if (stop_) return absl::CancelledError("stopped");
    if (steady_clock::now() > deadline) {
      return absl::FailedPreconditionError(absl::StrCat(
          topic_, " [", partition, "] ends at offset ", int64_t{log.end}, ", but was read up to ",
          int64_t{next}, ": it was deleted and made again, or has lost its end. ", names_.remedy));
    }
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

StatusOr<size_t> SourceReader::Poll(size_t max_records, const Handler& handler) {
  std::set<int32_t> out_of_range;
  ConsumerHandler events;
  events.on_record = handler.on_record;
  events.wants_headers = handler.wants_headers;
  events.on_end = handler.on_end;
  events.on_out_of_range = [&](int32_t partition) {
    out_of_range.insert(partition);
    return absl::OkStatus();
  };
  MILLRACE_ASSIGN_OR_RETURN(const size_t count, consumer_->Poll(max_records, events));
  for (const int32_t partition : out_of_range) {
    MILLRACE_RETURN_IF_ERROR(Start(partition, handler));
  }
  return count;
}

}  // namespace millrace
