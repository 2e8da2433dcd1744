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
