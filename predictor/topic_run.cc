#include "predictor/topic_run.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_marks.h"
#include "base/grouped_number.h"
#include "kafka/admin.h"
#include "kafka/broker_retry.h"
#include "kafka/timeouts.h"
#include "predictor/topic_writer.h"
#include "producer/progress_display.h"
#include "producer/read_ends.h"
#include "producer/schema_wait.h"
#include "producer/source_notes.h"
#include "producer/source_reader.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using Scored = RecordScorer::Scored;

constexpr int kMostWriters = 10;  // one after the other, between two transactions
constexpr size_t kRecordsAtOnce = 1000;
// A transaction is no larger.
constexpr uint64_t kMostRecords = 50'000;
constexpr size_t kMostBytes = size_t{8} << 20;
// Of transactions that have positions only.
constexpr seconds kMovesEvery(10);
// Kafka forgets positions that nobody commits again (offsets.retention.minutes, a week).
constexpr std::chrono::hours kAllPositionsEvery(1);
constexpr seconds kPartitionsEvery(30);

// Of a run, or of a transaction.
struct Counts {
  uint64_t records = 0;
  uint64_t bytes = 0;  // of their values
  uint64_t errors = 0;
  uint64_t tombstones = 0;
  uint64_t lost = 0;  // offsets that were deleted before they were read

  void Add(const Counts& other) {
    records += other.records;
    bytes += other.bytes;
    errors += other.errors;
    tombstones += other.tombstones;
    lost += other.lost;
  }
  uint64_t predictions() const { return records - errors - tombstones; }
};

class KafkaTopicRun final : public TopicRun {
 public:
  KafkaTopicRun(const ModelSource& models, Options options)
      : models_(models),
        options_(std::move(options)),
        topic_{options_.input, "Predictor"},
        stop_(*options_.stop),
        broker_retry_(stop_, options_.kafka.broker_timeout_s),
        display_(options_.quiet),
        schema_wait_([this](const std::string& line) { display_.Warn(line); }, stop_) {}

  Status Open();
  Status Run() override;

 private:
  Status CheckOptions() const;
  Status OpenFormat();
  StatusOr<int32_t> CountPartitions(const std::string& topic, const std::string& flag);
  Status CountAllPartitions();
  const std::string& ErrorTopic() const {
    return options_.errors.empty() ? options_.output : options_.errors;
  }
  Status Copy();
  Status FindPositions();
  Status StartReading();
  Status CopyRecords();
  Status WriteWhatIsDue(steady_clock::time_point now);
  Status StopReading();
  Status Take(const ConsumedRecord& record);
  Status OnDeleted(int32_t partition, Offset begin);
  void UseNewestModel();
  Status Flush();
  bool HasRecords() const { return counts_.records > 0; }
  bool HasMoved() const { return next_ != committed_; }
  bool IsDue(steady_clock::time_point now) const;
  Status Commit(bool all_positions);
  Status LookForPartitions(steady_clock::time_point now);
  void ShowProgress(steady_clock::time_point now);
  void WarnOfColumns(bool at_end);
  std::string Summary() const;

  const ModelSource& models_;
  Options options_;
  const SourceTopic topic_;
  const std::atomic<bool>& stop_;
  const BrokerRetry broker_retry_;
  ProgressDisplay display_;
  SchemaWait schema_wait_;

  std::unique_ptr<KafkaAdmin> admin_;
  int32_t partitions_ = 0;  // of the input
  int32_t output_partitions_ = 0;
  int32_t error_partitions_ = 0;
  std::optional<RecordScorer> scorer_;
  std::shared_ptr<const ModelScorer> refused_;  // the newest model, which does not fit the columns
  bool columns_are_known_ = false;              // to have values, or else the user was warned

  // Of the present writer; another one makes them anew.
  std::unique_ptr<TopicWriter> writer_;
  std::unique_ptr<SourceReader> reader_;
  SourceReader::Handler handler_;
  std::map<int32_t, Offset> next_;       // of each partition: what is before was taken
  std::map<int32_t, Offset> committed_;  // of each partition, with what was written
  ReadEnds ends_;                        // none without until_end
  Counts counts_;                        // of this transaction

  Counts written_;  // by this run
  int restarts_ = 0;
  steady_clock::time_point last_commit_;
  steady_clock::time_point next_all_positions_;
  steady_clock::time_point next_look_;
};

