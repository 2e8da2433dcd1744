#include "producer/late_labels.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/grouped_number.h"
#include "base/printable.h"
#include "kafka/broker_retry.h"
#include "kafka/timeouts.h"
#include "metrics/source_counts.h"
#include "producer/progress_text.h"
#include "producer/source_positions.h"

namespace millrace {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr size_t kLabelsAtOnce = 1000;
constexpr seconds kLookEvery(1);
constexpr int kShareOfLooks = 10;
// Less than LabelJoin::kLateMs, within which the first records of a partition must be known.
constexpr seconds kLabelPartitionsEvery(3);
constexpr seconds kCountsEvery(60);
// A record whose time is further ahead of this clock would keep others back.
constexpr int64_t kMostAheadMs = 3'600'000;
// A partition is ahead of the others by more.
constexpr int64_t kSlackMs = 1000;
constexpr uint64_t kDefaultMemoryMb = 512;
constexpr uint64_t kRowsBeforeWarning = 1000;
constexpr uint64_t kFewInRows = 100;  // one of so many rows without a label is not worth a warning
// The state has the positions of all.
constexpr int32_t kMostOfBoth = 4096;

Status CheckTime(int64_t time_ms, int64_t now_ms) {
  if (time_ms < 0) {
    return absl::InvalidArgumentError(
        "a record without a time, by which rows and labels are joined");
  }
  if (time_ms <= now_ms + kMostAheadMs) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "the record's time is more than an hour ahead: rows and labels are joined by their times");
}

ConsumedRecord RecordOf(const HeldRecord& held) {
  return {.partition = held.partition,
          .offset = held.offset,
          .timestamp_ms = held.time_ms,
          .key = held.key,
          .value = held.failed ? std::string_view(held.failed->value) : std::string_view()};
}

}  // namespace

Status CheckLateLabels(const LateLabelOptions& options, const std::string& rows) {
  if (options.topic.empty()) {
    if (options.key.empty() && !options.window_s && !options.unmatched_label &&
        !options.memory_mb && options.columns.empty()) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        "--join-key, --join-window, --join-memory, --label-columns and --unmatched-label need "
        "--labels-from TOPIC: without it labels are in the rows");
  }
  if (options.topic == rows) {
    return absl::InvalidArgumentError(
        "--labels-from names the topic of the rows: without it labels are in the rows");
  }
  if (options.key.empty() || !options.window_s) {
    return absl::InvalidArgumentError(
        "--labels-from needs --join-key COLUMN, which rows and labels have in common, and "
        "--join-window SECONDS, within which a label comes");
  }
  return absl::OkStatus();
}

LateLabels::LateLabels(const LateLabelOptions& options, LabelDecoder decoder,
                       Surroundings surroundings)
    : options_(options),
      topic_{options.topic, "TopicSource"},
      window_ms_(static_cast<int64_t>(1000 * options.window_s.value_or(0))),
      memory_(size_t{options.memory_mb.value_or(kDefaultMemoryMb)} << 20),
      around_(std::move(surroundings)),
      decoder_(std::move(decoder)) {}

StatusOr<std::unique_ptr<LateLabels>> LateLabels::Create(const LateLabelOptions& options,
                                                         LabelDecoder decoder,
                                                         Surroundings surroundings) {
  std::unique_ptr<LateLabels> labels(
      new LateLabels(options, std::move(decoder), std::move(surroundings)));
  if (!options.unmatched_label) return labels;
  const StatusOr<JoinedLabel> label = labels->decoder_.Read(*options.unmatched_label);
  if (!label.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("--unmatched-label: ", label.status().message()));
  }
  labels->default_ = *label;
  return labels;
}

// ---- the beginning ----

SourceState::Labels LateLabels::FirstState(const std::vector<Offset>& offsets) const {
  SourceState::Labels state;
  state.set_topic(options_.topic);
  for (const Offset offset : offsets) {
    SourceState::Labels::Partition& partition = *state.add_partition();
    partition.set_next_offset(offset);
    partition.set_newest_ms(LabelJoin::kNoTime);
  }
  return state;
}

