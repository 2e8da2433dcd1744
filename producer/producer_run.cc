#include "producer/producer_run.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/grouped_number.h"
#include "features/csv_format.h"
#include "features/csv_row_encoder.h"
#include "features/spec_checks.h"
#include "formats/csv_dialect.h"
#include "formats/csv_file.h"
#include "formats/reject_file.h"
#include "job/job_registry.h"
#include "job/job_topics.h"
#include "job/kafka_options.h"
#include "kafka/brokers_text.h"
#include "kafka/options.h"
#include "metrics/job_warnings.h"
#include "producer/bin_search.h"
#include "producer/class_search.h"
#include "producer/csv_stream.h"
#include "producer/delivery_watch.h"
#include "producer/job_features.h"
#include "producer/kafka_row_sender.h"
#include "producer/level_search.h"
#include "producer/pacing.h"
#include "producer/partition_tails.h"
#include "producer/progress_display.h"
#include "producer/progress_publisher.h"
#include "producer/published_batch_wait.h"
#include "producer/resume_plan.h"
#include "producer/stream_rows.h"
#include "topics/partitioning.h"
#include "topics/topics.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr seconds kDrainTimeout(10);
constexpr int kMostRestarts = 10;  // of the client, in one run
constexpr seconds kLastPointTimeout(3);
constexpr seconds kRejectFlushEvery(1);

// An input that is no good is no wrong usage, which InvalidArgument stands for.
Status AsInputError(const Status& status) {
  return absl::IsInvalidArgument(status) ? absl::FailedPreconditionError(status.message()) : status;
}

class KafkaRun final : public ProducerRun {
 public:
  KafkaRun(const JobConfig& config, const Options& options)
      : config_(config),
        spec_(CompleteSpec(config.producer().label_may_be_listed() ? WithoutLabel(config.features())
                                                                   : config.features())),
        kafka_(ToKafkaOptions(config)),
        stop_(*options.stop),
        features_only_(options.features_only),
        set_default_buckets_(options.set_default_buckets),
        setup_(options.setup),
        display_(options.quiet) {
    file_options_.stop = &stop_;
    file_options_.follow = config.producer().follow();
  }

  Status Open();
  Status Run() override;

 private:
  const std::string& input() const { return config_.producer().input(); }
  std::string NameOf(Topic topic) const { return TopicName(config_.name(), topic); }
  bool paced() const {
    return config_.producer().rate() > 0 || !config_.producer().time_column().empty();
  }
  bool is_live() const { return !can_read_again_ || file_options_.follow; }

  Status CheckInput();
  std::string InputText() const;
  Status OpenRejects();
  bool MayStartAgain(const Status& status) const;
  Status StartAgain();
  Status WhileAway(const std::string& what, const std::function<Status()>& action);
  Status AgreeOnFeatures();
  StatusOr<bool> IsForOneWorker();
  Status ReadPlan();
  Status Stream();
  Status Accept();
  Status EndEarly(const Status& reason, const StreamSurroundings& surroundings);
  Status Tick();
  ProducerProgress Progress(bool ended) const;
  void SaySent(steady_clock::duration time);
  void WarnOfRejects(const ProducerProgress& progress);
  void WarnOfShortStream();

  const JobConfig config_;
  FeatureSpec spec_;
  const KafkaOptions kafka_;
  const std::atomic<bool>& stop_;
  const bool features_only_;
  const SetBuckets set_default_buckets_;
  const MetricPoint::Setup setup_;
  ProgressDisplay display_;
  CsvFile::Options file_options_;  // of the stream
  CsvFile::Options scan_options_;  // of first scans

  std::unique_ptr<CsvFile> file_;  // until the stream takes it
  bool can_read_again_ = false;
  std::unique_ptr<RejectFile> rejects_;
  std::unique_ptr<KafkaRowSender> sender_;
  std::unique_ptr<ProgressPublisher> publisher_;

