#include "producer/source_run.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/grouped_number.h"
#include "base/printable.h"
#include "features/class_scan.h"
#include "job/job_registry.h"
#include "job/job_topics.h"
#include "job/kafka_options.h"
#include "kafka/admin.h"
#include "kafka/broker_retry.h"
#include "kafka/timeouts.h"
#include "producer/class_search.h"
#include "producer/flush_times.h"
#include "producer/label_decoder.h"
#include "producer/late_labels.h"
#include "producer/level_search.h"
#include "producer/progress_display.h"
#include "producer/progress_publisher.h"
#include "producer/published_batch_wait.h"
#include "producer/read_ends.h"
#include "producer/row_decoder.h"
#include "producer/running_source.h"
#include "producer/schema_wait.h"
#include "producer/source_batch.h"
#include "producer/source_checks.h"
#include "producer/source_features.h"
#include "producer/source_identity.h"
#include "producer/source_log.h"
#include "producer/source_notes.h"
#include "producer/source_positions.h"
#include "producer/source_reader.h"
#include "producer/source_summary.h"
#include "producer/topic_search.h"
#include "producer/turn_watch.h"
#include "producer/unusable_reasons.h"
#include "topics/topics.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr int kMostClients = 10;  // of the clients, between two transactions
constexpr seconds kLastPointWait(3);
constexpr size_t kRecordsAtOnce = 1000;
// A transaction is no larger.
constexpr uint64_t kMostRows = 50'000;
constexpr size_t kMostBytes = size_t{8} << 20;
// Without rows a transaction leaves a record in the job topic, which every program reads.
constexpr seconds kLettersEvery(1);
constexpr seconds kMovesEvery(10);
constexpr seconds kPartitionsEvery(30);
// Labels that rows of a new partition may ask for are kept: LabelJoin::kLateMs is longer.
constexpr seconds kJoinedPartitionsEvery(3);
constexpr uint64_t kRowsWithoutValue = 1000;  // until a column that has none looks mistyped

class KafkaSource final : public SourceRun {
 public:
  KafkaSource(const JobConfig& config, const Options& options)
      : config_(config),
        options_(options),
        topic_{options.topic, "TopicSource"},
        joins_(!options.labels.topic.empty()),
        kafka_(ToKafkaOptions(config)),
        source_kafka_(kafka_),
        stop_(*options.stop),
        broker_retry_(stop_, config.broker_timeout_s()),
        display_(options.quiet),
        schema_wait_([this](const std::string& line) { display_.Warn(line); }, stop_) {
    if (!options.brokers.empty()) source_kafka_.brokers = options.brokers;
  }

  Status Open();
  Status Run() override;

 private:
  Status CheckDecoders();
  StatusOr<int32_t> CountPartitions(const SourceTopic& topic, const char* flag);
  StatusOr<std::vector<Offset>> StartOffsets(const std::string& topic, int32_t partitions);
  Status MakeDecoders(const FeatureSpec& spec);
  StatusOr<SearchedTopic> WhatThereIs();
  StatusOr<ClassScan> FindClasses(const FeatureEncoder& checker);
  StatusOr<bool> IsForOneWorker(const FeatureSpec& spec);
  Status Copy();
  Status Begin(const std::optional<SourceState>& found);
  StatusOr<SourceState> FirstStates();
  Status StartReading();
  Offset NextToRead(int32_t partition) const;
  bool IsAtEnd() const;
  StatusOr<size_t> JoinLabels();
  Status CopyRecords();
  Status WriteWhatIsDue(steady_clock::time_point now);
  Status Take(const ConsumedRecord& record);
  void WarnOfUnusable(const Status& decoded);
  Status Decode(const ConsumedRecord& record);
  Status OnDeleted(int32_t partition, Offset begin);
  bool IsDue(steady_clock::time_point now) const;
  bool IsFull() const { return batch_->rows() >= kMostRows || batch_->bytes() >= kMostBytes; }
  Status Commit();
  void RowsAreWritten(steady_clock::time_point now);
  Status WriteFlushes(steady_clock::time_point now);
  Status LookForPartitions(steady_clock::time_point now);
  void ShowProgress(steady_clock::time_point now);
  void WarnOfColumns();
  ProducerProgress Progress(bool ended) const {
    return ProgressOfSource(written_, options_.setup, ended);
  }
  std::string Summary() const {
    return SummaryOfSource(TopicName(config_.name(), Topic::kInputData), written_, rows_of_run_,
                           options_.labels.topic);
  }
  Status Stopped(const Status& last);