Status LateLabels::Begin(const SourceState& state, int32_t row_partitions,
                         int32_t label_partitions) {
  const SourceState::Labels& labels = state.labels();
  constexpr char kRemedy[] = ": start a new job (another --job)";
  if (labels.topic() != options_.topic) {
    return absl::FailedPreconditionError(
        absl::StrCat(labels.topic().empty()
                         ? "this job finds the labels in the rows"
                         : absl::StrCat("this job has the labels of ", Printable(labels.topic())),
                     ", here is --labels-from ", options_.topic, kRemedy));
  }
  if (labels.partition_size() > label_partitions) {
    return absl::FailedPreconditionError(absl::StrCat(
        options_.topic, " has ", label_partitions, " partitions, but ", labels.partition_size(),
        " were read: it was deleted and made again", kRemedy));
  }
  if (row_partitions + label_partitions > kMostOfBoth) {
    return absl::FailedPreconditionError(
        absl::StrCat("the topics of rows and labels have more than ", kMostOfBoth,
                     " partitions together, which TopicSource does not join"));
  }
  std::vector<LabelJoin::Position> rows(static_cast<size_t>(row_partitions));
  for (int32_t i = 0; i < row_partitions; ++i) {
    LabelJoin::Position& position = rows[static_cast<size_t>(i)];
    position.next = NextOffset(state, i);
    if (i < labels.row_newest_ms_size()) position.newest_ms = labels.row_newest_ms(i);
  }
  std::vector<LabelJoin::Position> of_labels(static_cast<size_t>(label_partitions));
  for (int32_t i = 0; i < labels.partition_size(); ++i) {
    const SourceState::Labels::Partition& partition = labels.partition(i);
    of_labels[static_cast<size_t>(i)] = {Offset(partition.next_offset()), partition.newest_ms(),
                                         Offset(partition.read())};
  }
  join_ = std::make_unique<LabelJoin>(window_ms_, rows, of_labels);
  counts_ = labels;
  counts_.clear_partition();
  counts_.clear_row_newest_ms();
  for (std::set<int32_t>* partitions :
       {&rows_at_end_, &labels_at_end_, &held_rows_, &held_labels_}) {
    partitions->clear();
  }
  return StartReading(label_partitions);
}

void LateLabels::SetHandler() {
  handler_.on_record = [this](const ConsumedRecord& record) { return Take(record); };
  handler_.on_end = [this](int32_t partition, Offset end) {
    join_->PassLabels(HeldRecord::Kind::kSkipped, partition, ends_.Until(partition, end));
    labels_at_end_.insert(partition);
  };
  handler_.next_offset = [this](int32_t partition) { return join_->next_label(partition); };
  handler_.on_deleted = [this](int32_t partition, Offset begin) {
    return OnDeleted(partition, begin);
  };
}

Status LateLabels::StartReading(int32_t partitions) {
  MILLRACE_ASSIGN_OR_RETURN(reader_,
                            SourceReader::Create(around_.kafka, options_.topic, *around_.stop));
  SetHandler();
  std::vector<Offset> ends;
  if (around_.until_end) {
    MILLRACE_ASSIGN_OR_RETURN(ends, reader_->Ends(partitions, [this](const std::string& line) {
      around_.display->Warn(line);
    }));
  }
  ends_.Begin(std::move(ends));
  for (partitions_ = 0; partitions_ < partitions; ++partitions_) {
    MILLRACE_RETURN_IF_ERROR(reader_->Start(partitions_, handler_));
  }
  next_look_ = next_partitions_ = steady_clock::now();
  next_line_ = next_look_ + kCountsEvery;
  return absl::OkStatus();
}

// ---- what is read ----

HeldRecord LateLabels::Held(const ConsumedRecord& record) const {
  return {.partition = record.partition,
          .offset = record.offset,
          .time_ms = record.timestamp_ms,
          .value_bytes = record.value.size()};
}

HeldRecord LateLabels::Failed(const ConsumedRecord& record, const Status& why) const {
  HeldRecord held = Held(record);
  held.kind = HeldRecord::Kind::kUnusable;
  held.key = std::string(record.key);
  held.failed = std::make_unique<HeldRecord::Failed>(
      HeldRecord::Failed{.value = std::string(record.value), .why = why});
  return held;
}