  int restarts_ = 0;
  Dealing dealing_;
  bool first_run_ = false;  // of this job, for all that the job registry knows
  RowShape shape_;
  std::optional<ResumePlan> plan_;
  std::unique_ptr<CsvStream> stream_;
  StreamCounts counts_;
  DeliveryWatch watch_;
  steady_clock::time_point next_reject_flush_;
  bool warned_of_rejects_ = false;
};

// ---- before any broker ----

Status KafkaRun::Open() {
  if (input().empty()) {
    return absl::InvalidArgumentError("no input: give --input FILE, or --input - to read a pipe");
  }
  MILLRACE_RETURN_IF_ERROR(ApplyCsvFormat(config_.csv(), &file_options_));
  scan_options_ = file_options_;
  scan_options_.follow = false;
  scan_options_.whole_lines = file_options_.follow;  // a last line may still be written
  MILLRACE_RETURN_IF_ERROR(ValidateColumns(spec_));
  std::error_code ignored;
  if (file_options_.follow && std::filesystem::file_size(input(), ignored) == 0) {
    display_.Say(absl::StrCat(input(), " is empty; waiting for its header line (--follow)"));
  }
  StatusOr<std::unique_ptr<CsvFile>> file = CsvFile::Open(input(), file_options_);
  if (!file.ok()) return AsInputError(file.status());
  file_ = *std::move(file);
  can_read_again_ = CanReadAgain(*file_);
  MILLRACE_RETURN_IF_ERROR(CheckInput());

  MILLRACE_RETURN_IF_ERROR(OpenRejects());
  MILLRACE_ASSIGN_OR_RETURN(sender_, KafkaRowSender::Create(kafka_, NameOf(Topic::kInputData),
                                                            {.paced = paced() || is_live(),
                                                             .can_be_replaced = can_read_again_}));
  MILLRACE_ASSIGN_OR_RETURN(publisher_, ProgressPublisher::Create(kafka_, NameOf(Topic::kMetrics)));
  return absl::OkStatus();
}

Status KafkaRun::OpenRejects() {
  rejects_.reset();
  std::string path = config_.producer().reject_file();
  if (path.empty()) path = DefaultRejectPath(input());
  MILLRACE_ASSIGN_OR_RETURN(rejects_, RejectFile::Create(std::move(path), input()));
  return absl::OkStatus();
}

// The flags and the file do not fit: it would be so again, whoever starts the program again.
Status AsUsageError(const Status& status) {
  return absl::IsNotFound(status) ? absl::InvalidArgumentError(status.message()) : status;
}

Status KafkaRun::CheckInput() {
  // The columns are looked up without the classes and edges, which may not be known yet.
  const bool classes_known = spec_.classes_size() > 0 || spec_.regression();
  MILLRACE_ASSIGN_OR_RETURN(FeatureEncoder encoder, EncoderOfColumns(spec_));
  MILLRACE_RETURN_IF_ERROR(AsUsageError(
      CsvRowEncoder::Create(std::move(encoder), file_->columns(), file_->name()).status()));
  const std::string& time_column = config_.producer().time_column();
  if (!time_column.empty()) {
    MILLRACE_RETURN_IF_ERROR(
        AsUsageError(FindColumn(file_->columns(), time_column, file_->name()).status()));
  }
  if (!can_read_again_) {
    if (!classes_known) {
      return absl::InvalidArgumentError(absl::StrCat(
          file_->name(), " can be read only once, so no first scan can find the classes: give ",
          "them by --classes A,B,..."));
    }
    if (config_.producer().epochs() > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(file_->name(), " can be read only once: more than one epoch needs a file"));
    }
    return absl::OkStatus();
  }
  if (file_options_.follow) return absl::OkStatus();  // its rows may come later
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<CsvFile> peek,
                            CsvFile::Open(input(), scan_options_));
  CsvRecord record;
  MILLRACE_ASSIGN_OR_RETURN(const bool found, peek->Next(&record));
  if (found) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(file_->name(), " has a header but no rows"));
}

// ---- with a broker ----

