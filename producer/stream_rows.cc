#include "producer/stream_rows.h"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "features/quoted_value.h"
#include "producer/flush_times.h"
#include "producer/outlier_watch.h"
#include "producer/progress_text.h"
#include "producer/row_batches.h"
#include "producer/row_fingerprint.h"
#include "producer/target_watch.h"
#include "topics/partitioning.h"
#include "topics/row_codec.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;

// Between two looks at the world around: short for a person, long for the loop.
constexpr milliseconds kLook(20);
// Sleeps are hardly shorter than this, so at high rates rows go in bursts of this length.
constexpr milliseconds kBurst(1);
constexpr uint64_t kRowsPerLook = 64;
// How long rows wait for others of their partition at most (RowBatches): where they come at a pace
// they are wanted soon; a file fills records faster than this. (A pipe that has become silent looks
// once more after five milliseconds.)
constexpr milliseconds kLinger(5);
constexpr milliseconds kLingerUnpaced(20);
// A gap in the recorded times that makes a person wonder.
constexpr std::chrono::minutes kLongGap(1);

class Streamer {
 public:
  Streamer(CsvStream& stream, const ResumePlan& plan, Pacer& pacer, RowSender& sender,
           const StreamSurroundings& around, StreamCounts& counts)
      : stream_(stream),
        plan_(plan),
        pacer_(pacer),
        sender_(sender),
        around_(around),
        counts_(counts),
        workers_(static_cast<uint32_t>(plan.tails().size())),
        fingerprints_(workers_),
        outliers_(stream.encoder().numeric_count()),
        batches_(workers_, pacer.unpaced() && !stream.is_live() ? kLingerUnpaced : kLinger),
        flushes_(workers_),
        now_(around.now()) {
    for (WorkerId worker = 0; worker < plan.dealing().workers; ++worker) {
      const PartitionTail& tail = plan.tails()[worker];
      if (!tail.ended) flushes_.Add(worker, tail.rows, now_);  // one follows them, maybe once more
      if (tail.ended) {
        only_the_end_tells_ = true;
      } else if (tail.rows > 0) {
        ++rows_to_check_;
      }
    }
  }

  ~Streamer() { stream_.set_while_waiting(nullptr); }
  Streamer(const Streamer&) = delete;
  Streamer& operator=(const Streamer&) = delete;

  Status Run() {
    // A pipe may be silent for long: what was sent is delivered, and known to be, all the same.
    stream_.set_while_waiting([this]() -> Status {
      MILLRACE_RETURN_IF_ERROR(CheckCaughtUp());
      MILLRACE_RETURN_IF_ERROR(SendDue());
      MILLRACE_RETURN_IF_ERROR(sender_.Wait(milliseconds(0)));
      return Look();
    });
    MILLRACE_RETURN_IF_ERROR(AcceptIfChecked());
    // Workers that get no rows need not wait for the last one.
    for (WorkerId worker(plan_.dealing().workers); worker < workers_; ++worker) {
      MILLRACE_RETURN_IF_ERROR(SendEnd(worker, RowNumber(0)));
    }
    const Status sent = SendRows();
    // What has been read goes out if there is room. (A pipe cannot be read again.)
    if (absl::IsCancelled(sent)) (void)SendAll();
    MILLRACE_RETURN_IF_ERROR(sent);
    if (stream_.accepted() == 0) {
      return absl::FailedPreconditionError(
          stream_.rows_read() == 0
              ? std::string("the input has a header but no rows")
              : absl::StrCat("none of the ", stream_.rows_read(),
                             " rows of the input can be used; the last: ", stream_.last_reason()));
    }
    MILLRACE_RETURN_IF_ERROR(plan_.CheckEnd(stream_.accepted(), sender_.topic()));
    for (WorkerId worker = 0; worker < workers_; ++worker) {
      MILLRACE_RETURN_IF_ERROR(
          plan_.CheckFingerprint(worker, fingerprints_[worker].value(), sender_.topic()));
    }
    MILLRACE_RETURN_IF_ERROR(Accept());
    return SendEnds();
  }

 private:
  // At the first time that a file that is followed has no more lines.
  Status CheckCaughtUp() {
    if (caught_up_ || !stream_.is_followed()) return absl::OkStatus();
    caught_up_ = true;
    MILLRACE_RETURN_IF_ERROR(plan_.CheckFollowed(stream_.accepted(), sender_.topic()));
    if (around_.caught_up) around_.caught_up();
    return absl::OkStatus();
  }

  // Of a partition that has ended, the rows are compared at its end, by their number and
  // fingerprint.
  Status AcceptIfChecked() {
    return rows_to_check_ == 0 && !only_the_end_tells_ ? Accept() : absl::OkStatus();
  }