  const JobConfig config_;
  const Options options_;
  const SourceTopic topic_;
  const bool joins_;  // rows with labels of another topic
  const KafkaOptions kafka_;
  KafkaOptions source_kafka_;
  const std::atomic<bool>& stop_;
  const BrokerRetry broker_retry_;
  ProgressDisplay display_;
  std::optional<SourceFormat> format_;
  std::optional<SourceFormat> label_format_;  // if it joins
  SchemaWait schema_wait_;

  std::unique_ptr<ProgressPublisher> publisher_;
  std::unique_ptr<KafkaAdmin> admin_;  // of the source's cluster
  int32_t partitions_ = 0;             // of the source's topic
  Dealing dealing_;
  RowShape shape_;
  std::optional<PublishedBatchWait> batch_wait_;
  std::optional<RowDecoder> decoder_;
  std::unique_ptr<LateLabels> labels_;  // null: it does not join
  bool reasons_only_ = false;
  uint64_t records_ = 0;            // that were decoded, of the first ones
  UnusableReasons unusable_;        // of these
  bool columns_are_known_ = false;  // to have values, or else the user was warned

  // Of the present client; another one makes them anew.
  std::unique_ptr<SourceLog> log_;
  std::unique_ptr<SourceReader> reader_;
  SourceReader::Handler handler_;
  std::optional<SourceBatch> batch_;
  std::optional<FlushTimes> flushes_;
  ReadEnds ends_;  // none without until_end

  SourceState written_;  // that of the last transaction
  uint64_t rows_of_run_ = 0;
  TurnWatch turns_;
  int restarts_ = 0;
  Row row_;  // keeps its memory
  std::string key_;
  steady_clock::time_point last_commit_;
  steady_clock::time_point next_look_;
};

// ---- before any broker ----

Status KafkaSource::CheckDecoders() {
  MILLRACE_ASSIGN_OR_RETURN(const FeatureEncoder encoder, CheckSourceFeatures(config_));
  if (!joins_) return format_->MakeDecoder(encoder).status();
  const LateLabelOptions& labels = options_.labels;
  if (!labels.columns.empty() && options_.format.kind != SourceFormat::Kind::kCsv) {
    return absl::InvalidArgumentError(
        "--label-columns names the fields of CSV lines, and needs --format csv");
  }
  if (!options_.format.avro_schema_file.empty()) {
    return absl::InvalidArgumentError(
        "--labels-from: rows and labels have schemas of their own, and --avro-schema is one for "
        "all: give --schema-registry URL");
  }
  std::vector<std::string> columns = labels.columns;
  if (columns.empty()) columns = {labels.key, config_.features().label()};
  label_format_ = format_->WithColumns(std::move(columns), "--label-columns");
  MILLRACE_RETURN_IF_ERROR(LabelDecoder::Check(config_.features(), labels.key, *label_format_));
  return format_->MakeDecoder(KeyedColumns(encoder, labels.key)).status();
}

Status KafkaSource::Open() {
  MILLRACE_RETURN_IF_ERROR(CheckSourceOptions(config_, options_));
  SourceFormat::Options format = options_.format;
  format.registry.stop = &stop_;
  MILLRACE_ASSIGN_OR_RETURN(format_,
                            SourceFormat::Create(config_, format, [this](const std::string& line) {
                              display_.Warn(line + "; its records go to dead-letter");
                            }));
  MILLRACE_RETURN_IF_ERROR(CheckDecoders());
  MILLRACE_ASSIGN_OR_RETURN(
      publisher_, ProgressPublisher::Create(kafka_, TopicName(config_.name(), Topic::kMetrics)));
  MILLRACE_ASSIGN_OR_RETURN(admin_, KafkaAdmin::Create(source_kafka_, "topic-source-admin"));
  return absl::OkStatus();
}