// Repeats what fails only because no broker answers.
Status KafkaRun::WhileAway(const std::string& what, const std::function<Status()>& action) {
  const auto begin = steady_clock::now();
  auto next_report = begin + DeliveryWatch::kReportEvery;
  while (true) {
    Status status = action();
    if (!IsAway(status)) return status;
    if (stop_) return absl::CancelledError("stopped");
    const auto now = steady_clock::now();
    const std::chrono::duration<double> waited = now - begin;
    if (kafka_.broker_timeout_s > 0 && waited.count() > kafka_.broker_timeout_s) return status;
    if (now >= next_report) {
      next_report = now + DeliveryWatch::kReportEvery;
      display_.Warn(absl::StrCat("waiting for Kafka at ", BrokersText(kafka_.brokers), " to ", what,
                                 " (", static_cast<int64_t>(waited.count()),
                                 " s): ", status.message()));
    }
    std::this_thread::sleep_for(milliseconds(200));
  }
}

// What was found in the input, and what was told of it.
std::string KafkaRun::InputText() const {
  std::string text = absl::StrCat(file_options_.follow ? "following " : "reading ", file_->name(),
                                  ": ", file_->columns().size(), " columns separated by ",
                                  DelimiterName(file_->delimiter()));
  if (!file_options_.delimiter && file_->delimiter() != ',') {
    absl::StrAppend(&text, ", as the header has most often");
  }
  if (file_->compression()) {
    const std::string_view name = millrace::NameOf(*file_->compression());
    absl::StrAppend(&text, "; compressed by ", absl::string_view(name.data(), name.size()));
  }
  if (file_options_.is_latin1) absl::StrAppend(&text, "; in latin-1");
  if (spec_.decimal_comma()) absl::StrAppend(&text, "; numbers with decimal commas");
  return text;
}

Status KafkaRun::Run() {
  display_.Say(InputText());
  MILLRACE_RETURN_IF_ERROR(JobTopics(stop_).Prepare(config_));
  MILLRACE_RETURN_IF_ERROR(AgreeOnFeatures());
  if (features_only_) {
    display_.Say(absl::StrCat("published the job's features, and turns of ", dealing_.rows_per_turn,
                              dealing_.rows_per_turn == 1 ? " row" : " rows",
                              "; no row was sent (--features-only)"));
    return absl::OkStatus();
  }
  const Status prepared = WhileAway("look up its topics", [this] {
    MILLRACE_RETURN_IF_ERROR(sender_->Prepare());
    return publisher_->Prepare();
  });
  MILLRACE_RETURN_IF_ERROR(prepared);
  MILLRACE_RETURN_IF_ERROR(ReadPlan());
  if (!plan_->fresh() && !can_read_again_) {
    return absl::FailedPreconditionError(
        absl::StrCat(sender_->topic(), " holds ", GroupedNumber(plan_->rows_present()),
                     " rows already, and ", file_->name(),
                     " cannot be read again from its start to continue after them: stream a file, "
                     "or start a new job (another --job)"));
  }
  while (true) {
    Status streamed = Stream();
    if (!MayStartAgain(streamed)) return streamed;
    ++restarts_;
    display_.Warn(absl::StrCat(
        streamed.message(),
        "; the producer goes back to the first row that Kafka does not have, and continues there"));
    MILLRACE_RETURN_IF_ERROR(StartAgain());
  }
}

// What this client can send no more, another one can.
bool KafkaRun::MayStartAgain(const Status& status) const {
  return absl::IsAborted(status) && can_read_again_ && restarts_ < kMostRestarts && !stop_;
}

// As another process would.
Status KafkaRun::StartAgain() {
  stream_.reset();
  counts_ = StreamCounts();
  StatusOr<std::unique_ptr<CsvFile>> file = CsvFile::Open(input(), file_options_);
  if (!file.ok()) return AsInputError(file.status());
  file_ = *std::move(file);
  MILLRACE_RETURN_IF_ERROR(OpenRejects());
  MILLRACE_ASSIGN_OR_RETURN(sender_, KafkaRowSender::Create(kafka_, NameOf(Topic::kInputData),
                                                            {.paced = paced() || is_live(),
                                                             .can_be_replaced = can_read_again_}));
  const Status prepared = WhileAway("look up its topics", [this] { return sender_->Prepare(); });
  MILLRACE_RETURN_IF_ERROR(prepared);
  first_run_ = false;
  return ReadPlan();
}

