#include "producer/partition_tails.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kafka/consumer.h"
#include "kafka/known_end.h"
#include "kafka/overdue_end.h"
#include "kafka/timeouts.h"
#include "kafka/wakeup.h"
#include "producer/tail_ends.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr milliseconds kQueryTimeout = seconds(2);
constexpr seconds kReadTimeout(30);
// A broker works off what a closed connection had sent within milliseconds; and a live producer
// sends more often than this.
constexpr milliseconds kStill(400);
constexpr seconds kStillTimeout(10);

class TailReader {
 public:
  TailReader(const TailReading& reading, const std::atomic<bool>& stop)
      : reading_(reading), stop_(stop), ends_(reading.partitions) {}

  Status Open(const KafkaOptions& kafka) {
    ConsumerOptions options;
    options.client_id = "csv-producer-resume";
    options.queue_kbytes = 1024;
    options.read_committed = true;  // TopicSource writes in transactions
    MILLRACE_ASSIGN_OR_RETURN(consumer_,
                              PartitionConsumer::Create(kafka, options, reading_.topic, &wakeup_));
    return absl::OkStatus();
  }

  StatusOr<std::vector<PartitionTail>> Read() {
    const auto deadline = steady_clock::now() + kStillTimeout;
    MILLRACE_ASSIGN_OR_RETURN(std::vector<OffsetRange> ranges, Ranges());
    ends_.Take(ranges);
    while (true) {
      std::vector<PartitionTail> tails;
      for (uint32_t i = 0; i < reading_.partitions; ++i) {
        MILLRACE_ASSIGN_OR_RETURN(PartitionTail tail, ReadTail(i, ranges[i].begin));
        tails.push_back(std::move(tail));
      }
      if (reading_.untouched) return tails;
      TailEnds::News news = TailEnds::News::kBack;
      while (news == TailEnds::News::kBack) {
        MILLRACE_RETURN_IF_ERROR(Sleep(kStill));
        MILLRACE_ASSIGN_OR_RETURN(ranges, Ranges());
        news = ends_.Take(ranges);
        if (news == TailEnds::News::kNone) return tails;
        if (steady_clock::now() > deadline) return NotStill();
      }
    }
  }

 private:
  Status NotStill() const {
    if (const auto& back = ends_.went_back()) {
      return EndOfBefore(reading_.topic, static_cast<int32_t>(back->partition), back->told,
                         ends_.known(back->partition));
    }
    return absl::FailedPreconditionError(
        absl::StrCat("another producer is writing to ", reading_.topic,
                     ": a job has one CsvProducer or TopicSource; stop that one, or start a new "
                     "job (--job)"));
  }

  std::string Name(size_t partition) const {
    return absl::StrCat(reading_.topic, " [", partition, "]");
  }

  Status CheckStop() const { return stop_ ? absl::CancelledError("stopped") : absl::OkStatus(); }

  Status Sleep(milliseconds time) const {
    for (; time > milliseconds(0); time -= kPoll) {
      MILLRACE_RETURN_IF_ERROR(CheckStop());
      std::this_thread::sleep_for(std::min(time, kPoll));
    }
    return absl::OkStatus();
  }

  StatusOr<std::vector<OffsetRange>> Ranges() {
    std::vector<OffsetRange> ranges;
    for (uint32_t i = 0; i < reading_.partitions; ++i) {
      MILLRACE_RETURN_IF_ERROR(CheckStop());
      MILLRACE_ASSIGN_OR_RETURN(const OffsetRange range,
                                consumer_->QueryRange(static_cast<int32_t>(i), kQueryTimeout));
      ranges.push_back(range);
    }
    return ranges;
  }

  // Up to the end that is known.
  StatusOr<PartitionTail> ReadTail(uint32_t partition, Offset begin) {
    foreign_.clear();
    const Offset end = ends_.known(partition);
    if (end == 0) return PartitionTail();
    // The last offsets may be without a record, so look further and further back.
    for (int64_t back = 1; begin < end; back *= 16) {
      const Offset from = std::max(begin, end - back);
      MILLRACE_ASSIGN_OR_RETURN(std::optional<PartitionTail> tail, LastFrom(partition, from));
      if (tail) return std::move(*tail);
      if (from == begin) break;
    }
    // Offsets without records are those of transactions that were aborted.
    if (begin == 0 && foreign_.empty()) return PartitionTail();
    return absl::FailedPreconditionError(absl::StrCat(
        Name(partition),
        foreign_.empty()
            ? std::string(": all its rows were deleted")
            : absl::StrCat(
                  " holds records, but none is a row of this job (the last one: ", foreign_, ")"),
        ", so the next row number is unknown: start a new job (another --job)"));
  }

  // The last record at or after `offset` and before the known end, or somewhat after that, if there
  // is one.
  StatusOr<std::optional<PartitionTail>> LastFrom(uint32_t partition, Offset offset) {
    const auto id = static_cast<int32_t>(partition);
    std::optional<PartitionTail> last;
    KnownEnd end(ends_.known(partition));
    ConsumerHandler handler;
    handler.on_record = [&](const ConsumedRecord& record) {
      StatusOr<PartitionTail> tail = TailOfRecord(record.key, record.value, reading_.shape);
      if (absl::IsNotFound(tail.status())) return absl::OkStatus();
      // Somebody else's record is a worker's business: it goes to the dead letters.
      if (!tail.ok()) {
        foreign_ = std::string(tail.status().message());
        return absl::OkStatus();
      }
      last = *std::move(tail);
      return absl::OkStatus();
    };
    handler.on_end = [&](int32_t, Offset met) {
      end.Meet(met, steady_clock::now());
      ends_.NoteRead(partition, met);
    };
    handler.on_out_of_range = [&](int32_t) {
      return absl::UnavailableError(
          absl::StrCat("records of ", Name(partition),
                       " were deleted while they were read; start the producer again"));
    };
    MILLRACE_RETURN_IF_ERROR(consumer_->Assign(id, offset));
    const auto deadline = steady_clock::now() + kReadTimeout;
    while (!end.is_reached()) {
      MILLRACE_RETURN_IF_ERROR(CheckStop());
      MILLRACE_RETURN_IF_ERROR(CheckOverdueEnd(end, *consumer_, reading_.topic, id));
      if (steady_clock::now() > deadline) {
        return absl::DeadlineExceededError(
            absl::StrCat("reading the end of ", Name(partition), " timed out; check the brokers"));
      }
      MILLRACE_ASSIGN_OR_RETURN(const size_t events, consumer_->Poll(1000, handler));
      if (events == 0) wakeup_.WaitFor(kPoll);
    }
    MILLRACE_RETURN_IF_ERROR(consumer_->Unassign(id));
    return last;
  }

  const TailReading& reading_;
  const std::atomic<bool>& stop_;
  Wakeup wakeup_;
  std::unique_ptr<PartitionConsumer> consumer_;
  TailEnds ends_;
  std::string foreign_;  // why the newest record of this partition that is no row is none
};

}  // namespace

StatusOr<std::vector<PartitionTail>> ReadTails(const KafkaOptions& kafka,
                                               const TailReading& reading,
                                               const std::atomic<bool>& stop) {
  TailReader reader(reading, stop);
  MILLRACE_RETURN_IF_ERROR(reader.Open(kafka));
  return reader.Read();
}

}  // namespace millrace
