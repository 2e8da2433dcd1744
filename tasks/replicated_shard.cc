#include "tasks/replicated_shard.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "base/big_endian.h"
#include "base/check.h"
#include "messages/members.pb.h"
#include "stores/memory_byte_map.h"
#include "tasks/saved_shard.h"
#include "tasks/state_codec.h"
#include "tasks/summed_update.h"
#include "topics/dead_letter.h"
#include "topics/frame.h"
#include "topics/message_codec.h"
#include "topics/weights_codec.h"

namespace millrace {
namespace {

uint64_t ProgressOf(const VectorClock& clocks) {
  uint64_t progress = 0;
  for (const auto& [worker, entry] : clocks.entries())
    progress += uint64_t{entry.clock} + (entry.left ? 1 : 0);
  return progress;
}

Status NotOfThisRound(const Gradient& message) {
  return absl::DataLossError("the message of worker " + std::to_string(message.worker()) +
                             " for clock " + std::to_string(message.clock()) +
                             " is none of this round: the processes that train together have "
                             "different versions or settings");
}

// An image is parts, each after its size: one message could not be larger than 2 GiB.
constexpr size_t kPartOfImageBytes = size_t{64} << 20;

// Empties the part.
Status AppendPart(MemberImage& part, std::string& bytes) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string body, SerializeMessage(part));
  bytes += EncodeBigEndian64(body.size());
  bytes += body;
  part.Clear();
  return absl::OkStatus();
}

// Takes the first part off `bytes`, which are not empty.
StatusOr<MemberImage> TakePart(std::string_view& bytes) {
  const std::optional<uint64_t> size = DecodeBigEndian64(bytes.substr(0, sizeof(uint64_t)));
  MemberImage part;
  if (size && *size <= bytes.size() - sizeof(uint64_t) &&
      ParseMessage(bytes.substr(sizeof(uint64_t), *size), part).ok()) {
    bytes.remove_prefix(sizeof(uint64_t) + *size);
    return part;
  }
  return absl::DataLossError("the state that another process has sent is damaged");
}

}  // namespace

ReplicatedShard::ReplicatedShard(const ServerOptions& options)
    : options_(options), processor_(std::make_unique<ServerProcessor>(options, nullptr)) {
  MILLRACE_CHECK(options.shards == 1 && options.consistency.sequential());
  MILLRACE_CHECK(!options.embeddings && options.values == Training::Compression::FLOAT32);
}

uint64_t ReplicatedShard::progress() const { return ProgressOf(processor_->clocks()); }

Status ReplicatedShard::FoldOne(const Gradient& message, std::string body, float largest) {
  GradientRecord record;
  record.offset = static_cast<Offset>(progress());  // for people who read dead letters
  const std::string key = EncodeBigEndian32(message.worker());
  const std::string value = WholeFrameHeader() + std::move(body);
  record.key = key;
  record.value = value;
  record.largest = largest;
  return processor_->Process(record, output_);
}

Status ReplicatedShard::Fold(Round round, std::span<const float> sum) {
  MILLRACE_CHECK(output_.dead_letters.empty());
  const uint64_t before = progress();
  for (size_t i = 0; i < round.messages.size(); ++i) {
    Gradient& message = round.messages[i];
    const bool has_sum =
        !round.summed.empty() && round.summed.front() == WorkerId(message.worker());
    StatusOr<std::string> body =
        has_sum ? JoinUpdate(message, sum, options_.range) : SerializeMessage(message);
    MILLRACE_RETURN_IF_ERROR(body.status());
    // Each summand was within the bound, so a server would have added it.
    const float largest = has_sum ? std::numeric_limits<float>::max() : kLargestValue;
    MILLRACE_RETURN_IF_ERROR(FoldOne(message, *std::move(body), largest));
    // Until the last has come they are held.
    const bool is_last = i + 1 == round.messages.size();
    if (is_last && progress() != before + round.messages.size()) return NotOfThisRound(message);
  }
  KeepDeadLetters(progress());
  return absl::OkStatus();
}

void ReplicatedShard::KeepDeadLetters(uint64_t progress) {
  for (DeadLetter& letter : output_.dead_letters) {
    CutToOneRecord(letter);
    const StatusOr<std::string> body = SerializeMessage(letter);
    MILLRACE_CHECK(body.ok());
    unsaved_.push_back({progress, std::move(MakeFrames(*body, 0).front())});
  }
  output_.Clear();
}