// ---- what is there ----

StatusOr<int32_t> KafkaSource::CountPartitions(const SourceTopic& topic, const char* flag) {
  StatusOr<int32_t> partitions =
      broker_retry_.Run([&] { return admin_->PartitionCount(topic.name); });
  if (absl::IsNotFound(partitions.status())) {
    return absl::NotFoundError(absl::StrCat("there is no topic ", topic.name, " at ",
                                            source_kafka_.brokers, ": check ", flag,
                                            " and --source-brokers"));
  }
  if (partitions.ok()) MILLRACE_RETURN_IF_ERROR(CheckPartitions(topic, *partitions));
  return partitions;
}

StatusOr<std::vector<Offset>> KafkaSource::StartOffsets(const std::string& topic,
                                                        int32_t partitions) {
  MILLRACE_ASSIGN_OR_RETURN(const auto reader, SourceReader::Create(source_kafka_, topic, stop_));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<OffsetRange> ranges, reader->Ranges(partitions));
  return OffsetsOf(options_.start, source_kafka_, topic, ranges, broker_retry_);
}

StatusOr<SearchedTopic> KafkaSource::WhatThereIs() {
  MILLRACE_ASSIGN_OR_RETURN(std::vector<Offset> begin, StartOffsets(options_.topic, partitions_));
  return SearchedTopic{.name = options_.topic,
                       .kafka = source_kafka_,
                       .begin = std::move(begin),
                       .format = *format_,
                       .schema_wait = schema_wait_,
                       .stop = stop_};
}

StatusOr<ClassScan> KafkaSource::FindClasses(const FeatureEncoder& checker) {
  if (joins_) {
    return absl::FailedPreconditionError(
        "classes are not looked for in labels that come later; give the classes by --classes "
        "A,B,...");
  }
  MILLRACE_ASSIGN_OR_RETURN(const SearchedTopic topic, WhatThereIs());
  MILLRACE_ASSIGN_OR_RETURN(ClassScan scan,
                            SearchTopicForClasses(topic, config_.features().label(), checker));
  display_.Say(absl::StrCat(FoundClasses(scan), "; rows of other classes go to dead-letter"));
  if (const std::string rare = RareClasses(scan); !rare.empty()) display_.Warn(rare);
  return scan;
}

StatusOr<bool> KafkaSource::IsForOneWorker(const FeatureSpec& spec) {
  if (joins_) return false;
  const auto search = [&]() -> StatusOr<std::optional<double>> {
    MILLRACE_ASSIGN_OR_RETURN(const SearchedTopic topic, WhatThereIs());
    return SearchTopicForMovingLevel(topic, spec);
  };
  return millrace::IsForOneWorker(config_, search, display_);
}

// ---- the run ----

Status KafkaSource::MakeDecoders(const FeatureSpec& spec) {
  MILLRACE_ASSIGN_OR_RETURN(FeatureEncoder encoder, FeatureEncoder::Create(spec));
  if (!joins_) {
    MILLRACE_ASSIGN_OR_RETURN(CellDecoder cells, format_->MakeDecoder(encoder));
    decoder_.emplace(std::move(cells), std::move(encoder));
    return absl::OkStatus();
  }
  const std::string& key = options_.labels.key;
  MILLRACE_ASSIGN_OR_RETURN(CellDecoder cells, format_->MakeDecoder(KeyedColumns(encoder, key)));
  decoder_.emplace(std::move(cells), std::move(encoder), key);
  MILLRACE_ASSIGN_OR_RETURN(LabelDecoder decoder, LabelDecoder::Create(spec, key, *label_format_));
  LateLabels::Surroundings around;
  around.kafka = source_kafka_;
  around.admin = admin_.get();
  around.display = &display_;
  around.stop = &stop_;
  around.decode = [this](const std::function<Status()>& decode) {
    return schema_wait_.Run(decode, [this] { return WriteWhatIsDue(steady_clock::now()); });
  };
  around.until_end = options_.until_end;
  around.continue_on_data_loss = options_.continue_on_data_loss;
  MILLRACE_ASSIGN_OR_RETURN(
      labels_, LateLabels::Create(options_.labels, std::move(decoder), std::move(around)));
  return absl::OkStatus();
}

