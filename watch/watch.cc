#include "watch/watch.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/file_error.h"
#include "base/interruptible_output.h"
#include "base/private_file.h"
#include "kafka/brokers_text.h"
#include "kafka/consumer.h"
#include "kafka/wakeup.h"
#include "metrics/evaluation_csv.h"
#include "metrics/job_progress.h"
#include "metrics/job_state.h"
#include "topics/metric_point_codec.h"
#include "topics/topics.h"
#include "watch/plain_line.h"
#include "watch/screen.h"
#include "watch/stderr_capture.h"
#include "watch/summary.h"
#include "watch/terminal.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr milliseconds kDrawEvery(250);
constexpr milliseconds kPlainEvery(2000);
constexpr milliseconds kIdleWait(50);
constexpr milliseconds kBrokerCall(1000);
// The present state is wanted now; but a loaded broker takes a while for a handshake of TLS.
constexpr double kPatienceOfOnce = 5;  // seconds, unless --broker-timeout says another time
constexpr seconds kWaitingToldEvery(5);
// Servers send four points a second: after so long without one Kafka is asked whether it is there.
constexpr seconds kAskKafkaAfter(2);
constexpr size_t kRecordsAtOnce = 1000;
// The last word of the producer and of the evaluator may come a little after the server's.
constexpr seconds kGrace(3);

class Watcher {
 public:
  Watcher(const WatchOptions& options, const std::atomic<bool>& stop)
      : options_(options),
        stop_(stop),
        topic_(TopicName(options.job, Topic::kMetrics)),
        style_(StyleOfTerminal()),
        output_(InterruptibleOutput::OfStdout(stop)) {}

  StatusOr<JobState::Kind> Run() {
    MILLRACE_RETURN_IF_ERROR(OpenFiles());
    if (!options_.once && !options_.json && CanDrawLive()) {
      captured_.emplace();
      area_.emplace();
    }
    Status followed = Follow();
    job_.Finish();
    const Status logged = LogCurves();
    if (area_) {
      area_->Clear();
      area_.reset();
      captured_.reset();
    }
    if (!followed.ok() && !absl::IsCancelled(followed)) return followed;
    if (summary_) {
      MILLRACE_RETURN_IF_ERROR(
          summary_->Append(SummaryJson(job_, options_.job, options_.kafka.brokers)));
      MILLRACE_RETURN_IF_ERROR(summary_->Commit());
    }
    const JobState state = State();
    const Status shown = ShowResult(state);
    MILLRACE_RETURN_IF_ERROR(logged);
    // (Who stopped it may not read it any more.)
    if (!absl::IsCancelled(shown)) MILLRACE_RETURN_IF_ERROR(shown);
    MILLRACE_RETURN_IF_ERROR(followed);
    return state.kind;
  }

