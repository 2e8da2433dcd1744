#include "tasks/shard_task.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "base/big_endian.h"
#include "base/check.h"
#include "base/check_context.h"
#include "base/hash.h"
#include "tasks/saved_shard.h"
#include "tasks/state_codec.h"
#include "topics/dead_letter.h"
#include "topics/frame.h"
#include "topics/message_codec.h"
#include "topics/server_groups.h"

namespace millrace {
namespace {

// Enough of a record to tell it from any other at its offset: FNV-1a over the key, the size and
// the head of the value, where epoch, worker, clock and attempt stand.
uint64_t RecordHash(const GradientRecord& record) {
  constexpr size_t kHeadBytes = 256;
  const uint64_t hash = Fnv1a64(EncodeBigEndian64(record.value.size()), Fnv1a64(record.key));
  return Fnv1a64(record.value.substr(0, kHeadBytes), hash);
}

int32_t PartitionOf(WorkerId worker) { return static_cast<int32_t>(worker); }

}  // namespace

ShardTask::ShardTask(const ServerOptions& options, const OrderedByteMap& store)
    : options_(options), store_(store), processor_(options, &store), served_(options.workers) {
  if (options.embeddings && options.embeddings->expire_after_ms > 0) {
    sweep_ =
        std::make_shared<RowSweep>(options.embeddings->table, options.embeddings->expire_after_ms);
  }
}

Status ShardTask::Load() {
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<ShardState> state,
                            LoadSavedShard(store_, shard(), processor_));
  if (!state) return absl::OkStatus();  // a job that has not begun
  has_state_ = true;
  if (processor_.at_cut()) MILLRACE_RETURN_IF_ERROR(FoldHeld());
  position_ = Offset(state->position());
  last_hash_ = state->last_record_hash();
  checkpoint_begun_ = position_;
  checkpointed_ = position_;
  return absl::OkStatus();
}

std::string ShardTask::LogName() const {
  return options_.gradients_topic + ", partition " + std::to_string(shard());
}

Status ShardTask::StartReplay(Offset begin, Offset end) {
  if (!has_state_ && begin > 0) {
    if (!options_.weights_from_workers) {
      return absl::DataLossError(
          "shard " + std::to_string(shard()) +
          ": no copy is left, neither on a disk nor in parameters, and " +
          options_.gradients_topic + " begins at offset " + std::to_string(begin) +
          ", so the state cannot be computed again. Restore the topic or a data folder; or give "
          "--weights-from-workers, which continues from the workers' weights, without optimizer "
          "state and embedding rows; or start a new job (another --job)");
    }
    processor_.MarkStateLost();
    position_ = begin;
    checkpoint_begun_ = begin;
    checkpointed_ = begin;
  }
  if (position_ < begin || position_ > end) {
    return absl::DataLossError(
        LogName() + ": the checkpoint is at offset " + std::to_string(position_) +
        ", but the topic holds [" + std::to_string(begin) + ", " + std::to_string(end) +
        "): the topic was deleted and recreated, or records were deleted. Start a new job (another "
        "--job); if all topics of the job were recreated on purpose, remove the server's data "
        "folder");
  }
  read_position_ = std::max(begin, position_ - (position_ > 0 ? 1 : 0));
  replay_end_ = end;
  is_recognised_ = read_position_ == position_;
  return absl::OkStatus();
}

Offset ShardTask::Recheck() {
  const Offset last = std::max(read_position_, position_ - (position_ > 0 ? 1 : 0));
  is_recognised_ = last == position_;
  return last;
}

Status ShardTask::OtherRecord(Offset offset) const {
  const std::string place =
      LogName() + ", offset " + std::to_string(offset) + ": the record differs from ";
  if (position_ == checkpointed_) {
    return absl::DataLossError(
        place +
        "the last one of the checkpoint: the topic was deleted and recreated, or lost its end. "
        "Start a new job (another --job); if all topics of the job were recreated on purpose, "
        "remove the server's data folder");
  }
  return absl::DataLossError(
      place +
      "the one that this server has read there: the topic lost its end (an unclean leader "
      "election, or a broker's disk), or was recreated. Start the servers and the workers again. "
      "If one then reports missing records, start a new job (another --job), from a snapshot if "
      "there is one");
}