Status KafkaRun::AgreeOnFeatures() {
  std::optional<JobFeatures> published;
  const Status read = WhileAway("read the job's features", [&]() -> Status {
    MILLRACE_ASSIGN_OR_RETURN(const auto registry, JobRegistry::Create(config_, stop_));
    MILLRACE_ASSIGN_OR_RETURN(published, registry->ReadFeatures());
    return absl::OkStatus();
  });
  MILLRACE_RETURN_IF_ERROR(read);
  first_run_ = !published;
  if (spec_.classes_size() == 0 && !spec_.regression()) {
    if (published) {
      *spec_.mutable_classes() = published->spec().classes();
    } else {
      const StatusOr<std::vector<std::string>> classes =
          SearchClasses(input(), scan_options_, spec_, stop_, display_);
      if (absl::IsInvalidArgument(classes.status()) && file_options_.follow) {
        return absl::FailedPreconditionError(
            absl::StrCat(classes.status().message(),
                         "; if classes come later (--follow), name all by --classes A,B,..."));
      }
      if (!classes.ok()) return AsInputError(classes.status());
      spec_.mutable_classes()->Assign(classes->begin(), classes->end());
    }
  }
  if (!published) MILLRACE_RETURN_IF_ERROR(CheckCrossesOfNumbers(spec_));
  AgreeOnBuckets(published ? &published->spec() : nullptr, config_.features(), set_default_buckets_,
                 spec_);
  const Status edges =
      SetBinEdges(input(), scan_options_, can_read_again_, published ? &published->spec() : nullptr,
                  stop_, display_, spec_);
  if (!edges.ok()) return AsInputError(edges);
  // Of features alone nobody knows who sends the rows, and how fast.
  StreamTraits traits{.is_live = is_live() || features_only_};
  if (!published) {
    MILLRACE_ASSIGN_OR_RETURN(traits.is_for_one_worker, IsForOneWorker());
  }
  // If the published ones are of other bins, PublishFeatures says so.
  MILLRACE_ASSIGN_OR_RETURN(const JobFeatures features,
                            FeaturesOf(config_, spec_, traits, published));
  dealing_ = DealingOf(features);
  shape_ = RowShapeFrom(features);
  return WhileAway("publish the job's features", [&]() -> Status {
    MILLRACE_ASSIGN_OR_RETURN(const auto registry, JobRegistry::Create(config_, stop_));
    return registry->PublishFeatures(features);
  });
}

// Of a new job. (The file whose features only are published need not be in the stream's order.)
StatusOr<bool> KafkaRun::IsForOneWorker() {
  if (!can_read_again_ || features_only_) return false;
  const StatusOr<bool> found = millrace::IsForOneWorker(
      config_, [this] { return SearchForMovingLevel(input(), scan_options_, spec_); }, display_);
  return found.ok() ? found : AsInputError(found.status());
}

Status KafkaRun::ReadPlan() {
  TailReading reading;
  reading.topic = sender_->topic();
  reading.partitions = config_.workers();
  reading.shape = shape_;
  reading.untouched = first_run_;
  std::vector<PartitionTail> tails;
  const Status read = WhileAway("read how far the stream is", [&]() -> Status {
    MILLRACE_ASSIGN_OR_RETURN(tails, ReadTails(kafka_, reading, stop_));
    return absl::OkStatus();
  });
  MILLRACE_RETURN_IF_ERROR(read);
  plan_.emplace(std::move(tails), dealing_);
  return absl::OkStatus();
}

// ---- the stream ----