 private:
  Status OpenFiles() {
    if (!options_.summary_file.empty()) {
      MILLRACE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(options_.summary_file));
      summary_.emplace(std::move(file));
    }
    if (options_.evaluation_csv.empty()) return absl::OkStatus();
    MILLRACE_RETURN_IF_ERROR(OpenCsv());
    std::fputs(EvaluationCsvHeader().c_str(), csv_.get());
    return absl::OkStatus();
  }

  // As all data files: for its owner's eyes.
  Status OpenCsv() {
    const int fd = open(options_.evaluation_csv.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
                        S_IRUSR | S_IWUSR);
    if (fd < 0) return CannotWrite(options_.evaluation_csv, errno);
    MakePrivate(fd);  // it may exist
    csv_.reset(fdopen(fd, "w"));
    MILLRACE_CHECK(csv_ != nullptr);
    return absl::OkStatus();
  }

  Status Follow() {
    ConsumerOptions consumer_options;
    consumer_options.client_id = "watch";
    consumer_options.queue_kbytes = 1024;
    MILLRACE_ASSIGN_OR_RETURN(
        consumer_, PartitionConsumer::Create(options_.kafka, consumer_options, topic_, &wakeup_));
    last_record_ = steady_clock::now();
    MILLRACE_RETURN_IF_ERROR(StartReading());
    SetHandler();
    while (!stop_) {
      MILLRACE_ASSIGN_OR_RETURN(const size_t events, consumer_->Poll(kRecordsAtOnce, handler_));
      if (restart_) {
        restart_ = false;
        MILLRACE_RETURN_IF_ERROR(StartReading());
      }
      MILLRACE_RETURN_IF_ERROR(LogCurves());
      if (events == 0) MILLRACE_RETURN_IF_ERROR(AskKafka());
      if (options_.once && at_end_) return absl::OkStatus();
      if (job_.complete()) return absl::OkStatus();
      if (job_.ended() && steady_clock::now() - last_record_ > kGrace) return absl::OkStatus();
      // While an old topic is read through, its past is not shown.
      if (at_end_) MILLRACE_RETURN_IF_ERROR(Show());
      if (events == 0) wakeup_.WaitFor(kIdleWait);
    }
    return absl::CancelledError("stopped");
  }

  // Waits until there is a broker that knows the topic.
  Status StartReading() {
    const auto begin = steady_clock::now();
    auto told = begin;
    while (!stop_) {
      const StatusOr<OffsetRange> range = QueryRange();
      if (range.ok()) return consumer_->Assign(0, range->begin);
      const bool unknown = absl::IsNotFound(range.status());
      if (!unknown && !away_since_) return range.status();
      const auto now = steady_clock::now();
      const std::chrono::duration<double> waited = now - begin;
      if ((unknown && options_.once) || waited.count() >= PatienceWithBroker()) {
        if (!unknown) {
          return NoAnswer(range.status());
        }
        return absl::NotFoundError("Kafka at " + options_.kafka.brokers + " has no job " +
                                   options_.job + " (topic " + topic_ +
                                   " does not exist); check --job and --brokers");
      }
      if (area_) {
        MILLRACE_RETURN_IF_ERROR(Show());
      } else if (now - told >= kWaitingToldEvery) {
        told = now;
        std::fprintf(stderr, "waiting for %s (%.0f s)\n",
                     unknown ? ("topic " + topic_ + ", which the job's programs create").c_str()
                             : ("Kafka at " + BrokersText(options_.kafka.brokers)).c_str(),
                     waited.count());
      }
      wakeup_.WaitFor(kDrawEvery);
    }
    return absl::CancelledError("stopped");
  }

  // Notes whether Kafka answers.
  StatusOr<OffsetRange> QueryRange() {
    const auto begin = steady_clock::now();
    StatusOr<OffsetRange> range = consumer_->QueryRange(0, kBrokerCall);
    asked_ = steady_clock::now();
    if (!absl::IsUnavailable(range.status()) && !absl::IsDeadlineExceeded(range.status())) {
      away_since_.reset();
    } else if (!away_since_) {
      away_since_ = begin;
    }
    return range;
  }

  // Silence may be that of the programs or of Kafka, and the client tries again without a word.
  Status AskKafka() {
    if (steady_clock::now() - std::max(last_record_, asked_) < kAskKafkaAfter) {
      return absl::OkStatus();
    }
    const StatusOr<OffsetRange> range = QueryRange();
    if (!options_.once || !away_since_ || AwaySeconds() < PatienceWithBroker()) {
      return absl::OkStatus();
    }
    return NoAnswer(range.status());
  }

  double AwaySeconds() const {
    return std::chrono::duration<double>(steady_clock::now() - *away_since_).count();
  }

  Status NoAnswer(const Status& status) const {
    return Status(status.code(), "no answer from Kafka at " + BrokersText(options_.kafka.brokers) +
                                     ": " + std::string(status.message()));
  }

  // In seconds.
  double PatienceWithBroker() const {
    if (options_.kafka.broker_timeout_s > 0) return options_.kafka.broker_timeout_s;
    return options_.once ? kPatienceOfOnce : std::numeric_limits<double>::infinity();
  }

  void SetHandler() {
    handler_.on_record = [this](const ConsumedRecord& record) {
      // A record of a newer version, or of somebody else, is not worth ending the display.
      const StatusOr<MetricPoint> point = DecodeMetricPoint(record.value);
      if (!point.ok()) return absl::OkStatus();
      job_.Fold(*point);
      last_record_ = steady_clock::now();
      away_since_.reset();
      live_ = at_end_;
      return absl::OkStatus();
    };
    handler_.on_end = [this](int32_t, Offset) { at_end_ = true; };
    handler_.on_out_of_range = [this](int32_t) {
      restart_ = true;
      return absl::OkStatus();
    };
  }

  Status LogCurves() {
    const std::vector<CurvePoint> points = job_.TakeCurvePoints();
    if (csv_ == nullptr || points.empty()) return absl::OkStatus();
    for (const CurvePoint& point : points) {
      std::fputs(EvaluationCsvLine(point).c_str(), csv_.get());
    }
    if (std::fflush(csv_.get()) == 0) return absl::OkStatus();
    return CannotWrite(options_.evaluation_csv, errno);
  }

  double SilentSeconds() const {
    return std::chrono::duration<double>(steady_clock::now() - last_record_).count();
  }

  // By the clock of the programs, which may differ from this machine's: a point that comes while
  // the job is followed has just been made. What was read of the past tells nothing of that.
  JobState State() const {
    const int64_t silent_ms = static_cast<int64_t>(SilentSeconds() * 1000);
    JobState state = ComputeJobState(job_, live_ ? job_.last_timestamp_ms() + silent_ms : NowMs());
    return away_since_
               ? WithoutKafka(std::move(state), BrokersText(options_.kafka.brokers), AwaySeconds())
               : state;
  }

  ScreenOptions Screen() const {
    const TerminalSize size = SizeOfTerminal();
    ScreenOptions screen;
    screen.job = options_.job;
    screen.cut = StdoutIsTerminal();
    // A full last column would be erased again; the cursor needs the last line.
    screen.columns = screen.cut ? std::max<size_t>(size.columns, 2) - 1 : kMaxColumns;
    screen.rows = std::max<size_t>(size.rows, 2) - 1;
    screen.style = style_;
    screen.state = State();
    screen.waited_seconds = SilentSeconds();
    return screen;
  }

  Status Show() {
    const auto now = steady_clock::now();
    if (now < next_show_) return absl::OkStatus();
    if (area_) {
      next_show_ = now + kDrawEvery;
      const bool shown = area_->Draw(captured_->TakeLines(), RenderScreen(job_, Screen()));
      return shown ? absl::OkStatus() : OutputWasClosed();
    }
    next_show_ = now + kPlainEvery;
    return Print(options_.json ? StatusJson(job_, options_.job, State(), false)
                               : PlainLine(job_, State(), SilentSeconds()) + "\n");
  }

  // Whoever read it is gone: as good as Ctrl-C.
  static Status OutputWasClosed() { return absl::CancelledError("standard output was closed"); }
  Status Print(const std::string& text) {
    const Status written = output_.Write(text);
    return absl::IsUnavailable(written) ? OutputWasClosed() : written;
  }

  Status ShowResult(const JobState& state) {
    if (options_.json) {
      return Print(StatusJson(job_, options_.job, state, options_.once));
    }
    ScreenOptions screen = Screen();
    screen.state = state;
    screen.rows = 1000;
    const SummaryOptions summary = {.job = options_.job,
                                    .brokers = options_.kafka.brokers,
                                    .style = style_,
                                    .width = screen.columns,
                                    .cut = screen.cut};
    std::string text;
    for (const std::string& line :
         options_.once ? RenderScreen(job_, screen) : SummaryTable(job_, summary)) {
      text += line + "\n";
    }
    return Print(text);
  }

  const WatchOptions& options_;
  const std::atomic<bool>& stop_;
  const std::string topic_;
  const Style style_;
  InterruptibleOutput output_;

  Wakeup wakeup_;
  std::unique_ptr<PartitionConsumer> consumer_;
  ConsumerHandler handler_;
  bool at_end_ = false;
  bool live_ = false;  // the newest point came when all before it had been read
  bool restart_ = false;

  JobProgress job_;
  steady_clock::time_point last_record_;
  steady_clock::time_point asked_;                      // Kafka, last
  std::optional<steady_clock::time_point> away_since_;  // it does not answer
  steady_clock::time_point next_show_;
  std::optional<AtomicFile> summary_;
  File csv_;
  std::optional<StderrCapture> captured_;
  std::optional<LiveArea> area_;
};

}  // namespace

StatusOr<JobState::Kind> RunWatch(const WatchOptions& options, const std::atomic<bool>& stop) {
  return Watcher(options, stop).Run();
}

}  // namespace millrace