Status ShardTask::Fold(const GradientRecord& record) {
  if (record.offset < position_) {
    if (record.offset == position_ - 1 && RecordHash(record) != last_hash_) {
      return OtherRecord(record.offset);
    }
    if (record.offset == position_ - 1) is_recognised_ = true;
    return absl::OkStatus();
  }
  if (record.offset != position_) {
    return absl::DataLossError(LogName() + ": offsets [" + std::to_string(position_) + ", " +
                               std::to_string(record.offset) +
                               ") are missing: records were deleted. Restore the topic, or start a "
                               "new job (another --job)");
  }
  const CheckContext context(options_.gradients_topic.c_str(), static_cast<int32_t>(shard()),
                             record.offset);
  MILLRACE_CHECK(!snapshot_);
  const bool replaying = !replayed();
  output_.Clear();
  MILLRACE_RETURN_IF_ERROR(processor_.Process(record, output_));
  last_hash_ = RecordHash(record);
  position_ = record.offset + 1;
  KeepDeadLetters();
  // A snapshot that was given up leaves nothing to save; nor does one of long ago.
  if (!replaying) snapshot_ = output_.snapshot;
  if (processor_.at_cut() && !snapshot_) MILLRACE_RETURN_IF_ERROR(FoldHeld());
  if (replaying) {
    ++replayed_records_;
  } else {
    KeepDue();
  }
  return absl::OkStatus();
}

Status ShardTask::LeaveCut() {
  snapshot_.reset();
  MILLRACE_RETURN_IF_ERROR(FoldHeld());
  KeepDue();
  return absl::OkStatus();
}

void ShardTask::KeepDue() {
  std::ranges::move(output_.answers, std::back_inserter(due_.answers));
  output_.answers.clear();
  if (output_.reply) due_.replies.push_back(*std::exchange(output_.reply, std::nullopt));
  std::ranges::move(output_.previous_answers, std::back_inserter(due_.previous));
  output_.previous_answers.clear();
  due_.delta = std::exchange(output_.delta, false) || due_.delta;
  due_.groups.insert(output_.values_for.begin(), output_.values_for.end());
  output_.values_for.clear();
}

Status ShardTask::FoldHeld() {
  const CheckContext context(options_.gradients_topic.c_str(), static_cast<int32_t>(shard()),
                             position_ - 1);
  MILLRACE_RETURN_IF_ERROR(processor_.LeaveCut(output_));
  KeepDeadLetters();
  return absl::OkStatus();
}

void ShardTask::KeepDeadLetters() {
  for (DeadLetter& letter : output_.dead_letters) {
    CutToOneRecord(letter);  // one that came with an update may be of any size
    const StatusOr<std::string> body = SerializeMessage(letter);
    MILLRACE_CHECK(body.ok());
    std::vector<std::string> frames = MakeFrames(*body, 0);
    MILLRACE_CHECK(frames.size() == 1);
    dead_letters_.push_back(std::move(frames.front()));
    dead_letter_bytes_ += dead_letters_.back().size();
  }
  output_.dead_letters.clear();
}

// At a cut they are made after it: one position has one answer.
Status ShardTask::AnswerDue(const RecordSink& out) {
  if (snapshot_ || !owes_answers()) return absl::OkStatus();
  Due due = std::exchange(due_, {});
  // Of a worker's messages the last that got a reply.
  std::map<WorkerId, uint64_t> replies;
  for (const ServerOutput::Reply& reply : due.replies) replies[reply.worker] = reply.number;
  for (const auto& [worker, number] : replies) {
    MILLRACE_RETURN_IF_ERROR(AppendAnswer(worker, std::nullopt, number, out));
  }
  std::erase_if(due.answers, [&](WorkerId worker) { return replies.contains(worker); });
  MILLRACE_RETURN_IF_ERROR(AppendAnswersTo(std::move(due.answers), out));
  for (const ServerOutput::PreviousReceiver& receiver : due.previous) {
    MILLRACE_RETURN_IF_ERROR(AppendPreviousAnswer(receiver, out));
  }
  if (due.delta) MILLRACE_RETURN_IF_ERROR(AppendDelta(out));
  for (const GroupPeer& source : options_.sources) {
    if (due.groups.contains(source.group)) MILLRACE_RETURN_IF_ERROR(AppendValues(source, out));
  }
  return absl::OkStatus();
}

void ShardTask::AnswerAgain(std::span<const WorkerId> workers) {
  if (!replayed()) return;  // then all are answered
  for (const WorkerId worker : workers) {
    if (!processor_.clocks().Contains(worker)) continue;
    served_[worker].reset();
    due_.answers.push_back(worker);
  }
}

Status ShardTask::Announce(const RecordSink& out) {
  std::ranges::fill(served_, std::nullopt);  // that may not have arrived
  std::vector<WorkerId> workers;
  for (const auto& [worker, entry] : processor_.clocks().entries()) {
    if (options_.IsMember(worker)) workers.push_back(worker);
  }
  MILLRACE_RETURN_IF_ERROR(AppendAnswersTo(std::move(workers), out));
  MILLRACE_RETURN_IF_ERROR(AppendDelta(out));
  for (const GroupPeer& source : options_.sources) {
    if (processor_.sync().taken(source.group) == 0) continue;
    MILLRACE_RETURN_IF_ERROR(AppendValues(source, out));
  }
  return absl::OkStatus();
}