Status KafkaSource::Run() {
  MILLRACE_RETURN_IF_ERROR(JobTopics(stop_).Prepare(config_));
  MILLRACE_RETURN_IF_ERROR(CheckThatNoSourceRuns(config_, stop_));
  MILLRACE_ASSIGN_OR_RETURN(partitions_, CountPartitions(topic_, "--topic"));
  display_.Say(absl::StrCat("reading the topic ", options_.topic, " of ", partitions_,
                            partitions_ == 1 ? " partition" : " partitions"));
  MILLRACE_ASSIGN_OR_RETURN(
      const JobFeatures features,
      AgreeOnSourceFeatures(
          config_,
          {.find_classes = [this](const FeatureEncoder& checker) { return FindClasses(checker); },
           .is_for_one_worker = [this](const FeatureSpec& spec) { return IsForOneWorker(spec); }},
          options_.set_default_buckets, stop_));
  dealing_ = DealingOf(features);
  shape_ = RowShapeFrom(features);
  MILLRACE_RETURN_IF_ERROR(MakeDecoders(features.spec()));
  MILLRACE_ASSIGN_OR_RETURN(const auto registry, JobRegistry::Create(config_, stop_));
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<JobTraining> training, registry->ReadTraining());
  reasons_only_ = options_.reasons_only || config_.server().dead_letter_reasons_only() ||
                  (training && training->dead_letter_reasons_only());
  batch_wait_.emplace(config_);
  MILLRACE_RETURN_IF_ERROR(broker_retry_.Run([this] { return publisher_->Prepare(); }));
  while (true) {
    Status copied = Copy();
    if (absl::IsCancelled(copied)) return Stopped(copied);
    if (!absl::IsAborted(copied) || ++restarts_ > kMostClients) return copied;
    display_.Warn(absl::StrCat(copied.message(),
                               "; TopicSource looks for what Kafka has, and continues there"));
    reader_.reset();
    log_.reset();
    batch_.reset();  // what it has may be written already
  }
}

// With one client: until the end, or an error.
Status KafkaSource::Copy() {
  MILLRACE_ASSIGN_OR_RETURN(
      log_,
      SourceLog::Create(config_, stop_, [this](const std::string& line) { display_.Warn(line); }));
  MILLRACE_ASSIGN_OR_RETURN(const SourceLog::Found found,
                            log_->Find(options_.topic, shape_, dealing_, config_.workers()));
  if (found.ended) {
    if (found.state) written_ = *found.state;
    display_.Say(absl::StrCat("the stream has already been ended: ", log_->input_data(), " holds ",
                              GroupedNumber(written_.rows()), " rows and the end"));
    publisher_->PublishLast(Progress(true), kLastPointWait);
    return absl::OkStatus();
  }
  MILLRACE_RETURN_IF_ERROR(Begin(found.state));
  MILLRACE_RETURN_IF_ERROR(StartReading());
  MILLRACE_RETURN_IF_ERROR(CopyRecords());
  WarnOfColumns();
  batch_->End();
  MILLRACE_RETURN_IF_ERROR(Commit());
  publisher_->PublishLast(Progress(true), kLastPointWait);
  display_.Say(absl::StrCat("ended the stream: ", Summary()));
  return absl::OkStatus();
}