Status KafkaRun::Stream() {
  const Producer& settings = config_.producer();
  CsvStream::Options options;
  options.spec = spec_;
  options.time_column = settings.time_column();
  options.epochs = settings.epochs();
  options.max_rejects = settings.max_rejects();
  MILLRACE_ASSIGN_OR_RETURN(stream_,
                            CsvStream::Create(std::move(file_), file_options_, options, *rejects_));
  Pacer pacer = settings.rate() > 0               ? Pacer::AtRate(settings.rate())
                : !settings.time_column().empty() ? Pacer::Replay(settings.speedup())
                                                  : Pacer::Unpaced();
  auto surroundings = StreamSurroundings::Real(&stop_, [this] { return Tick(); });
  surroundings.accept = [this] { return Accept(); };
  surroundings.caught_up = [this] {
    display_.Say(absl::StrCat(input(), " has been read to its end; waiting for further lines"));
  };
  const PublishedBatchWait batch_wait(config_);
  surroundings.batch_wait = [&batch_wait] { return batch_wait.Get(); };
  surroundings.warn = [this](const std::string& line) { display_.Warn(line); };
  const auto begin = steady_clock::now();
  Status streamed = StreamRows(*stream_, *plan_, pacer, *sender_, surroundings, counts_);
  if (MayStartAgain(streamed)) return streamed;
  if (!streamed.ok()) return EndEarly(streamed, surroundings);
  if (!plan_->all_ended()) SaySent(steady_clock::now() - begin);
  publisher_->PublishLast(Progress(true), kLastPointTimeout);
  WarnOfRejects(Progress(true));
  WarnOfShortStream();
  return absl::OkStatus();
}

// Not before this is anything of this run shown as the job's: its input may be another one.
Status KafkaRun::Accept() {
  if (plan_->all_ended()) {
    // The run that sent the end may have died before it told anybody. So the input has been read
    // all the same: what it rejects is written, and displays learn the figures and that it is the
    // end.
    display_.Say(absl::StrCat("the stream has already been sent: ", sender_->topic(), " holds ",
                              GroupedNumber(plan_->rows_present()), " rows and the end"));
  } else if (!plan_->fresh()) {
    display_.Say(absl::StrCat(sender_->topic(), " holds ", GroupedNumber(plan_->rows_present()),
                              " rows already; continuing after them"));
  }
  return rejects_->Accept();
}

Status KafkaRun::EndEarly(const Status& reason, const StreamSurroundings& surroundings) {
  // What was handed over goes out if Kafka takes it. If not, the next run will send it.
  const Status drained = Drain(*sender_, kDrainTimeout, surroundings);
  const Status flushed = rejects_->Flush();
  if (counts_.accepted) publisher_->PublishLast(Progress(false), kLastPointTimeout);
  if (!absl::IsCancelled(reason)) return reason;
  if (!flushed.ok()) display_.Warn(std::string(flushed.message()));
  std::string line = absl::StrCat("stopped: ", sender_->topic(), " holds ",
                                  GroupedNumber(Progress(false).rows_sent()), " rows, ",
                                  GroupedNumber(counts_.rows_sent), " of them from this run");
  if (!drained.ok()) absl::StrAppend(&line, " (", drained.message(), ")");
  absl::StrAppend(
      &line,
      can_read_again_
          ? "; started again with the same input, the producer continues there"
          : "; a pipe cannot be continued: start a new job (another --job) for its remaining rows");
  display_.Say(line);
  return reason;
}

Status KafkaRun::Tick() {
  const auto now = steady_clock::now();
  const uint64_t outstanding = sender_->outstanding();
  if (const auto stalled = watch_.Observe(now, counts_.records_sent - outstanding, outstanding)) {
    display_.Warn(absl::StrCat("waiting for Kafka at ", BrokersText(kafka_.brokers), ": ",
                               GroupedNumber(outstanding), " records are not confirmed (",
                               stalled->count(), " s)"));
  }
  const std::chrono::duration<double> stalled = watch_.stalled();
  if (kafka_.broker_timeout_s > 0 && stalled.count() > kafka_.broker_timeout_s) {
    return absl::UnavailableError(absl::StrCat(
        "no broker at ", BrokersText(kafka_.brokers), " confirmed a record for ",
        kafka_.broker_timeout_s,
        " s (--broker-timeout); check the brokers, then start the producer again: it continues "
        "after the last row that Kafka has"));
  }
  if (now >= next_reject_flush_) {
    next_reject_flush_ = now + kRejectFlushEvery;
    MILLRACE_RETURN_IF_ERROR(rejects_->Flush());
  }
  const ProducerProgress progress = Progress(false);
  const bool skipping = counts_.rows_sent == 0 && !plan_->fresh();
  if (stalled < DeliveryWatch::kReportEvery) display_.Show(now, progress, skipping);
  if (counts_.accepted) publisher_->Publish(now, progress);
  WarnOfRejects(progress);
  return absl::OkStatus();
}