StatusOr<bool> ShardTask::PublishWeights(const RecordSink& out) {
  MILLRACE_CHECK(replayed() && !snapshot_);
  if (processor_.state_lost() || shared_changes_ == processor_.changes()) return false;
  MILLRACE_RETURN_IF_ERROR(AppendShared({}, out));
  return true;
}

Status ShardTask::AppendAnswersTo(std::vector<WorkerId> workers, const RecordSink& out) {
  std::ranges::sort(workers);
  workers.erase(std::ranges::unique(workers).begin(), workers.end());
  const VectorClock& clocks = processor_.clocks();
  const auto have_weights = std::ranges::count_if(workers, [&](WorkerId worker) {
    return processor_.Released(worker) && !clocks.left(worker);
  });
  // Rows go to each worker alone: of a shard that has nothing else a shared record is only one
  // more.
  const bool has_rows_only =
      options_.range.size() == 0 && std::ranges::all_of(workers, [&](WorkerId worker) {
        return processor_.NeedsOwnAnswer(worker);
      });
  const bool is_shared = have_weights > 1 && !processor_.state_lost() && !has_rows_only;
  if (is_shared) MILLRACE_RETURN_IF_ERROR(AppendShared(workers, out));
  for (const WorkerId worker : workers) {
    if (is_shared && !processor_.NeedsOwnAnswer(worker)) continue;
    std::optional<uint64_t> shared;
    if (is_shared) shared = Version();
    MILLRACE_RETURN_IF_ERROR(AppendAnswer(worker, shared, 0, out));
  }
  return absl::OkStatus();
}

// The same position gives the same values. Which workers are answered there may differ between two
// instances of the shard, and what is split must not be joined across them.
Status ShardTask::AppendShared(std::span<const WorkerId> workers, const RecordSink& out) {
  shared_changes_ = processor_.changes();
  MILLRACE_ASSIGN_OR_RETURN(const MessageBytes body, processor_.SharedAnswer(Version(), workers));
  uint64_t message_id = Fnv1a64(EncodeBigEndian64(Version()));
  for (const WorkerId worker : workers) {
    message_id = Fnv1a64(EncodeBigEndian32(worker), message_id);
  }
  return Append({SharedWeightsPartition(options_.workers, options_.group),
                 std::vector(workers.begin(), workers.end())},
                message_id, body, out);
}

// The same position gives the same bytes, so it can name the message. Of the answers that a worker
// may get there, each kind has a number of its own, below 4 * (kMostPipeline + 1).
uint64_t ShardTask::MessageId(uint64_t kind) const {
  return 4 * (kMostPipeline + 1) * Version() + kind;
}

Status ShardTask::AppendAnswer(WorkerId worker, std::optional<uint64_t> shared, uint64_t answers_to,
                               const RecordSink& out) {
  const size_t requests = RequestsToServe(worker, answers_to != 0);
  MILLRACE_ASSIGN_OR_RETURN(const MessageBytes body,
                            processor_.Answer(worker, {shared, answers_to, requests}));
  if (processor_.Released(worker)) served_[worker] = processor_.clocks().clock(worker);
  const uint64_t kind = 4 * requests + (shared ? 1 : answers_to != 0 ? 2 : 0);
  return Append({PartitionOf(worker), {worker}, answers_to != 0}, MessageId(kind), body, out);
}

// A worker makes a request with each update. (A sequential one may begin a clock anew.)
size_t ShardTask::RequestsToServe(WorkerId worker, bool is_reply) const {
  const std::optional<Clock> served = served_[worker];
  const Clock clock = processor_.clocks().clock(worker);
  if (is_reply || !served || clock <= *served) return options_.pipeline;
  return std::min<size_t>(options_.pipeline, clock - *served);
}

Status ShardTask::AppendPreviousAnswer(const ServerOutput::PreviousReceiver& receiver,
                                       const RecordSink& out) const {
  MILLRACE_ASSIGN_OR_RETURN(const MessageBytes body, processor_.PreviousAnswer(receiver));
  return Append({PartitionOf(receiver.worker), {receiver.worker}, true}, MessageId(3), body, out);
}

// The same number has the same bytes, whoever sends it. (The exchange that it is of may be over.)
Status ShardTask::AppendDelta(const RecordSink& out) const {
  const std::optional<uint64_t> number = processor_.sync().open();
  if (!number) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const std::string body, processor_.Delta());
  return AppendToGroup(options_.neighbor->peer, *number, body, out);
}