StatusOr<std::shared_ptr<const SharedWeights>> ReplicatedShard::WeightsFor(
    std::span<const WorkerId> workers, const Model& model, const WorkerOptions& options) const {
  MILLRACE_ASSIGN_OR_RETURN(const MessageBytes body, processor_->SharedAnswer(progress(), workers));
  MILLRACE_ASSIGN_OR_RETURN(SharedWeights message,
                            DecodeSharedWeights(body.Joined(), WeightsShapeFrom(options, model)));
  return std::make_shared<const SharedWeights>(std::move(message));
}

StatusOr<uint64_t> ReplicatedShard::LoadIfFurther(const OrderedByteMap& store) {
  auto loaded = std::make_unique<ServerProcessor>(options_, nullptr);
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<ShardState> state,
                            LoadSavedShard(store, options_.shard, *loaded));
  if (!state) return uint64_t{0};
  const uint64_t saved = ProgressOf(loaded->clocks());
  if (saved > progress()) processor_ = std::move(loaded);
  CheckpointDurable(saved);
  return saved;
}

StatusOr<std::vector<Checkpoint::Entry>> ReplicatedShard::Entries() const {
  std::vector<Checkpoint::Entry> entries;
  const ParameterShard& shard = processor_->shard();
  for (size_t block = 0; block < shard.block_count(); ++block) {
    ParameterShard::Encoded encoded = shard.EncodeBlock(block);
    entries.push_back({std::move(encoded.key), std::move(encoded.value)});
  }
  ShardState state;
  processor_->SaveState(state);
  state.set_position(0);
  state.set_last_record_hash(0);
  MILLRACE_ASSIGN_OR_RETURN(std::vector<Checkpoint::Entry> encoded,
                            EncodeStateEntries(std::move(state), options_));
  std::ranges::move(encoded, std::back_inserter(entries));
  return entries;
}

StatusOr<std::string> ReplicatedShard::EncodeImage() const {
  MILLRACE_ASSIGN_OR_RETURN(std::vector<Checkpoint::Entry> entries, Entries());
  std::string bytes;
  MemberImage part;
  size_t part_bytes = 0;
  for (Checkpoint::Entry& entry : entries) {
    part_bytes += entry.key.size() + entry.value.size();
    MemberImage::Entry& added = *part.add_entries();
    added.set_key(std::move(entry.key));
    added.set_value(std::move(entry.value));
    if (part_bytes < kPartOfImageBytes) continue;
    MILLRACE_RETURN_IF_ERROR(AppendPart(part, bytes));
    part_bytes = 0;
  }
  for (const Letter& letter : unsaved_) {
    MemberImage::UnsavedLetter& added = *part.add_dead_letters();
    added.set_progress(letter.progress);
    added.set_frame(letter.frame);
  }
  MILLRACE_RETURN_IF_ERROR(AppendPart(part, bytes));
  return bytes;
}

Status ReplicatedShard::TakeImage(std::string_view bytes) {
  MemoryByteMap store;
  std::deque<Letter> letters;
  while (!bytes.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(MemberImage part, TakePart(bytes));
    WriteBatch batch;
    for (MemberImage::Entry& entry : *part.mutable_entries()) {
      batch.Put(std::move(*entry.mutable_key()), std::move(*entry.mutable_value()));
    }
    MILLRACE_RETURN_IF_ERROR(store.Write(batch));
    for (MemberImage::UnsavedLetter& letter : *part.mutable_dead_letters()) {
      letters.push_back({letter.progress(), std::move(*letter.mutable_frame())});
    }
  }
  auto loaded = std::make_unique<ServerProcessor>(options_, nullptr);
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<ShardState> state,
                            LoadSavedShard(store, options_.shard, *loaded));
  if (!state || ProgressOf(loaded->clocks()) <= progress()) return absl::OkStatus();
  processor_ = std::move(loaded);
  unsaved_ = std::move(letters);
  CheckpointDurable(durable_);  // the other may not have heard of it
  return absl::OkStatus();
}

StatusOr<Checkpoint> ReplicatedShard::MakeCheckpoint() const {
  Checkpoint checkpoint;
  StatusOr<std::vector<Checkpoint::Entry>> entries = Entries();
  if (!entries.ok()) {
    return absl::ResourceExhaustedError("the state cannot be saved: " +
                                        std::string(entries.status().message()));
  }
  checkpoint.entries = *std::move(entries);
  for (const Letter& letter : unsaved_) checkpoint.dead_letters.push_back(letter.frame);
  return checkpoint;
}

void ReplicatedShard::CheckpointDurable(uint64_t progress) {
  durable_ = std::max(durable_, progress);
  while (!unsaved_.empty() && unsaved_.front().progress <= durable_) unsaved_.pop_front();
}

}  // namespace millrace