// ---- before any broker ----

Status KafkaTopicRun::CheckOptions() const {
  const auto wrong = [](const std::string& what) { return absl::InvalidArgumentError(what); };
  if (options_.output == options_.input) {
    return wrong("--output-topic is the --input-topic: predictions would be scored in turn");
  }
  if (options_.errors == options_.input) return wrong("--error-topic is the --input-topic");
  if (options_.records.format == RecordScorer::Format::kAvro && options_.records.with_row) {
    return wrong("--with-row has no effect with --format avro: such a row is no JSON");
  }
  return absl::OkStatus();
}

// Whether the values can be read, and by what.
Status KafkaTopicRun::OpenFormat() {
  using Format = RecordScorer::Format;
  SourceFormat::Options format = options_.schemas;
  format.kind = options_.records.format == Format::kCsv    ? SourceFormat::Kind::kCsv
                : options_.records.format == Format::kAvro ? SourceFormat::Kind::kAvro
                                                           : SourceFormat::Kind::kJson;
  format.columns = options_.records.columns;
  format.registry.stop = &stop_;
  MILLRACE_ASSIGN_OR_RETURN(
      SourceFormat made, SourceFormat::Create(JobConfig(), format, [this](const std::string& line) {
        display_.Warn(absl::StrCat(line, "; each of its records gets an error in ", ErrorTopic()));
      }));
  options_.records.avro = std::make_shared<const SourceFormat>(std::move(made));
  return absl::OkStatus();
}

Status KafkaTopicRun::Open() {
  MILLRACE_RETURN_IF_ERROR(CheckOptions());
  MILLRACE_RETURN_IF_ERROR(OpenFormat());
  if (options_.group.empty()) {
    options_.group = absl::StrCat("predictor.", options_.input, ".", options_.output);
  }
  MILLRACE_ASSIGN_OR_RETURN(RecordScorer scorer,
                            RecordScorer::Create(models_.model(), options_.records));
  scorer_.emplace(std::move(scorer));
  MILLRACE_ASSIGN_OR_RETURN(admin_, KafkaAdmin::Create(options_.kafka, "predictor-admin"));
  return absl::OkStatus();
}

// ---- what is there ----

StatusOr<int32_t> KafkaTopicRun::CountPartitions(const std::string& topic,
                                                 const std::string& flag) {
  StatusOr<int32_t> partitions = broker_retry_.Run([&] { return admin_->PartitionCount(topic); });
  if (!absl::IsNotFound(partitions.status())) return partitions;
  const bool is_read = topic == options_.input;
  return absl::NotFoundError(absl::StrCat(
      "there is no topic ", topic, " at ", options_.kafka.brokers,
      is_read
          ? absl::StrCat(": check ", flag, " and --brokers")
          : absl::StrCat(" (", flag, "): create it; with ", partitions_, " partitions, as many as ",
                         options_.input, " has, each record keeps the number of its partition")));
}

Status KafkaTopicRun::CountAllPartitions() {
  MILLRACE_ASSIGN_OR_RETURN(partitions_, CountPartitions(options_.input, "--input-topic"));
  MILLRACE_RETURN_IF_ERROR(CheckPartitions(topic_, partitions_));
  MILLRACE_ASSIGN_OR_RETURN(output_partitions_, CountPartitions(options_.output, "--output-topic"));
  MILLRACE_ASSIGN_OR_RETURN(error_partitions_, CountPartitions(ErrorTopic(), "--error-topic"));
  display_.Say(absl::StrCat("scoring ", options_.input, " of ", partitions_,
                            partitions_ == 1 ? " partition" : " partitions", " into ",
                            options_.output, ", as the group ", options_.group));
  if (output_partitions_ >= partitions_) return absl::OkStatus();
  display_.Warn(absl::StrCat(
      options_.output, " has ", output_partitions_, " partitions, fewer than ", options_.input,
      ": what comes from partition P goes to P modulo ", output_partitions_));
  return absl::OkStatus();
}

// ---- the run ----