Status ShardTask::AppendValues(const GroupPeer& group, const RecordSink& out) const {
  MILLRACE_ASSIGN_OR_RETURN(const std::string body, processor_.ValuesFor(group));
  return AppendToGroup(group, Version(), body, out);
}

Status ShardTask::AppendToGroup(const GroupPeer& group, uint64_t message_id,
                                const std::string& body, const RecordSink& out) const {
  const auto partition = static_cast<int32_t>(options_.shard + group.group * options_.shards);
  for (std::string& frame : MakeFrames(body, message_id, options_.max_frame_bytes)) {
    MILLRACE_RETURN_IF_ERROR(
        out({Topic::kGradients, partition, EncodeBigEndian32(SenderOfGroup(options_.group)),
             std::move(frame)}));
  }
  return absl::OkStatus();
}

Status ShardTask::Append(const Address& to, uint64_t message_id, const MessageBytes& body,
                         const RecordSink& out) const {
  uint32_t chunk = 0;
  return GiveFrames(body.Pieces(), message_id, options_.max_frame_bytes, [&](std::string frame) {
    return out({Topic::kWeights, to.partition,
                EncodeBigEndian32(options_.shard) + EncodeBigEndian32(chunk++), std::move(frame),
                to.answers, to.is_reply});
  });
}

Unsaved ShardTask::unsaved() const {
  Unsaved unsaved;
  unsaved.records = static_cast<uint64_t>(position_ - checkpoint_begun_);
  unsaved.bytes = processor_.shard().updated_bytes() + dead_letter_bytes_;
  if (const EmbeddingTable* const table = processor_.embeddings()) {
    unsaved.bytes += table->updated_bytes();
    unsaved.is_short_of_room = table->is_short_of_room();
  }
  return unsaved;
}

StatusOr<std::vector<Checkpoint::Entry>> ShardTask::EncodedState() const {
  ShardState state;
  processor_.SaveState(state);
  state.set_position(position_);
  state.set_last_record_hash(last_hash_);
  StatusOr<std::vector<Checkpoint::Entry>> entries = EncodeStateEntries(std::move(state), options_);
  if (!entries.ok()) {
    return absl::ResourceExhaustedError(
        "shard " + std::to_string(shard()) + ": its state at offset " + std::to_string(position_) +
        " of " + options_.gradients_topic +
        " cannot be saved: " + std::string(entries.status().message()) +
        ". Nothing was written; gradients keeps what is not saved. Start a new job with more "
        "shards or smaller batches");
  }
  return entries;
}

StatusOr<std::optional<Checkpoint>> ShardTask::BeginCheckpoint() {
  if (position_ == checkpoint_begun_) return std::optional<Checkpoint>();
  MILLRACE_ASSIGN_OR_RETURN(std::vector<Checkpoint::Entry> state, EncodedState());
  Checkpoint checkpoint;
  checkpoint.position = position_;
  checkpoint.blocks = processor_.mutable_shard().TakeUpdated();
  for (size_t block : checkpoint.blocks) {
    ParameterShard::Encoded encoded = processor_.shard().EncodeBlock(block);
    checkpoint.entries.push_back({std::move(encoded.key), std::move(encoded.value)});
  }
  std::ranges::move(state, std::back_inserter(checkpoint.entries));
  if (EmbeddingTable* const table = processor_.embeddings()) {
    checkpoint.rows = table->FreezeUpdated();
    checkpoint.sweep = sweep_;
    checkpoint.time_ms = processor_.oldest_step_ms();
  }
  checkpoint.dead_letters = std::exchange(dead_letters_, {});
  dead_letter_bytes_ = 0;
  checkpoint_begun_ = position_;
  return std::optional<Checkpoint>(std::move(checkpoint));
}

void ShardTask::CheckpointDone(const Checkpoint& checkpoint) {
  checkpointed_ = checkpoint.position;
  if (processor_.embeddings() != nullptr) processor_.embeddings()->Saved(checkpoint.rows);
}

void ShardTask::CheckpointFailed(const Checkpoint& checkpoint) {
  for (size_t block : checkpoint.blocks) processor_.mutable_shard().MarkUpdated(block);
  if (processor_.embeddings() != nullptr) processor_.embeddings()->NotSaved(checkpoint.rows);
  dead_letters_.insert(dead_letters_.begin(), checkpoint.dead_letters.begin(),
                       checkpoint.dead_letters.end());
  for (const std::string& letter : checkpoint.dead_letters) dead_letter_bytes_ += letter.size();
  checkpoint_begun_ = std::min(checkpoint_begun_, checkpointed_);
}

}  // namespace millrace