Status KafkaSource::Begin(const std::optional<SourceState>& found) {
  SourceState state;
  if (found) {
    state = *found;
    if (state.has_labels() && !joins_) {
      return absl::FailedPreconditionError(absl::StrCat("this job has the labels of ",
                                                        Printable(state.labels().topic()),
                                                        ": give --labels-from with it"));
    }
    if (state.next_offset_size() > partitions_) {
      return absl::FailedPreconditionError(absl::StrCat(
          options_.topic, " has ", partitions_, " partitions, but ", state.next_offset_size(),
          " were read: it was deleted and made again. Start a new job (another --job)"));
    }
    MILLRACE_RETURN_IF_ERROR(CheckSameTopic(source_kafka_, topic_, state,
                                            options_.continue_on_data_loss, display_, stop_));
    display_.Say(absl::StrCat(log_->input_data(), " holds ", GroupedNumber(state.rows()),
                              " rows already; continuing after them"));
  } else {
    MILLRACE_ASSIGN_OR_RETURN(state, FirstStates());
  }
  batch_.emplace(state, dealing_, reasons_only_);
  if (!found) batch_->EndOthers(config_.workers());
  flushes_.emplace(dealing_.workers);
  RowsAreWritten(steady_clock::now());  // maybe without their flush
  // Where the job begins is known before its first row: a restart begins there, too.
  if (!found) return Commit();
  // What the last client had written without being told counts, too.
  if (restarts_ > 0) rows_of_run_ += state.rows() - written_.rows();
  written_ = state;
  return absl::OkStatus();
}

StatusOr<SourceState> KafkaSource::FirstStates() {
  std::optional<SourceState::Labels> labels;
  if (joins_) {
    // First, so that no label is before them whose row is not.
    const SourceTopic topic = {options_.labels.topic, "TopicSource"};
    MILLRACE_ASSIGN_OR_RETURN(const int32_t partitions, CountPartitions(topic, "--labels-from"));
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<Offset> offsets,
                              StartOffsets(topic.name, partitions));
    labels = labels_->FirstState(offsets);
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<Offset> offsets,
                            StartOffsets(options_.topic, partitions_));
  SourceState state = FirstState(options_.topic, offsets);
  if (labels) *state.mutable_labels() = *std::move(labels);
  return state;
}

Offset KafkaSource::NextToRead(int32_t partition) const {
  return joins_ ? labels_->next_row(partition) : NextOffset(batch_->state(), partition);
}

Status KafkaSource::StartReading() {
  MILLRACE_ASSIGN_OR_RETURN(reader_, SourceReader::Create(source_kafka_, options_.topic, stop_));
  handler_.on_record = [this](const ConsumedRecord& record) { return Take(record); };
  handler_.on_end = [this](int32_t partition, Offset end) {
    // Records behind the end that counts were not taken.
    const Offset until = ends_.Until(partition, end);
    joins_ ? labels_->EndRows(partition, until) : batch_->Skip(partition, until);
    // What comes now is new.
    if (!ends_.NoteEnd(partition, partitions_)) return;
    display_.Say(
        absl::StrCat(options_.topic, " has been read to its end; waiting for further records"));
  };
  handler_.next_offset = [this](int32_t partition) { return NextToRead(partition); };
  handler_.on_deleted = [this](int32_t partition, Offset begin) {
    return OnDeleted(partition, begin);
  };
  std::vector<Offset> ends;
  if (options_.until_end) {
    MILLRACE_ASSIGN_OR_RETURN(
        ends, reader_->Ends(partitions_, [this](const std::string& line) { display_.Warn(line); }));
  }
  ends_.Begin(std::move(ends));
  if (joins_) {
    const SourceTopic topic = {options_.labels.topic, "TopicSource"};
    MILLRACE_ASSIGN_OR_RETURN(const int32_t partitions, CountPartitions(topic, "--labels-from"));
    MILLRACE_RETURN_IF_ERROR(labels_->Begin(batch_->state(), partitions_, partitions));
  }
  for (int32_t i = 0; i < partitions_; ++i) {
    MILLRACE_RETURN_IF_ERROR(reader_->Start(i, handler_));
  }
  next_look_ = steady_clock::now() + (joins_ ? kJoinedPartitionsEvery : kPartitionsEvery);
  return absl::OkStatus();
}