  Status Accept() {
    if (counts_.accepted) return absl::OkStatus();
    counts_.accepted = true;
    return around_.accept ? around_.accept() : absl::OkStatus();
  }

  Status Look() {
    if (around_.stop->load(std::memory_order_relaxed)) return absl::CancelledError("stopped");
    return around_.tick();
  }

  Status SendRows() {
    StreamRecord record;
    for (uint64_t i = 0;; ++i) {
      if (i % kRowsPerLook == 0) {
        MILLRACE_RETURN_IF_ERROR(Look());
        MILLRACE_RETURN_IF_ERROR(SendDue());
      }
      MILLRACE_ASSIGN_OR_RETURN(const CsvStream::Event event, stream_.Next(&record));
      if (event == CsvStream::Event::kEnd) return SendAll();
      if (event == CsvStream::Event::kRow) MILLRACE_RETURN_IF_ERROR(Take(record));
    }
  }

  Status Take(const StreamRecord& record) {
    const RowPlace place = PlaceOfRow(record.number, plan_.dealing());
    fingerprints_[place.worker].Add(record.row);
    if (record.epoch == 0) WarnOfOutliers(record);
    if (record.epoch == 0 && stream_.spec().regression()) WarnOfCoarseTargets(record.row.target);
    const ResumePlan::Action action = plan_.ActionFor(place);
    if (action == ResumePlan::Action::kSkip) {
      ++counts_.rows_found;
      return absl::OkStatus();
    }
    if (action == ResumePlan::Action::kAfterEnd) {
      return stream_.is_followed() ? plan_.CheckFollowed(record.number + 1, sender_.topic())
                                   : plan_.CheckEnd(record.number + 1, sender_.topic());
    }
    if (action == ResumePlan::Action::kCheck) {
      ++counts_.rows_found;
      MILLRACE_RETURN_IF_ERROR(plan_.Check(place, EncodeRow(record.row), sender_.topic()));
      --rows_to_check_;
      return AcceptIfChecked();
    }
    MILLRACE_RETURN_IF_ERROR(WaitUntilDue(record));
    if (!batches_.Takes(place, record.row)) MILLRACE_RETURN_IF_ERROR(SendBatch(place.worker));
    batches_.Add(place, record.row);
    return batches_.IsDue(place.worker, now_) ? SendBatch(place.worker) : absl::OkStatus();
  }

  void WarnOfOutliers(const StreamRecord& record) {
    const std::optional<OutlierWatch::Outlier> found = outliers_.Observe(record.row);
    if (!found || !around_.warn) return;
    around_.warn(absl::StrCat(
        "line ", record.line, ": column ",
        QuotedValue(stream_.spec().numeric(static_cast<int>(found->column))), " has ", found->value,
        ", where all rows before have ", found->least, " to ", found->most,
        ": scaled, the others hardly differ any more. If it means \"no value\", name it by "
        "--missing-tokens; else mend the file and start a new job (another --job)"));
  }

  void WarnOfCoarseTargets(float target) {
    const std::optional<TargetWatch::Coarse> found = targets_.Observe(target);
    if (!found || !around_.warn) return;
    around_.warn(absl::StrFormat(
        "the first %d labels are about %g and have a deviation of %g, but are kept as 32-bit "
        "floats, of which the next one there is %g away: what tells the labels apart is rounded "
        "away. Subtract a constant from column %s, and start a new job (another --job)",
        TargetWatch::kRows, found->mean, found->deviation, found->step,
        QuotedValue(stream_.spec().label())));
  }

  void WarnOfGap(const StreamRecord& record, Pacer::Time::duration wait) const {
    if (!around_.warn) return;
    around_.warn(absl::StrCat("line ", record.line, ": waiting ",
                              LongDuration(std::chrono::duration_cast<std::chrono::seconds>(wait)),
                              " for the next row, which was recorded ", "at ",
                              TimeText(*record.time),
                              " by --time-column; a higher --speedup passes over gaps "
                              "in the times sooner, and without --time-column there are none"));
  }

  Status SendBatch(WorkerId worker) {
    RowBatches::Record record = batches_.Take(worker, now_);
    MILLRACE_RETURN_IF_ERROR(Send(worker, record.key, record.value));
    counts_.rows_sent += record.key.count;
    flushes_.Add(worker, record.key.end(), now_);
    return absl::OkStatus();
  }

  Status SendFlush(WorkerId worker) {
    if (batches_.HasRows(worker)) MILLRACE_RETURN_IF_ERROR(SendBatch(worker));
    const RowNumber row = flushes_.Take(worker);
    std::string value = EncodeFlush(row);
    return Send(worker, {.first = row, .count = 0}, value);
  }