void LateLabels::AddRow(const ConsumedRecord& record, const std::string& key, const Row& row) {
  const int64_t now_ms = NowMs();
  if (const Status usable = CheckTime(record.timestamp_ms, now_ms); !usable.ok()) {
    return AddUnusable(record, usable);
  }
  rows_at_end_.erase(record.partition);
  HeldRecord held = Held(record);
  held.key = key;
  join_->AddRow(std::move(held), row, now_ms);
}

void LateLabels::AddUnusable(const ConsumedRecord& record, const Status& why) {
  rows_at_end_.erase(record.partition);
  join_->AddRow(Failed(record, why), Row(), NowMs());
}

void LateLabels::AddTombstone(const ConsumedRecord& record) {
  rows_at_end_.erase(record.partition);
  HeldRecord held = Held(record);
  held.kind = HeldRecord::Kind::kTombstone;
  join_->AddRow(std::move(held), Row(), NowMs());
}

void LateLabels::EndRows(int32_t partition, Offset end) {
  join_->PassRows(HeldRecord::Kind::kSkipped, partition, end);
  rows_at_end_.insert(partition);
}

void LateLabels::LoseRows(int32_t partition, Offset next) {
  join_->PassRows(HeldRecord::Kind::kLost, partition, next);
}

void LateLabels::AddRowPartition(int32_t partition) {
  join_->NoteRowsRead(partition, LabelJoin::kNoTime);
}

Status LateLabels::Take(const ConsumedRecord& record) {
  if (!ends_.Counts(record.partition, record.offset)) return absl::OkStatus();
  if (record.offset < join_->next_label(record.partition)) return absl::OkStatus();
  labels_at_end_.erase(record.partition);
  HeldRecord held = Held(record);
  JoinedLabel label;
  if (record.value.data() == nullptr) {
    held.kind = HeldRecord::Kind::kTombstone;
  } else {
    Status decoded =
        around_.decode([&] { return decoder_.Decode(record.value, &held.key, &label); });
    if (IsOfNoRecord(decoded)) return decoded;
    if (decoded.ok()) decoded = CheckTime(record.timestamp_ms, NowMs());
    if (!decoded.ok()) held = Failed(record, decoded);
  }
  join_->AddLabel(std::move(held), label, NowMs());
  return absl::OkStatus();
}

Status LateLabels::OnDeleted(int32_t partition, Offset begin) {
  MILLRACE_RETURN_IF_ERROR(NoteDeleted(topic_, partition, join_->next_label(partition), begin,
                                       around_.continue_on_data_loss, *around_.display));
  join_->PassLabels(HeldRecord::Kind::kLost, partition, begin);
  return absl::OkStatus();
}

// ---- the time of partitions ----

void LateLabels::NoteEnds(const RowReading& rows) {
  for (int32_t i = 0; i < rows.partitions; ++i) {
    if (rows.ends.IsAtEnd(i, join_->next_row(i))) join_->NoteRowsRead(i, LabelJoin::kAlways);
  }
  for (int32_t i = 0; i < partitions_; ++i) {
    if (ends_.IsAtEnd(i, join_->next_label(i))) join_->NoteLabelsRead(i, LabelJoin::kAlways);
  }
}

// Where nothing comes, time passes, but only as far as a broker says that there is nothing.
Status LateLabels::Look(const RowReading& rows) {
  const auto begin = steady_clock::now();
  for (const bool is_rows : {true, false}) {
    for (const int32_t partition : is_rows ? rows_at_end_ : labels_at_end_) {
      const int64_t moment_ms = NowMs();
      const StatusOr<OffsetRange> range = (is_rows ? rows.reader : *reader_).RangeNow(partition);
      if (IsAway(range.status())) break;
      MILLRACE_RETURN_IF_ERROR(range.status());
      const Offset next = is_rows ? join_->next_row(partition) : join_->next_label(partition);
      if (next < range->end) continue;
      if (is_rows) {
        join_->NoteRowsRead(partition, moment_ms);
      } else {
        join_->NoteLabelsRead(partition, moment_ms);
      }
    }
  }
  const auto now = steady_clock::now();
  next_look_ = now + std::max<steady_clock::duration>(kLookEvery, kShareOfLooks * (now - begin));
  return absl::OkStatus();
}