Status KafkaTopicRun::Run() {
  MILLRACE_RETURN_IF_ERROR(CountAllPartitions());
  while (true) {
    Status copied = Copy();
    if (absl::IsCancelled(copied)) {
      display_.Say(absl::StrCat("stopped: ", Summary(),
                                "; started again with the same flags, Predictor continues there"));
    }
    const bool may_mend = absl::IsAborted(copied) && !IsPermanent(copied);
    const bool goes_on = may_mend && ++restarts_ <= kMostWriters;
    // Readers of committed records stand still until the transaction has ended.
    if (writer_ != nullptr && !copied.ok() && !IsFenced(copied)) {
      Status aborted = writer_->Abort(goes_on);
      if (IsFenced(aborted) || absl::IsCancelled(aborted)) return aborted;
    }
    if (!goes_on) return copied;
    display_.Warn(absl::StrCat(copied.message(),
                               "; Predictor looks for what Kafka has, and continues there"));
    reader_.reset();
    writer_.reset();
    scorer_->Clear();  // what it has may be written already
  }
}

// With one writer: until the end, or an error.
Status KafkaTopicRun::Copy() {
  std::vector<std::string> outputs = {options_.output};
  if (!options_.errors.empty()) outputs.push_back(options_.errors);
  MILLRACE_ASSIGN_OR_RETURN(
      writer_,
      TopicWriter::Create({.kafka = options_.kafka,
                           .group = options_.group,
                           .input = options_.input,
                           .outputs = outputs,
                           .warn = [this](const std::string& line) { display_.Warn(line); }},
                          stop_));
  MILLRACE_ASSIGN_OR_RETURN(
      reader_, SourceReader::Create(
                   options_.kafka, options_.input, stop_,
                   {.client = "predictor", .remedy = "Give another --group to begin anew"}));
  MILLRACE_RETURN_IF_ERROR(FindPositions());
  MILLRACE_RETURN_IF_ERROR(StartReading());
  MILLRACE_RETURN_IF_ERROR(CopyRecords());
  WarnOfColumns(/*at_end=*/true);
  if (HasRecords() || HasMoved()) MILLRACE_RETURN_IF_ERROR(Commit(/*all_positions=*/true));
  display_.Say(absl::StrCat("read to the end: ", Summary()));
  return absl::OkStatus();
}

Status KafkaTopicRun::FindPositions() {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::optional<Offset>> found,
                            writer_->Positions(partitions_));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<OffsetRange> ranges, reader_->Ranges(partitions_));
  const bool has_begun = std::ranges::any_of(found, [](const auto& offset) { return !!offset; });
  std::vector<Offset> start;
  if (has_begun) {  // partitions that were added since are read from their beginning
    for (const OffsetRange& range : ranges) start.push_back(range.begin);
  } else {
    MILLRACE_ASSIGN_OR_RETURN(
        start, OffsetsOf(options_.start, options_.kafka, options_.input, ranges, broker_retry_));
  }
  next_.clear();
  committed_.clear();
  counts_ = {};
  std::vector<Offset> ends;
  for (int32_t i = 0; i < partitions_; ++i) {
    if (found[i]) committed_[i] = *found[i];
    next_[i] = found[i].value_or(start[i]);
  }
  if (options_.until_end) {
    MILLRACE_ASSIGN_OR_RETURN(
        ends, reader_->Ends(partitions_, [this](const std::string& line) { display_.Warn(line); }));
  }
  ends_.Begin(std::move(ends));
  if (has_begun) {
    display_.Say(absl::StrCat("the group ", options_.group, " has begun; continuing there"));
  }
  // Where the group begins is known before the first record: a restart begins there, too.
  next_all_positions_ = steady_clock::now() + kAllPositionsEvery;
  // Nor may Kafka forget the positions of partitions in which nothing happens.
  return Commit(/*all_positions=*/true);
}

Status KafkaTopicRun::StartReading() {
  handler_.wants_headers = true;
  handler_.on_record = [this](const ConsumedRecord& record) { return Take(record); };
  handler_.on_end = [this](int32_t partition, Offset end) {
    // Records behind the end that counts were not taken.
    Offset& next = next_[partition];
    next = std::max(next, ends_.Until(partition, end));
    // What comes now is new.
    if (!ends_.NoteEnd(partition, partitions_)) return;
    display_.Say(
        absl::StrCat(options_.input, " has been read to its end; waiting for further records"));
  };
  handler_.next_offset = [this](int32_t partition) { return next_[partition]; };
  handler_.on_deleted = [this](int32_t partition, Offset begin) {
    return OnDeleted(partition, begin);
  };
  for (int32_t i = 0; i < partitions_; ++i) {
    MILLRACE_RETURN_IF_ERROR(reader_->Start(i, handler_));
  }
  next_look_ = steady_clock::now() + kPartitionsEvery;
  // What comes first is not kept waiting by the commit of where the run begins.
  last_commit_ = steady_clock::now() - std::max<milliseconds>(options_.linger, kMovesEvery);
  return absl::OkStatus();
}