// As soon as they are many, and once.
void KafkaRun::WarnOfRejects(const ProducerProgress& progress) {
  if (warned_of_rejects_) return;
  for (const JobWarning& warning : WarningsOf(progress, std::nullopt, config_.workers())) {
    if (warning.remedy.empty()) continue;
    warned_of_rejects_ = true;
    display_.Warn(
        absl::StrCat("warning: ", ToText(warning), "; the last: ", stream_->last_reason()));
  }
}

// Only a server knows how long is long enough; without one yet, displays will say so.
void KafkaRun::WarnOfShortStream() {
  JobConfig hasty = config_;
  hasty.set_broker_timeout_s(std::chrono::duration<double>(kLastPointTimeout).count());
  const StatusOr<std::unique_ptr<JobRegistry>> registry = JobRegistry::Create(hasty, stop_);
  if (!registry.ok()) return;
  const StatusOr<std::optional<JobTraining>> training = (*registry)->ReadTraining();
  if (!training.ok() || !*training) return;
  ProducerProgress accepted = Progress(true);
  accepted.set_rows_rejected(0);  // of these it was warned
  for (const JobWarning& warning :
       WarningsOf(accepted, (*training)->training(), dealing_.workers)) {
    display_.Warn(absl::StrCat("warning: ", ToText(warning)));
  }
}

ProducerProgress KafkaRun::Progress(bool ended) const {
  ProducerProgress progress;
  progress.set_bytes_read(stream_->bytes_read());
  progress.set_bytes_total(stream_->total_bytes());
  progress.set_rows_read(stream_->rows_read());
  progress.set_rows_rejected(stream_->rows_rejected());
  const uint64_t unconfirmed = std::min(sender_->rows_outstanding(), counts_.rows_sent);
  progress.set_rows_sent(plan_->rows_present() + counts_.rows_sent - unconfirmed);
  progress.set_ended(ended);
  progress.set_epoch_of_stream(stream_->epoch() + 1);
  progress.set_epochs_of_stream(stream_->epochs());
  *progress.mutable_setup() = setup_;
  return progress;
}

void KafkaRun::SaySent(steady_clock::duration time) {
  const double took = std::max(1e-3, std::chrono::duration<double>(time).count());
  const auto rate = static_cast<uint64_t>(static_cast<double>(counts_.rows_sent) / took);
  std::string line =
      absl::StrCat("sent ", GroupedNumber(counts_.rows_sent), " rows in ",
                   Duration(std::chrono::duration_cast<seconds>(time + milliseconds(500))), " (",
                   GroupedNumber(rate), " rows/s); ", sender_->topic(), " holds ",
                   GroupedNumber(plan_->rows_present() + counts_.rows_sent), " rows and the end");
  if (stream_->rows_rejected() > 0) {
    absl::StrAppend(&line, "; ", GroupedNumber(stream_->rows_rejected()), " malformed rows are in ",
                    rejects_->name());
  }
  display_.Say(line);
}

}  // namespace

StatusOr<std::unique_ptr<ProducerRun>> ProducerRun::Create(const JobConfig& config,
                                                           const Options& options) {
  auto run = std::make_unique<KafkaRun>(config, options);
  MILLRACE_RETURN_IF_ERROR(run->Open());
  return std::unique_ptr<ProducerRun>(std::move(run));
}

}  // namespace millrace