  Status SendDue() {
    now_ = around_.now();
    for (WorkerId worker = 0; worker < workers_; ++worker) {
      if (batches_.IsDue(worker, now_)) MILLRACE_RETURN_IF_ERROR(SendBatch(worker));
    }
    const auto wait = around_.batch_wait ? around_.batch_wait() : std::nullopt;
    for (WorkerId worker = 0; wait && worker < workers_; ++worker) {
      if (flushes_.IsDue(worker, now_, *wait)) MILLRACE_RETURN_IF_ERROR(SendFlush(worker));
    }
    return absl::OkStatus();
  }

  Status SendAll() {
    now_ = around_.now();
    for (WorkerId worker = 0; worker < workers_; ++worker) {
      if (batches_.HasRows(worker)) MILLRACE_RETURN_IF_ERROR(SendBatch(worker));
    }
    return absl::OkStatus();
  }

  Status WaitUntilDue(const StreamRecord& record) {
    if (pacer_.unpaced()) return absl::OkStatus();
    now_ = around_.now();
    const Pacer::Time due = pacer_.Due(now_, record.epoch, record.time);
    if (record.time && due - now_ >= kLongGap) WarnOfGap(record, due - now_);
    while (now_ < due) {
      MILLRACE_RETURN_IF_ERROR(SendDue());
      MILLRACE_RETURN_IF_ERROR(sender_.Wait(milliseconds(0)));
      MILLRACE_RETURN_IF_ERROR(Look());
      const Pacer::Time wake = std::min(due, batches_.NextDue().value_or(due));
      around_.sleep(std::clamp<Pacer::Time::duration>(wake - now_, kBurst, kLook));
      now_ = around_.now();
    }
    return absl::OkStatus();
  }

  Status Send(WorkerId worker, const InputKey& key, std::string& value) {
    while (true) {
      Status sent = sender_.Send(worker, key, value);
      if (sent.ok()) {
        ++counts_.records_sent;
        return sent;
      }
      if (!absl::IsResourceExhausted(sent)) return sent;
      MILLRACE_RETURN_IF_ERROR(Look());
      MILLRACE_RETURN_IF_ERROR(sender_.Wait(kLook));
    }
  }

  // After its `rows` rows, unless the partition has it.
  Status SendEnd(WorkerId worker, RowNumber rows) {
    if (plan_.tails()[worker].ended) return absl::OkStatus();
    std::string value = EncodeEnd(rows, fingerprints_[worker].value());
    return Send(worker, {.first = rows, .count = 0}, value);
  }

  Status SendEnds() {
    for (WorkerId worker = 0; worker < plan_.dealing().workers; ++worker) {
      const RowNumber rows = RowsOfWorker(stream_.accepted(), worker, plan_.dealing());
      MILLRACE_RETURN_IF_ERROR(SendEnd(worker, rows));
    }
    while (true) {
      MILLRACE_RETURN_IF_ERROR(Look());
      if (sender_.outstanding() == 0) return absl::OkStatus();
      MILLRACE_RETURN_IF_ERROR(sender_.Wait(kLook));
    }
  }

  CsvStream& stream_;
  const ResumePlan& plan_;
  Pacer& pacer_;
  RowSender& sender_;
  const StreamSurroundings& around_;
  StreamCounts& counts_;
  const uint32_t workers_;
  std::vector<RowFingerprint> fingerprints_;  // of the rows that were read, by partition
  OutlierWatch outliers_;
  TargetWatch targets_;
  RowBatches batches_;
  FlushTimes flushes_;
  Pacer::Time now_;  // at the last look at the clock
  uint32_t rows_to_check_ = 0;
  bool only_the_end_tells_ = false;
  bool caught_up_ = false;
};

}  // namespace

StreamSurroundings StreamSurroundings::Real(const std::atomic<bool>* stop,
                                            std::function<Status()> tick) {
  return {stop, std::move(tick), [] { return std::chrono::steady_clock::now(); },
          [](Pacer::Time::duration time) { std::this_thread::sleep_for(time); }};
}

Status StreamRows(CsvStream& stream, const ResumePlan& plan, Pacer& pacer, RowSender& sender,
                  const StreamSurroundings& surroundings, StreamCounts& counts) {
  return Streamer(stream, plan, pacer, sender, surroundings, counts).Run();
}

Status Drain(RowSender& sender, std::chrono::milliseconds timeout,
             const StreamSurroundings& surroundings) {
  const Pacer::Time deadline = surroundings.now() + timeout;
  while (sender.outstanding() > 0) {
    if (surroundings.now() >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat(sender.outstanding(), " records were not confirmed by Kafka in time"));
    }
    MILLRACE_RETURN_IF_ERROR(sender.Wait(kLook));
  }
  return absl::OkStatus();
}

}  // namespace millrace