Status KafkaTopicRun::CopyRecords() {
  const auto next = [this](int32_t partition) { return next_.at(partition); };
  while (!ends_.IsAtEnd(next)) {
    if (stop_) return StopReading();
    MILLRACE_ASSIGN_OR_RETURN(const size_t events, reader_->Poll(kRecordsAtOnce, handler_));
    const auto now = steady_clock::now();
    MILLRACE_RETURN_IF_ERROR(WriteWhatIsDue(now));
    WarnOfColumns(/*at_end=*/false);
    MILLRACE_RETURN_IF_ERROR(LookForPartitions(now));
    if (events > 0) continue;
    reader_->Wait(HasRecords() ? std::min(kIdleWait, options_.linger) : kIdleWait);
  }
  return absl::OkStatus();
}

Status KafkaTopicRun::WriteWhatIsDue(steady_clock::time_point now) {
  MILLRACE_RETURN_IF_ERROR(Flush());
  if (now >= next_all_positions_) {
    MILLRACE_RETURN_IF_ERROR(Commit(/*all_positions=*/true));
  } else if (IsDue(now)) {
    MILLRACE_RETURN_IF_ERROR(Commit(/*all_positions=*/false));
  }
  ShowProgress(now);
  return absl::OkStatus();
}

// What was read is written, if Kafka takes it; if not, the next run reads it again.
Status KafkaTopicRun::StopReading() {
  if (HasRecords() || HasMoved()) Commit(/*all_positions=*/false).IgnoreError();
  return absl::CancelledError("stopped");
}

Status KafkaTopicRun::Take(const ConsumedRecord& record) {
  if (!ends_.Counts(record.partition, record.offset)) return absl::OkStatus();
  Offset& next = next_[record.partition];
  if (record.offset < next) return absl::OkStatus();
  if (scorer_->records() == 0) UseNewestModel();
  // (What was taken is written meanwhile.)
  MILLRACE_RETURN_IF_ERROR(
      schema_wait_.Run([&] { return scorer_->Add(record); },
                       [this] { return WriteWhatIsDue(steady_clock::now()); }));
  next = record.offset + 1;
  ++counts_.records;
  counts_.bytes += record.value.size();
  return scorer_->is_full() ? Flush() : absl::OkStatus();
}

void KafkaTopicRun::UseNewestModel() {
  const std::shared_ptr<const ModelScorer> model = models_.model();
  if (model.get() == &scorer_->model() || model == refused_ || scorer_->Use(model)) return;
  StatusOr<RecordScorer> scorer = RecordScorer::Create(model, options_.records);
  if (scorer.ok()) {
    scorer_.emplace(*std::move(scorer));
    return;
  }
  refused_ = model;
  display_.Warn(absl::StrCat("the newer model does not fit, and the last one is kept: ",
                             scorer.status().message()));
}

// Sends what was taken, in the order in which it came.
Status KafkaTopicRun::Flush() {
  if (scorer_->records() == 0) return absl::OkStatus();
  for (const Scored& record : scorer_->Score()) {
    const bool is_error = record.kind == Scored::Kind::kError;
    if (is_error) ++counts_.errors;
    if (record.kind == Scored::Kind::kTombstone) ++counts_.tombstones;
    const std::string& topic = is_error ? ErrorTopic() : options_.output;
    const int32_t partitions = is_error ? error_partitions_ : output_partitions_;
    MILLRACE_RETURN_IF_ERROR(writer_->Send(topic, record.partition % partitions, record));
  }
  scorer_->Clear();
  return absl::OkStatus();
}

Status KafkaTopicRun::OnDeleted(int32_t partition, Offset begin) {
  const Offset next = next_[partition];
  MILLRACE_RETURN_IF_ERROR(
      NoteDeleted(topic_, partition, next, begin, options_.continue_on_data_loss, display_));
  counts_.lost += static_cast<uint64_t>(begin - next);
  next_[partition] = begin;
  return absl::OkStatus();
}

