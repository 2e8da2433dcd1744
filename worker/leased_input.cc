#include "worker/leased_input.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "job/kafka_options.h"
#include "kafka/timeouts.h"
#include "topics/topics.h"

namespace millrace {
namespace {

using std::chrono::steady_clock;

// Bounds on what is fetched ahead: of all partitions, and of one.
constexpr size_t kAheadKbytes = 16'384;
constexpr size_t kLeastAheadKbytes = 256;
constexpr size_t kMostAheadKbytes = 4'096;
constexpr std::chrono::milliseconds kReadAgainAfter(500);

}  // namespace

StatusOr<std::unique_ptr<LeasedInput>> LeasedInput::Create(const JobConfig& config, Wakeup* wakeup,
                                                           std::chrono::milliseconds patience) {
  std::unique_ptr<LeasedInput> input(
      new LeasedInput(TopicName(config.name(), Topic::kInputData), patience));
  MILLRACE_RETURN_IF_ERROR(input->Open(config, wakeup));
  return input;
}

Status LeasedInput::Open(const JobConfig& config, Wakeup* wakeup) {
  ConsumerOptions options;
  options.client_id = "worker-input";
  options.fetch_wait = kFetchWait;
  options.read_committed = true;  // numbers of rows whose transaction was aborted are given anew
  options.holds_partitions = true;
  options.queue_kbytes =
      std::clamp(kAheadKbytes / config.workers(), kLeastAheadKbytes, kMostAheadKbytes);
  MILLRACE_ASSIGN_OR_RETURN(
      consumer_, PartitionConsumer::Create(ToKafkaOptions(config), options, topic_, wakeup));
  return absl::OkStatus();
}

StatusOr<size_t> LeasedInput::Poll(size_t max_records, const Handler& handler) {
  Follow(handler);
  MILLRACE_RETURN_IF_ERROR(Seek());
  ConsumerHandler records;
  records.on_record = [&](const ConsumedRecord& record) { return Take(record, handler); };
  records.on_out_of_range = [this](int32_t partition) {
    out_of_range_.insert(partition);
    return absl::OkStatus();
  };
  MILLRACE_ASSIGN_OR_RETURN(const size_t events, consumer_->Poll(max_records, records));
  for (const int32_t partition : std::exchange(out_of_range_, {})) {
    MILLRACE_RETURN_IF_ERROR(CheckGone(partition, handler));
  }
  MILLRACE_RETURN_IF_ERROR(Seek());
  return events;
}

Status LeasedInput::Take(const ConsumedRecord& record, const Handler& handler) {
  const std::optional<WorkerId> worker =
      reader_.Take(static_cast<uint32_t>(record.partition), record.offset);
  if (!worker) return absl::OkStatus();
  gone_.erase(record.partition);
  const std::optional<Wish> before = handler.wish_of(*worker);
  MILLRACE_RETURN_IF_ERROR(
      handler.on_record(*worker, {record.offset, record.timestamp_ms, record.key, record.value}));
  const std::optional<Wish> now = handler.wish_of(*worker);
  const bool goes_on =
      before && now && before->lease == now->lease && before->partition == now->partition;
  if (!goes_on) Follow(handler);
  return absl::OkStatus();
}

void LeasedInput::Follow(const Handler& handler) {
  std::vector<Wish> wishes = handler.wishes();
  if (!gone_.empty()) {
    const Time now = steady_clock::now();
    std::erase_if(wishes, [&](const Wish& wish) {
      const auto gone = gone_.find(static_cast<int32_t>(wish.partition));
      return gone != gone_.end() && now < gone->second.retry_at;
    });
  }
  for (const LeaseReader::Step& step : reader_.Follow(wishes)) {
    const auto partition = static_cast<int32_t>(step.partition);
    // What would be handed out before the seek is nobody's.
    const bool is_held = step.kind != LeaseReader::Step::Kind::kGoOn;
    consumer_->Hold(partition, is_held);
    if (step.kind == LeaseReader::Step::Kind::kSeek) seeks_[partition] = step.offset;
    if (step.kind == LeaseReader::Step::Kind::kHold) {
      held_.insert(partition);
    } else {
      held_.erase(partition);
    }
  }
}

Status LeasedInput::Seek() {
  for (const auto& [partition, offset] : std::exchange(seeks_, {})) {
    MILLRACE_RETURN_IF_ERROR(consumer_->Assign(partition, offset));
    if (held_.contains(partition)) consumer_->Hold(partition, true);
    reader_.Sought(static_cast<uint32_t>(partition));
  }
  return absl::OkStatus();
}

// Another instance of the worker may have got through with the lease. (When `plan` says so, its
// task here is begun anew, and wants other rows.)
Status LeasedInput::CheckGone(int32_t partition, const Handler& handler) {
  reader_.Lose(static_cast<uint32_t>(partition));
  seeks_.erase(partition);
  MILLRACE_RETURN_IF_ERROR(consumer_->Unassign(partition));
  const Time now = steady_clock::now();
  Gone& gone = gone_[partition];
  gone.retry_at = now + kReadAgainAfter;
  MILLRACE_ASSIGN_OR_RETURN(const OffsetRange range, handler.range_of(partition));
  for (const Wish& wish : handler.wishes()) {
    if (static_cast<int32_t>(wish.partition) != partition) continue;
    if (wish.offset >= range.begin && wish.offset <= range.end) continue;
    const bool is_known = gone.worker == wish.worker && gone.lease == wish.lease;
    if (!is_known || gone.since == Time()) {
      gone = {.worker = wish.worker, .lease = wish.lease, .since = now, .retry_at = gone.retry_at};
    }
    if (wish.offset <= range.end && now - gone.since <= patience_) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(
        topic_, ", partition ", partition, " has offsets ", int64_t{range.begin}, " to ",
        int64_t{range.end}, ", but rows at offset ", int64_t{wish.offset}, " are leased to worker ",
        uint32_t{wish.worker},
        " and not counted: they were deleted, or the topic was deleted and created anew. Start a "
        "new job (another --job)"));
  }
  return absl::OkStatus();
}

}  // namespace millrace