bool KafkaSource::IsAtEnd() const {
  return ends_.IsAtEnd([this](int32_t partition) { return NextToRead(partition); }) &&
         (!joins_ || labels_->IsAtEnd());
}

StatusOr<size_t> KafkaSource::JoinLabels() {
  if (!joins_) return 0;
  const LateLabels::RowReading rows = {.reader = *reader_,
                                       .handler = handler_,
                                       .ends = ends_,
                                       .partitions = partitions_,
                                       .is_full = [this] { return IsFull(); }};
  return labels_->Work(rows, *batch_);
}

Status KafkaSource::CopyRecords() {
  while (!IsAtEnd()) {
    if (stop_) return absl::CancelledError("stopped");
    MILLRACE_ASSIGN_OR_RETURN(size_t events, reader_->Poll(kRecordsAtOnce, handler_));
    MILLRACE_ASSIGN_OR_RETURN(const size_t joined, JoinLabels());
    events += joined;
    const auto now = steady_clock::now();
    MILLRACE_RETURN_IF_ERROR(WriteWhatIsDue(now));
    if (decoder_->rows() >= kRowsWithoutValue) WarnOfColumns();
    MILLRACE_RETURN_IF_ERROR(LookForPartitions(now));
    if (events > 0) continue;
    reader_->Wait(batch_->rows() > 0 ? std::min(kIdleWait, options_.linger) : kIdleWait);
  }
  return absl::OkStatus();
}

Status KafkaSource::WriteWhatIsDue(steady_clock::time_point now) {
  if (IsDue(now)) MILLRACE_RETURN_IF_ERROR(Commit());
  MILLRACE_RETURN_IF_ERROR(WriteFlushes(now));
  ShowProgress(now);
  return absl::OkStatus();
}

Status KafkaSource::Take(const ConsumedRecord& record) {
  if (!ends_.Counts(record.partition, record.offset)) return absl::OkStatus();
  if (record.offset < NextToRead(record.partition)) return absl::OkStatus();
  if (record.value.data() == nullptr) {
    joins_ ? labels_->AddTombstone(record) : batch_->AddTombstone(record);
    return absl::OkStatus();
  }
  Status decoded = schema_wait_.Run([&] { return Decode(record); },
                                    [this] { return WriteWhatIsDue(steady_clock::now()); });
  if (IsOfNoRecord(decoded)) return decoded;
  if (decoded.ok() && EncodedBytesOf(row_) > kMostSourceRowBytes) {
    decoded = absl::InvalidArgumentError(absl::StrCat("a row of ", EncodedBytesOf(row_),
                                                      " bytes, which no record of input-data has"));
  }
  WarnOfUnusable(decoded);
  if (decoded.ok()) {
    joins_ ? labels_->AddRow(record, key_, row_) : batch_->AddRow(record, row_);
  } else {
    joins_ ? labels_->AddUnusable(record, decoded) : batch_->AddUnusable(record, decoded);
  }
  return absl::OkStatus();
}

// Once: of the first records.
void KafkaSource::WarnOfUnusable(const Status& decoded) {
  if (records_ == kRowsWithoutValue) return;
  if (!decoded.ok()) unusable_.Add(TextOf(decoded));
  if (++records_ < kRowsWithoutValue) return;
  const std::string warning = unusable_.Text(options_.topic, records_);
  if (!warning.empty()) display_.Warn(warning);
}

Status KafkaSource::Decode(const ConsumedRecord& record) {
  return joins_ ? decoder_->DecodeKeyed(record.value, &row_, &key_)
                : decoder_->Decode(record.value, &row_);
}

Status KafkaSource::OnDeleted(int32_t partition, Offset begin) {
  MILLRACE_RETURN_IF_ERROR(NoteDeleted(topic_, partition, NextToRead(partition), begin,
                                       options_.continue_on_data_loss, display_));
  joins_ ? labels_->LoseRows(partition, begin) : batch_->Lose(partition, begin);
  return absl::OkStatus();
}