Status LateLabels::LookForPartitions() {
  next_partitions_ = steady_clock::now() + kLabelPartitionsEvery;
  MILLRACE_ASSIGN_OR_RETURN(const int32_t count,
                            PartitionsNow(*around_.admin, topic_, partitions_));
  for (; partitions_ < count; ++partitions_) {
    around_.display->Say(
        absl::StrCat("reading partition ", partitions_, ", which was added to ", options_.topic));
    join_->NoteLabelsRead(partitions_, LabelJoin::kNoTime);
    MILLRACE_RETURN_IF_ERROR(reader_->Start(partitions_, handler_));
  }
  return absl::OkStatus();
}

// ---- the bound on memory ----

Status LateLabels::CheckMemory() const {
  if (join_->bytes() <= memory_) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      GroupedNumber(join_->rows()), " rows that wait for labels and ",
      GroupedNumber(join_->labels()), " labels take ", Bytes(join_->bytes()),
      ", more than --join-memory allows: give more of it, or a shorter --join-window"));
}

// When memory runs short, only the partitions are read that are behind: the others would add to
// what waits, but let nothing leave.
Status LateLabels::Balance(const RowReading& rows) {
  MILLRACE_RETURN_IF_ERROR(CheckMemory());
  const bool is_short = join_->bytes() > memory_ / 2;
  const bool is_over = join_->bytes() < memory_ / 4;
  if (!is_short && held_rows_.empty() && held_labels_.empty()) return absl::OkStatus();
  int64_t least = LabelJoin::kAlways;
  for (int32_t i = 0; i < rows.partitions; ++i) least = std::min(least, join_->TimeOfRows(i));
  for (int32_t i = 0; i < partitions_; ++i) least = std::min(least, join_->TimeOfLabels(i));
  const auto balance = [&](SourceReader& reader, const SourceReader::Handler& handler,
                           std::set<int32_t>& held, int32_t partition, int64_t time) {
    const bool is_ahead = time != LabelJoin::kAlways && time - kSlackMs > least;
    if (held.contains(partition)) {
      if (is_ahead && !is_over) return absl::OkStatus();
      held.erase(partition);
      return reader.Start(partition, handler);
    }
    if (!is_ahead || !is_short) return absl::OkStatus();
    held.insert(partition);
    return reader.Hold(partition);
  };
  for (int32_t i = 0; i < rows.partitions; ++i) {
    MILLRACE_RETURN_IF_ERROR(
        balance(rows.reader, rows.handler, held_rows_, i, join_->TimeOfRows(i)));
  }
  for (int32_t i = 0; i < partitions_; ++i) {
    MILLRACE_RETURN_IF_ERROR(balance(*reader_, handler_, held_labels_, i, join_->TimeOfLabels(i)));
  }
  return absl::OkStatus();
}

// ---- what leaves ----

void LateLabels::PutRow(const LabelJoin::LeavingRow& leaving, SourceBatch& batch) {
  const HeldRecord& record = leaving.record;
  const RecordPlace place = {record.partition, record.offset, record.time_ms, record.value_bytes};
  switch (record.kind) {
    case HeldRecord::Kind::kUsable:
      if (leaving.label) {
        counts_.set_matched(counts_.matched() + 1);
        batch.AddRow(place, leaving.row);
      } else if (default_) {
        counts_.set_defaulted(counts_.defaulted() + 1);
        Row row = leaving.row;
        row.label = default_->id;
        row.target = default_->target;
        batch.AddRow(place, row);
      } else {
        counts_.set_unmatched(counts_.unmatched() + 1);
        batch.AddUnlabelled(place);
      }
      break;
    case HeldRecord::Kind::kUnusable:
      batch.AddUnusable(RecordOf(record), record.failed->why);
      break;
    case HeldRecord::Kind::kTombstone:
      batch.AddTombstone(RecordOf(record));
      break;
    case HeldRecord::Kind::kSkipped:
      batch.Skip(record.partition, record.next);
      break;
    case HeldRecord::Kind::kLost:
      batch.Lose(record.partition, record.next);
      break;
  }
}

