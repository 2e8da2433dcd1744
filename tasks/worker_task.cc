#include "tasks/worker_task.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

#include "base/big_endian.h"
#include "base/check.h"
#include "processors/policy.h"
#include "processors/sliding_buffer_batches.h"
#include "tasks/update_frames.h"
#include "topics/batch_wait.h"
#include "topics/dead_letter.h"
#include "topics/message_codec.h"
#include "topics/row_codec.h"

namespace millrace {
namespace {

// The number after the prefix, which is removed from `text` with it; empty: there is none.
std::optional<uint64_t> TakeNumber(std::string_view prefix, std::string_view& text) {
  if (!text.starts_with(prefix)) return std::nullopt;
  uint64_t number = 0;
  const char* const begin = text.data() + prefix.size();
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

TrainingBufferOptions BufferOptions(const Training& training) {
  TrainingBufferOptions options;
  options.min_rows = training.buffer().min_rows();
  options.max_rows = training.buffer().max_rows();
  options.coefficient = training.buffer().coefficient();
  return options;
}

SlidingBufferOptions SlidingOptions(const Training& training) {
  SlidingBufferOptions options;
  options.max_rows = training.buffer().max_rows();
  options.minibatch_rows = training.buffer().minibatch_rows();
  options.rounds_after_end = training.rounds_after_end();
  if (training.update().kind() == Training::Update::ONLINE) {
    options.online_rows = training.batch_rows();
  }
  options.skips_rows = training.buffer().skip_rows();
  return options;
}

}  // namespace

std::string InputPosition::Metadata() const {
  return "row=" + std::to_string(row) + " clock=" + std::to_string(clock);
}

std::optional<InputPosition> InputPosition::FromCommit(Offset offset, std::string_view metadata) {
  const std::optional<uint64_t> row = TakeNumber("row=", metadata);
  const std::optional<uint64_t> clock = row ? TakeNumber(" clock=", metadata) : std::nullopt;
  if (!clock || !metadata.empty()) return std::nullopt;
  return InputPosition{offset, RowNumber(*row), Clock(*clock)};
}

WorkerTask::WorkerTask(const WorkerOptions& options, const RowShape& shape, const Model& model,
                       uint64_t attempt)
    : options_(options),
      shape_(shape),
      model_(model),
      next_message_id_(attempt << 20),
      weights_joiner_(options.shards) {}

std::string WorkerTask::StoreKey() const { return "w" + EncodeBigEndian32(options_.worker); }

StatusOr<Offset> WorkerTask::StartReading(const std::optional<InputPosition>& committed,
                                          Offset log_begin, const OrderedByteMap* store) {
  const InputPosition position = committed.value_or(InputPosition{});
  next_offset_ = std::max(position.offset, log_begin);
  // After a deletion only the first record tells which row it is.
  if (position.offset >= log_begin) runs_begin_ = position.row;
  BufferPosition saved;
  if (options_.training.schedule() == Training::BUFFER) {
    buffer_ = std::make_unique<TrainingBuffer>(BufferOptions(options_.training), StoreKey() + "b");
    if (store != nullptr) {
      MILLRACE_ASSIGN_OR_RETURN(saved, RestoreBuffer(*store, {next_offset_, position.row}));
      if (saved.row() > position.row) {
        next_offset_ = Offset(saved.offset());
        runs_begin_ = RowNumber(saved.row());
      }
    }
    source_ =
        std::make_unique<SlidingBufferBatches>(SlidingOptions(options_.training), shape_, *buffer_);
  } else {
    source_ = std::make_unique<OnePassBatches>(BatchOptions(), runs_begin_, position.clock);
  }
  input_ = std::make_unique<InputDataProcessor>(options_.worker, shape_, *source_, runs_begin_,
                                                options_.dead_letter_reasons_only);
  source_->dead_letters().Restore(saved);
  training_ =
      std::make_unique<WorkerTrainingProcessor>(options_, model_, *source_, next_message_id_);
  return next_offset_;
}

OnePassOptions WorkerTask::BatchOptions() const {
  return {.batch_rows = MostBatchRows(options_.training, options_.dealing.rows_per_turn),
          .first_rows = FirstBatchRows(options_.training, options_.dealing.rows_per_turn),
          .pipeline = options_.pipeline,
          .ends_at_flushes = BatchWaitOf(options_.training) > 0};
}

void WorkerTask::StartLeased(const WorkerLeases& leases, const std::vector<InputState>& tails) {
  MILLRACE_CHECK(options_.training.schedule() == Training::ONE_PASS);
  OnePassOptions options = BatchOptions();
  options.ends_at_flushes = true;  // and at the ends of leases
  source_ = std::make_unique<OnePassBatches>(options, RowNumber(leases.counted_rows()),
                                             Clock(leases.clock()));
  leased_ = std::make_unique<LeasedRows>(leases, shape_, *source_,
                                         options_.dead_letter_reasons_only, tails);
  training_ =
      std::make_unique<WorkerTrainingProcessor>(options_, model_, *source_, next_message_id_);
  KnowJoined(leases);
}

StatusOr<bool> WorkerTask::FollowLeases(const WorkerLeases& leases,
                                        const std::vector<InputState>& tails) {
  KnowJoined(leases);
  return leased_->Follow(leases, tails);
}

// Its leave tells the shards of them.
void WorkerTask::KnowJoined(const WorkerLeases& leases) {
  std::vector<Gradient::Joined> joined;
  for (const JoinedWorker& worker : leases.joined_workers()) {
    joined.emplace_back().set_worker(worker.worker());
    joined.back().set_clock(worker.clock());
  }
  training_->KnowJoined(std::move(joined));
}

std::optional<LeaseReader::Wish> WorkerTask::WantedLease() const {
  const std::optional<LeasedRows::Place> place = NextLeased();
  if (!place || !WantsRows()) return std::nullopt;
  return LeaseReader::Wish{options_.worker, place->lease, place->partition, place->offset};
}

StatusOr<BufferPosition> WorkerTask::RestoreBuffer(const OrderedByteMap& store,
                                                   const InputPosition& start) {
  BufferPosition position;
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<std::string> saved, store.Get(StoreKey() + "p"));
  // What another process did since is in the log, after its commit: the further one wins.
  const bool is_further = saved && ParseMessage(*saved, position).ok() &&
                          position.epoch() == options_.epoch && position.row() > start.row &&
                          position.offset() >= start.offset;
  if (is_further) {
    Status restored = buffer_->Restore(store);
    // The newest row stands right before the position, in every copy that is whole.
    const bool is_whole =
        restored.ok() && buffer_->size() > 0 && buffer_->newest().row + 1 == position.row();
    if (is_whole) return position;
    // The log has all that a damaged copy has lost.
    if (!restored.ok() && !absl::IsDataLoss(restored)) return restored;
  }
  // A copy that is not used has to go, or its rows would stand among those that are saved next.
  MILLRACE_RETURN_IF_ERROR(buffer_->Clear(store));
  return BufferPosition();
}

void WorkerTask::Start(std::vector<OutgoingRecord>& out) {
  training_->Start(output_);
  Send(output_, out);
}

Status WorkerTask::ProcessInput(const InputDataRecord& record) {
  if (leased_) return leased_->Process(record);
  const std::optional<RowNumber> before = input_->next_row();
  MILLRACE_RETURN_IF_ERROR(input_->Process(record));
  // The end is no row, so it stays to be read again: a task that started after it would wait for
  // ever.
  if (input_->ended() || input_->next_row() == before) return absl::OkStatus();
  if (!runs_begin_) runs_begin_ = DecodeInputKey(record.key)->first;
  runs_.push_back({*input_->next_row(), record.offset, next_offset_});
  next_offset_ = record.offset + 1;
  return absl::OkStatus();
}

Status WorkerTask::ProcessStraight(std::string_view key, std::string_view value) {
  MILLRACE_ASSIGN_OR_RETURN(const auto body, weights_joiner_.Take(key, value));
  return body ? training_->ProcessWeights(*body) : absl::OkStatus();
}

void WorkerTask::ProcessWeights(Offset offset, std::string_view key, std::string_view value,
                                std::vector<OutgoingRecord>& out) {
  const Status status = ProcessStraight(key, value);
  if (status.ok()) return;
  const auto partition = static_cast<int32_t>(options_.worker);
  CountUnusable(partition, offset, status);
  AppendDeadLetter(partition, offset, key, value, status, out);
}

void WorkerTask::ProcessUnusableShared(Offset offset, std::string_view key, std::string_view value,
                                       const Status& why, std::vector<OutgoingRecord>& out) {
  const int32_t partition = options_.SharedPartition();
  CountUnusable(partition, offset, why);
  if (options_.worker == options_.first_of_group)
    AppendDeadLetter(partition, offset, key, value, why, out);
}

void WorkerTask::CountUnusable(int32_t partition, Offset offset, const Status& why) {
  ++unusable_answers_;
  last_unusable_answer_ = options_.weights_topic + ", partition " + std::to_string(partition) +
                          ", offset " + std::to_string(offset) + ": " + std::string(why.message());
}

void WorkerTask::AppendDeadLetter(int32_t partition, Offset offset, std::string_view key,
                                  std::string_view value, const Status& why,
                                  std::vector<OutgoingRecord>& out) const {
  const DeadLetter letter = MakeDeadLetter(
      {.topic = "weights", .partition = partition, .offset = offset, .key = key, .value = value},
      std::string(why.message()), options_.dead_letter_reasons_only);
  out.push_back({Topic::kDeadLetter, 0, std::string(key),
                 std::move(MakeFrames(letter.SerializeAsString(), 0).front())});
}

Status WorkerTask::Advance(std::vector<OutgoingRecord>& out) {
  MILLRACE_RETURN_IF_ERROR(training_->TryTrain(output_));
  Send(output_, out);
  const RowNumber needed = FirstNeeded().row;
  while (!runs_.empty() && runs_.front().end <= needed) {
    runs_begin_ = runs_.front().end;
    runs_.pop_front();
  }
  return absl::OkStatus();
}

void WorkerTask::Repeat(std::vector<OutgoingRecord>& out) {
  training_->Repeat(output_);
  Send(output_, out);
}

void WorkerTask::Send(WorkerOutput& output, std::vector<OutgoingRecord>& out) {
  MILLRACE_CHECK(SendFrames(output.messages, options_, next_message_id_, out).ok());
  std::move(output.evaluations.begin(), output.evaluations.end(), std::back_inserter(evaluations_));
  output.Clear();
}

std::vector<WorkerOutput::Evaluation> WorkerTask::TakeEvaluations() {
  return std::exchange(evaluations_, {});
}

SourceBegin WorkerTask::FirstNeeded() const {
  const SourceBegin needed = training_->NeededFrom();
  const std::optional<RowNumber> dead = source_->dead_letters().First();
  return dead && *dead < needed.row ? SourceBegin{.row = *dead} : needed;
}

const WorkerTask::Run* WorkerTask::RunOf(RowNumber row) const {
  const auto run = std::ranges::upper_bound(runs_, row, {}, &Run::end);
  return run == runs_.end() ? nullptr : &*run;
}

std::optional<InputPosition> WorkerTask::CommitPosition() const {
  const auto [row, clock] = FirstNeeded();
  // Rows before the one where this task began reading are vouched for by the last commit.
  if (!runs_begin_ || row < *runs_begin_) return std::nullopt;
  const Run* const run = RunOf(row);
  // After all rows read: the position is where the next one may stand.
  if (run == nullptr) {
    return InputPosition{next_offset_, runs_.empty() ? *runs_begin_ : runs_.back().end, clock};
  }
  // What stands before a record and cannot be used is counted, and read again, with its first
  // row; so not with the others.
  const RowNumber begin = run == &runs_.front() ? *runs_begin_ : std::prev(run)->end;
  return InputPosition{row == begin ? run->behind_last : run->record, row, clock};
}

std::optional<Offset> WorkerTask::TrimPosition() const {
  const std::optional<InputPosition> position = CommitPosition();
  if (!position) return std::nullopt;
  return std::max<Offset>(position->offset - 1, 0);
}

void WorkerTask::SaveTo(WriteBatch& batch) {
  // (What is on the disk stays as it was: an older copy.)
  if (!buffer_ || !input_->next_row() || source_->HoldsMore()) return;
  buffer_->WriteTo(batch);
  BufferPosition position;
  position.set_epoch(options_.epoch);
  position.set_offset(next_offset_);
  position.set_row(*input_->next_row());
  source_->dead_letters().Save(*input_->next_row(), position);
  StatusOr<std::string> bytes = SerializeMessage(position);
  MILLRACE_CHECK(bytes.ok());  // its dead letters are bounded (SlidingBufferBatches)
  batch.Put(StoreKey() + "p", *std::move(bytes));
}

}  // namespace millrace