bool KafkaTopicRun::IsDue(steady_clock::time_point now) const {
  if (counts_.records >= kMostRecords || counts_.bytes >= kMostBytes) return true;
  const auto since = now - last_commit_;
  return HasRecords() ? since >= options_.linger : HasMoved() && since >= kMovesEvery;
}

Status KafkaTopicRun::Commit(bool all_positions) {
  MILLRACE_RETURN_IF_ERROR(Flush());
  std::map<int32_t, Offset> positions = next_;
  if (!all_positions) {
    std::erase_if(positions, [this](const auto& entry) {
      const auto found = committed_.find(entry.first);
      return found != committed_.end() && found->second == entry.second;
    });
  }
  MILLRACE_RETURN_IF_ERROR(writer_->Commit(positions));
  if (HasRecords()) restarts_ = 0;
  committed_ = next_;
  written_.Add(counts_);
  counts_ = {};
  last_commit_ = steady_clock::now();
  if (all_positions) next_all_positions_ = last_commit_ + kAllPositionsEvery;
  return absl::OkStatus();
}

// Partitions that are added later are read from their beginning.
Status KafkaTopicRun::LookForPartitions(steady_clock::time_point now) {
  if (now < next_look_ || options_.until_end) return absl::OkStatus();
  next_look_ = now + kPartitionsEvery;
  MILLRACE_ASSIGN_OR_RETURN(const int32_t count, PartitionsNow(*admin_, topic_, partitions_));
  for (; partitions_ < count; ++partitions_) {
    display_.Say(
        absl::StrCat("reading partition ", partitions_, ", which was added to ", options_.input));
    next_[partitions_] = 0;
    MILLRACE_RETURN_IF_ERROR(reader_->Start(partitions_, handler_));
  }
  return absl::OkStatus();
}

// ---- what is told ----

void KafkaTopicRun::ShowProgress(steady_clock::time_point now) {
  ProducerProgress progress;
  progress.set_bytes_read(written_.bytes);
  progress.set_rows_read(written_.records);
  progress.set_rows_sent(written_.predictions());
  progress.set_rows_rejected(written_.errors);
  display_.Show(now, progress, /*skipping=*/false);
}

// Once: of the first rows.
void KafkaTopicRun::WarnOfColumns(bool at_end) {
  if (scorer_->rows() == 0 || columns_are_known_) return;
  const std::string warning =
      EmptyRowsText(options_.input, scorer_->empty_rows(), scorer_->columns(), at_end);
  columns_are_known_ = at_end || !warning.empty() || scorer_->rows() >= kFirstRows;
  if (!warning.empty()) return display_.Warn(warning);
  if (!columns_are_known_) return;
  WarnOfEmptyColumns(topic_, scorer_->EmptyColumns(), scorer_->rows(), display_);
}

std::string KafkaTopicRun::Summary() const {
  const auto counted = [](uint64_t count, const char* what) {
    return absl::StrCat(GroupedNumber(count), what, count == 1 ? "" : "s");
  };
  std::string line = absl::StrCat(options_.output, " got ",
                                  counted(written_.predictions(), " prediction"), " from this run");
  if (written_.errors > 0) {
    absl::StrAppend(&line, "; ", counted(written_.errors, " record"), " could not be used, see ",
                    ErrorTopic());
    const std::string_view last = scorer_->last_reason();
    if (!last.empty())
      absl::StrAppend(&line, "; the last: ", absl::string_view(last.data(), last.size()));
  }
  if (written_.tombstones > 0) {
    absl::StrAppend(&line, "; ", counted(written_.tombstones, " tombstone"), " passed on");
  }
  if (written_.lost > 0) {
    absl::StrAppend(&line, "; ", counted(written_.lost, " offset"),
                    " deleted before they were read");
  }
  return line;
}

}  // namespace

StatusOr<std::unique_ptr<TopicRun>> TopicRun::Create(const ModelSource& models, Options options) {
  auto run = std::make_unique<KafkaTopicRun>(models, std::move(options));
  MILLRACE_RETURN_IF_ERROR(run->Open());
  return std::unique_ptr<TopicRun>(std::move(run));
}

}  // namespace millrace