void LateLabels::PutLabel(const LabelJoin::LeavingLabel& leaving, SourceBatch& batch) {
  const HeldRecord& record = leaving.record;
  switch (record.kind) {
    case HeldRecord::Kind::kUsable:
      counts_.set_labels(counts_.labels() + 1);
      if (leaving.is_unused) counts_.set_unused(counts_.unused() + 1);
      break;
    case HeldRecord::Kind::kUnusable:
      counts_.set_dead_letters(counts_.dead_letters() + 1);
      batch.AddUnusableLabel(RecordOf(record), record.failed->why);
      break;
    case HeldRecord::Kind::kTombstone:
      counts_.set_tombstones(counts_.tombstones() + 1);
      break;
    case HeldRecord::Kind::kSkipped:
      break;
    case HeldRecord::Kind::kLost:
      counts_.set_lost(counts_.lost() + static_cast<uint64_t>(record.next - record.offset));
      break;
  }
}

size_t LateLabels::Leave(const RowReading& rows, SourceBatch& batch) {
  size_t left = 0;
  while (!rows.is_full()) {
    const std::optional<LabelJoin::LeavingRow> leaving = join_->TakeRow();
    if (!leaving) break;
    PutRow(*leaving, batch);
    ++left;
  }
  const int64_t low_ms = join_->LowTime();
  while (!rows.is_full()) {
    const std::optional<LabelJoin::LeavingLabel> leaving = join_->TakeLabel(low_ms);
    if (!leaving) break;
    PutLabel(*leaving, batch);
    ++left;
  }
  if (left > 0) batch.SetLabels(State());
  return left;
}

SourceState::Labels LateLabels::State() const {
  SourceState::Labels state = counts_;
  for (const LabelJoin::Position& position : join_->LabelPositions()) {
    SourceState::Labels::Partition& partition = *state.add_partition();
    partition.set_next_offset(position.next);
    partition.set_newest_ms(position.newest_ms);
    partition.set_read(position.read);
  }
  for (const LabelJoin::Position& position : join_->RowPositions()) {
    state.add_row_newest_ms(position.newest_ms);
  }
  return state;
}

StatusOr<size_t> LateLabels::Work(const RowReading& rows, SourceBatch& batch) {
  MILLRACE_ASSIGN_OR_RETURN(const size_t events, reader_->Poll(kLabelsAtOnce, handler_));
  const auto now = steady_clock::now();
  if (around_.until_end) {
    NoteEnds(rows);
  } else {
    if (now >= next_partitions_) MILLRACE_RETURN_IF_ERROR(LookForPartitions());
    if (now >= next_look_) MILLRACE_RETURN_IF_ERROR(Look(rows));
  }
  const size_t left = Leave(rows, batch);
  MILLRACE_RETURN_IF_ERROR(Balance(rows));
  Tell(now);
  return events + left;
}

bool LateLabels::IsAtEnd() const {
  if (join_->rows() > 0 || join_->labels() > 0) return false;
  return ends_.IsAtEnd([this](int32_t partition) { return join_->next_label(partition); });
}

// ---- what is told ----

void LateLabels::Tell(Time now) {
  const uint64_t without = counts_.defaulted() + counts_.unmatched();
  const uint64_t rows = counts_.matched() + without;
  if (rows >= kRowsBeforeWarning && !std::exchange(was_warned_, true)) {
    const bool is_much = default_ ? counts_.matched() == 0 : without > rows / kFewInRows;
    if (is_much) {
      around_.display->Warn(
          absl::StrCat(GroupedNumber(without), " of the first ", GroupedNumber(rows),
                       " rows have no label in ", options_.topic, " within --join-window; ",
                       default_ ? "they got that of --unmatched-label" : "they are left out",
                       ": check --join-key and --join-window"));
    }
  }
  if (now < next_line_) return;
  next_line_ = now + kCountsEvery;
  if (std::exchange(told_, rows) == rows) return;
  around_.display->Say(absl::StrCat(options_.topic, ": ", LabelCountsText(counts_)));
}

}  // namespace millrace
