#include "tests/fuzz/fuzz_job.h"

#include <cmath>
#include <cstdio>
#include <string_view>
#include <utility>

#include "base/big_endian.h"
#include "base/check.h"
#include "messages/records.pb.h"
#include "tasks/checkpoint.h"
#include "tests/fuzz/mutate_message.h"
#include "tests/simulation/trainers.h"
#include "tests/tasks/state_bytes.h"
#include "topics/frame.h"
#include "topics/message_codec.h"

namespace millrace::fuzz {
namespace {

using simulation::Scenario;

// Takes or aborts every transaction. Offsets go on from the end that the store remembers.
class FuzzLog final : public CheckpointLog {
 public:
  // `parameters`: null, or gets the records of what is committed.
  FuzzLog(Transaction transaction, std::vector<Checkpoint::Entry>* parameters)
      : transaction_(transaction), parameters_(parameters) {}

  StatusOr<Offset> CommitTransaction(const Checkpoint& checkpoint, Offset previous_end) override {
    for (const std::string& value : checkpoint.dead_letters) {
      MILLRACE_CHECK(ParseFrame(value).ok());
    }
    if (transaction_ == Transaction::kAborts) return absl::AbortedError("aborted");
    const auto append = [this](std::string_view key, std::string_view value) {
      parameters_->push_back({std::string(key), std::string(value)});
      return true;
    };
    if (parameters_ != nullptr) checkpoint.VisitRecords(0, append);
    return previous_end + checkpoint.records() + 1;
  }
  Status TrimGradients(Offset) override { return absl::OkStatus(); }