bool KafkaSource::IsDue(steady_clock::time_point now) const {
  if (IsFull()) return true;
  const auto since = now - last_commit_;
  if (batch_->rows() > 0) return since >= options_.linger;
  if (batch_->letters() > 0) return since >= kLettersEvery;
  return batch_->has_moved() && since >= kMovesEvery;
}

Status KafkaSource::Commit() {
  const SourceBatch::Transaction transaction = batch_->Take();
  MILLRACE_RETURN_IF_ERROR(log_->Write(transaction));
  const SourceState& state = batch_->state();
  if (!transaction.rows.empty()) restarts_ = 0;
  rows_of_run_ += state.rows() - written_.rows();
  written_ = state;
  last_commit_ = steady_clock::now();
  RowsAreWritten(last_commit_);
  return absl::OkStatus();
}

void KafkaSource::RowsAreWritten(steady_clock::time_point now) {
  for (WorkerId worker = 0; worker < dealing_.workers; ++worker) {
    flushes_->Add(worker, batch_->end(worker), now);
  }
}

// In a transaction of their own: the state stands in the last record of rows.
Status KafkaSource::WriteFlushes(steady_clock::time_point now) {
  const std::optional<milliseconds> wait = batch_wait_->Get();
  SourceBatch::Transaction transaction;
  for (WorkerId worker = 0; wait && worker < dealing_.workers; ++worker) {
    if (!flushes_->IsDue(worker, now, *wait)) continue;
    const RowNumber row = flushes_->Take(worker);
    transaction.rows.push_back({worker, {row, 0}, EncodeFlush(row)});
  }
  return transaction.rows.empty() ? absl::OkStatus() : log_->Write(transaction);
}

// Partitions that are added later are read from their beginning.
Status KafkaSource::LookForPartitions(steady_clock::time_point now) {
  if (now < next_look_ || options_.until_end) return absl::OkStatus();
  next_look_ = now + (joins_ ? kJoinedPartitionsEvery : kPartitionsEvery);
  MILLRACE_ASSIGN_OR_RETURN(const int32_t count, PartitionsNow(*admin_, topic_, partitions_));
  for (; partitions_ < count; ++partitions_) {
    display_.Say(
        absl::StrCat("reading partition ", partitions_, ", which was added to ", options_.topic));
    if (joins_) labels_->AddRowPartition(partitions_);
    MILLRACE_RETURN_IF_ERROR(reader_->Start(partitions_, handler_));
  }
  return absl::OkStatus();
}

// ---- what is told ----

void KafkaSource::ShowProgress(steady_clock::time_point now) {
  const ProducerProgress progress = Progress(false);
  display_.Show(now, progress, /*skipping=*/false);
  publisher_->Publish(now, progress);
  const auto warning = turns_.Look(dealing_.rows_per_turn, rows_of_run_, now);
  if (warning) display_.Warn(*warning);
}

void KafkaSource::WarnOfColumns() {
  if (std::exchange(columns_are_known_, true) || decoder_->rows() == 0) return;
  WarnOfEmptyColumns(topic_, decoder_->EmptyColumns(), decoder_->rows(), display_);
}

// What was read is written, if Kafka takes it; if not, the next run reads it again.
Status KafkaSource::Stopped(const Status& last) {
  if (batch_ && batch_->has_moved() && log_ != nullptr) Commit().IgnoreError();
  publisher_->PublishLast(Progress(false), kLastPointWait);
  display_.Say(absl::StrCat("stopped: ", Summary(),
                            "; started again with the same flags, TopicSource continues there"));
  return last;
}

}  // namespace

StatusOr<std::unique_ptr<SourceRun>> SourceRun::Create(const JobConfig& config,
                                                       const Options& options) {
  auto run = std::make_unique<KafkaSource>(config, options);
  MILLRACE_RETURN_IF_ERROR(run->Open());
  return std::unique_ptr<SourceRun>(std::move(run));
}

}  // namespace millrace