 private:
  Transaction transaction_;
  std::vector<Checkpoint::Entry>* const parameters_;
};

}  // namespace

Scenario DrawJob(uint64_t seed) {
  simulation::Random random(seed);
  Scenario scenario = simulation::DrawScenario(random);
  scenario.workers = std::min(scenario.workers, 2U);
  scenario.shards = std::min(scenario.shards, 2U);
  // Of many features each row has few, so that slices are sparse.
  scenario.hashed = seed % 4 == 3 ? 120 : std::min<size_t>(scenario.hashed, 5);
  scenario.rows.assign(scenario.workers, 8);
  if (seed % 8 == 5) simulation::DrawTrainers(scenario);
  if (scenario.most_message_bytes < kMostMessageBytes) {
    scenario.most_message_bytes = simulation::SmallMessageBytes(scenario);
  }
  return scenario;
}

FuzzJob::FuzzJob(ByteSource& bytes, Hostile hostile)
    : bytes_(bytes),
      hostile_(hostile),
      scenario_(DrawJob(bytes.Below(65536))),
      model_(simulation::MakeModel(scenario_)),
      shards_(scenario_.shards),
      workers_(scenario_.workers) {
  for (ShardId id = 0; id < scenario_.shards; ++id) {
    options_.push_back(simulation::MakeServerOptions(scenario_, id));
    options_.back().weights_from_workers =
        !scenario_.external();  // ServerApp refuses both together
    shards_[id].task = std::make_unique<ShardTask>(options_[id], *shards_[id].store);
    MILLRACE_CHECK(shards_[id].task->StartReplay(0, 0).ok());
    shards_[id].feed = std::make_unique<ShardFeed>(*shards_[id].task);
  }
  for (WorkerId id = 0; id < scenario_.workers; ++id) StartWorker(id);
}

void FuzzJob::MakeTask(WorkerId id) {
  Worker& worker = workers_[id];
  const WorkerOptions options = simulation::MakeWorkerOptions(scenario_, id);
  if (scenario_.external()) {
    worker.trainer =
        std::make_unique<TrainerTask>(options, *model_, simulation::KeysOf(scenario_), ++attempts_);
    return;
  }
  worker.task = std::make_unique<WorkerTask>(options, scenario_.shape(), *model_, ++attempts_);
  MILLRACE_CHECK(worker.task->StartReading(std::nullopt, 0, nullptr).ok());
}

void FuzzJob::StartWorker(WorkerId id) {
  MakeTask(id);
  Worker& worker = workers_[id];
  worker.next_row = 0;
  worker.next_record = 0;
  worker.pending.clear();
  worker.shared.clear();
  worker.reader = std::make_unique<SharedWeightsReader>(
      WeightsShapeFrom(simulation::MakeWorkerOptions(scenario_, id), *model_));
  std::vector<OutgoingRecord> out;
  worker.task != nullptr ? worker.task->Start(out) : worker.trainer->Start(out);
  Send(out);
}

void FuzzJob::Run() {
  constexpr int kMostTurns = 400;
  for (int turn = 0; turn < kMostTurns && (Turn() || !bytes_.empty()); ++turn) {
  }
}

ByteSource FuzzJob::RunWithoutSome(size_t most) {
  const std::string_view left = bytes_.Text(most);
  Run();
  return {reinterpret_cast<const uint8_t*>(left.data()), left.size()};
}

void FuzzJob::LoseShard(ShardId id) {
  if (!options_[id].weights_from_workers) return;
  Shard& shard = shards_[id];
  shard.log_begin = shard.log_end();
  if (shard.log_begin == 0) return;  // nothing is lost yet
  shard.log.clear();
  shard.feed.reset();
  shard.task.reset();
  shard.store = std::make_unique<MemoryByteMap>();
  shard.parameters.clear();
  shard.task = std::make_unique<ShardTask>(options_[id], *shard.store);
  MILLRACE_CHECK(shard.task->StartReplay(shard.log_begin, shard.log_begin).ok());
  shard.feed = std::make_unique<ShardFeed>(*shard.task);
  std::vector<OutgoingRecord> out;
  MILLRACE_CHECK(shard.feed->Announce(out).ok());
  Send(out);
}

void FuzzJob::Disturb(size_t what) {
  const auto shard = static_cast<ShardId>(bytes_.Below(shards_.size()));
  const auto worker = static_cast<WorkerId>(bytes_.Below(workers_.size()));
  if (what == 0) {
    const auto transaction = bytes_.Chance(32) ? Transaction::kAborts : Transaction::kCommits;
    MILLRACE_CHECK(SaveShard(shard, transaction).ok());
  } else if (what == 1) {
    StartWorker(worker);
  } else if (what == 2 && workers_[worker].is_there()) {
    std::vector<OutgoingRecord> out;
    Worker& who = workers_[worker];
    who.task != nullptr ? who.task->Repeat(out) : who.trainer->Repeat(out);
    Send(out);
  } else if (what == 3 && bytes_.Chance(64)) {
    LoseShard(shard);
  }
}

// Without bytes everything that waits comes in order.
bool FuzzJob::Turn() {
  const size_t kinds = shards_.size() + 2 * workers_.size();
  const size_t first = bytes_.Below(kinds + 4);
  if (!bytes_.empty() && first >= kinds) {
    Disturb(first - kinds);
    return true;
  }
  for (size_t i = 0; i < kinds; ++i) {
    size_t what = (first + i) % kinds;
    if (what < shards_.size()) {
      if (Fold(static_cast<ShardId>(what))) return true;
      continue;
    }
    what -= shards_.size();
    const auto worker = static_cast<WorkerId>(what / 2);
    if (what % 2 == 0 ? GiveShared(worker) || GiveWeights(worker) : GiveRow(worker)) return true;
  }
  return false;
}

Status FuzzJob::Take(ShardFeed& feed, const Record& record, Offset offset, const RecordSink& out) {
  MILLRACE_RETURN_IF_ERROR(feed.Take({offset, record.key, record.value, 10 * offset}, out));
  if (!feed.at_cut()) return absl::OkStatus();
  const auto read_from = feed.LeaveCut();
  MILLRACE_CHECK(!read_from.ok() || !*read_from);  // nothing came meanwhile
  return read_from.status();
}

bool FuzzJob::Fold(ShardId id) {
  Shard& shard = shards_[id];
  if (shard.pending.empty()) return false;
  Record record = shard.pending.front();
  // What is said twice stays for another time.
  if (!bytes_.Chance(16)) shard.pending.pop_front();
  if (hostile_ == Hostile::kGradients && bytes_.Chance(128)) {
    MutateFrame<Gradient>(record.value, bytes_);
    if (bytes_.Chance(32)) Mutate(record.key, bytes_);
    if (bytes_.Chance(32)) record.key = EncodeBigEndian32(kNoWorker);
  }
  shard.log.push_back(record);
  std::vector<OutgoingRecord> out;
  MILLRACE_CHECK(Take(*shard.feed, record, shard.log_end() - 1, out).ok());
  // A server answers when no more records wait, or when it has read many of them.
  if (shard.pending.empty() || bytes_.Chance(128)) MILLRACE_CHECK(shard.feed->AnswerDue(out).ok());
  Send(out);
  return true;
}

bool FuzzJob::GiveWeights(WorkerId id) {
  Worker& worker = workers_[id];
  if (!worker.is_there() || worker.pending.empty()) return false;
  Record record = std::move(worker.pending.front());
  worker.pending.pop_front();
  if (hostile_ == Hostile::kWeights && bytes_.Chance(128)) {
    MutateFrame<Weights>(record.value, bytes_);
    if (bytes_.Chance(32)) Mutate(record.key, bytes_);
  }
  std::vector<OutgoingRecord> out;
  if (worker.trainer != nullptr) {
    // What it cannot use changes nothing.
    worker.trainer->ProcessWeights(record.key, record.value).IgnoreError();
  } else {
    worker.task->ProcessWeights(worker.next_weights++, record.key, record.value, out);
  }
  Send(out);
  Advance(id);
  return true;
}

bool FuzzJob::GiveShared(WorkerId id) {
  Worker& worker = workers_[id];
  if (!worker.is_there() || worker.shared.empty()) return false;
  Record record = std::move(worker.shared.front());
  worker.shared.pop_front();
  if (hostile_ == Hostile::kWeights && bytes_.Chance(128)) {
    MutateFrame<SharedWeights>(record.value, bytes_);
    if (bytes_.Chance(32)) Mutate(record.key, bytes_);
  }
  std::vector<OutgoingRecord> out;
  const auto shared = worker.reader->Take(record.key, record.value);
  if (worker.trainer != nullptr) {
    if (shared.ok() && *shared != nullptr) worker.trainer->ProcessShared(*shared);
  } else if (!shared.ok()) {
    worker.task->ProcessUnusableShared(worker.next_weights++, record.key, record.value,
                                       shared.status(), out);
  } else if (*shared != nullptr) {
    worker.task->ProcessShared(*shared);
  }
  Send(out);
  Advance(id);
  return true;
}

// A trainer makes a step of the values that it has, or leaves.
bool FuzzJob::MakeStep(WorkerId id) {
  Worker& worker = workers_[id];
  TrainerSteps& steps = worker.trainer->steps();
  const std::optional<Clock> clock = steps.values_at();
  const bool has_more = clock && *clock < uint64_t{scenario_.rows[id]};
  if (!clock || (has_more && *clock < uint64_t{worker.next_row}) || (!has_more && steps.HasEnd())) {
    return false;
  }
  if (has_more) {
    worker.next_row = RowNumber(uint64_t{*clock} + 1);
    steps.Add(*clock,
              simulation::StepOf(scenario_, id, *clock, steps.values(), steps.has_values(),
                                 [this](EmbeddingId row) {
                                   return std::vector<float>(simulation::WidthOf(scenario_, row));
                                 }));
  } else {
    steps.Leave();
  }
  Advance(id);
  return true;
}

bool FuzzJob::GiveRow(WorkerId id) {
  if (scenario_.external()) return workers_[id].is_there() && MakeStep(id);
  Worker& worker = workers_[id];
  const RowNumber number = worker.next_row;
  const RowNumber rows = scenario_.rows[id];
  if (worker.task == nullptr || number > rows) return false;
  const size_t most = hostile_ == Hostile::kRows ? 1 + bytes_.Below(4) : 1;
  const InputKey record = {number, static_cast<uint32_t>(std::min<uint64_t>(most, rows - number))};
  worker.next_row = record.has_rows() ? record.end() : rows + 1;
  std::string key = EncodeInputKey(record);
  std::string value = simulation::InputValue(scenario_, id, record);
  if (hostile_ == Hostile::kRows && bytes_.Chance(128)) {
    MutateFrame<InputRecord>(value, bytes_);
    if (bytes_.Chance(16)) Mutate(key, bytes_);
  }
  const auto timestamp_ms = static_cast<int64_t>(
      hostile_ == Hostile::kRows && bytes_.Chance(16) ? bytes_.Number() : 100 * uint64_t{number});
  const Status status = worker.task->ProcessInput({worker.next_record++, timestamp_ms, key, value});
  if (!status.ok()) {
    MILLRACE_CHECK(hostile_ == Hostile::kRows);
    worker.task = nullptr;
    return true;
  }
  Advance(id);
  return true;
}

void FuzzJob::Advance(WorkerId id) {
  std::vector<OutgoingRecord> out;
  Worker& worker = workers_[id];
  const Status advanced =
      worker.task != nullptr ? worker.task->Advance(out) : worker.trainer->Advance(out);
  if (!advanced.ok()) {
    MILLRACE_CHECK(hostile_ != Hostile::kNothing);
    worker.task = nullptr;
    worker.trainer = nullptr;
    return;
  }
  Send(out);
  if (worker.task == nullptr) return;
  workers_[id].task->CommitPosition();
  workers_[id].task->TrimPosition();
  WriteBatch batch;
  workers_[id].task->SaveTo(batch);
}

void FuzzJob::Send(std::vector<OutgoingRecord>& out) {
  for (OutgoingRecord& record : out) {
    MILLRACE_CHECK(ParseFrame(record.value).ok());
    if (record.topic == Topic::kGradients) {
      MILLRACE_CHECK(static_cast<size_t>(record.partition) < shards_.size());
      shards_[static_cast<size_t>(record.partition)].pending.push_back(
          {std::move(record.key), std::move(record.value)});
    } else if (record.topic == Topic::kWeights) {
      if (record.partition == SharedWeightsPartition(scenario_.workers)) {
        for (Worker& worker : workers_) worker.shared.push_back({record.key, record.value});
        continue;
      }
      MILLRACE_CHECK(static_cast<size_t>(record.partition) < workers_.size());
      workers_[static_cast<size_t>(record.partition)].pending.push_back(
          {std::move(record.key), std::move(record.value)});
    } else {
      MILLRACE_CHECK(record.topic == Topic::kDeadLetter);
      const StatusOr<Frame> frame = ParseFrame(record.value);
      DeadLetter letter;
      MILLRACE_CHECK(!frame->is_chunk && ParseMessage(frame->body, letter).ok());
      MILLRACE_CHECK(!letter.reason().empty());
    }
  }
  out.clear();
}

Status FuzzJob::SaveShard(ShardId id, Transaction transaction) {
  Shard& shard = shards_[id];
  return Save(*shard.task, *shard.store, transaction, &shard.parameters);
}

Status Save(ShardTask& task, MemoryByteMap& store, Transaction transaction,
            std::vector<Checkpoint::Entry>* parameters) {
  StatusOr<std::optional<Checkpoint>> checkpoint = task.BeginCheckpoint();
  MILLRACE_CHECK(checkpoint.ok());
  if (!*checkpoint) return absl::OkStatus();
  FuzzLog log(transaction, parameters);
  CheckpointRun run(*std::move(*checkpoint), log, store);
  Status status = absl::OkStatus();
  while (status.ok() && !run.done()) status = run.Step();
  if (transaction == Transaction::kAborts) {
    MILLRACE_CHECK(absl::IsAborted(status) || absl::IsDataLoss(status));
    task.CheckpointFailed(run.checkpoint());
    return absl::IsAborted(status) ? absl::OkStatus() : status;
  }
  if (status.ok()) task.CheckpointDone(run.checkpoint());
  return status;
}

StatusOr<std::unique_ptr<ShardTask>> FuzzJob::Recover(ShardId id, MemoryByteMap& store) const {
  const Shard& shard = shards_[id];
  auto task = std::make_unique<ShardTask>(options_[id], store);
  MILLRACE_RETURN_IF_ERROR(task->Load());
  MILLRACE_RETURN_IF_ERROR(task->StartReplay(shard.log_begin, shard.log_end()));
  ShardFeed feed(*task);
  std::vector<OutgoingRecord> out;
  for (Offset at = task->gradients_position(); at < shard.log_end(); ++at) {
    const Record& record = shard.log[static_cast<size_t>(at - shard.log_begin)];
    MILLRACE_RETURN_IF_ERROR(Take(feed, record, at, out));
  }
  MILLRACE_RETURN_IF_ERROR(feed.AnswerDue(out));
  MILLRACE_RETURN_IF_ERROR(feed.Announce(out).status());
  return task;
}

void FuzzJob::CheckFolds() {
  for (ShardId id = 0; id < shards_.size(); ++id) {
    const std::string state = StateBytes(*shards_[id].task);
    MemoryByteMap nothing;
    const auto from_begin = Recover(id, nothing);
    MILLRACE_CHECK(from_begin.ok() && StateBytes(**from_begin) == state);
    const auto from_checkpoint = Recover(id, *shards_[id].store);
    MILLRACE_CHECK(from_checkpoint.ok() && StateBytes(**from_checkpoint) == state);
  }
}

void FuzzJob::CheckWeights() const {
  for (const Shard& shard : shards_) {
    for (const float weight : shard.task->processor().shard().weights()) {
      MILLRACE_CHECK(std::isfinite(weight));
    }
  }
}

void FuzzJob::CheckNothingRefused() {
  for (const Shard& shard : shards_) {
    if (shard.task->processor().counters().refused() == 0) continue;
    const auto checkpoint = shard.task->BeginCheckpoint();
    MILLRACE_CHECK(checkpoint.ok());
    for (const std::string& value : (*checkpoint)->dead_letters) {
      DeadLetter letter;
      MILLRACE_CHECK(ParseMessage(ParseFrame(value)->body, letter).ok());
      std::fprintf(stderr, "dead letter: %s\n", letter.reason().c_str());
    }
    MILLRACE_CHECK(shard.task->processor().counters().refused() == 0);
  }
}

}  // namespace millrace::fuzz
