#include "durability/snapshots/snapshot_reader.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <vector>

#include "base/big_endian.h"
#include "durability/snapshots/snapshot_files.h"
#include "formats/npy_file.h"
#include "tasks/state_codec.h"
#include "tasks/task_options.h"
#include "topics/figures_codec.h"
#include "topics/partitioning.h"

namespace millrace {
namespace {

StatusOr<ShardState> ReadState(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  ShardState state;
  if (file && state.ParseFromIstream(&file)) return state;
  return absl::DataLossError(path + " cannot be read");
}

// Copies the shard's keys out of the part's; `into` has as many as the shard.
Status CopyKeys(NpyReader& from, const SnapshotPart& part, KeyRange range, std::span<float> into) {
  std::vector<float> keys(part.end() - part.begin());
  MILLRACE_RETURN_IF_ERROR(from.Read(std::span<float>(keys)));
  const uint64_t begin = std::max(part.begin(), range.begin);
  const uint64_t end = std::min(part.end(), range.end);
  if (begin >= end) return absl::OkStatus();
  std::copy_n(keys.begin() + static_cast<ptrdiff_t>(begin - part.begin()), end - begin,
              into.begin() + static_cast<ptrdiff_t>(begin - range.begin));
  return absl::OkStatus();
}

Status ReadDense(const std::string& folder, const SnapshotPart& part, ParameterShard& shard) {
  const KeyRange range = shard.range();
  const size_t keys = part.end() - part.begin();
  if (keys == 0 || range.size() == 0) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(
      NpyReader weights,
      NpyReader::Open(SnapshotFile(folder, "weights", ShardId(part.shard()), "npy"), kNpyFloat,
                      std::nullopt));
  MILLRACE_RETURN_IF_ERROR(CopyKeys(weights, part, range, shard.mutable_weights()));
  const std::string path = SnapshotFile(folder, "slots", ShardId(part.shard()), "npy");
  MILLRACE_ASSIGN_OR_RETURN(NpyReader slots, NpyReader::Open(path, kNpyFloat, keys));
  const std::span<float> into = shard.mutable_slots();
  if (slots.rows() != into.size() / range.size()) {
    return absl::InvalidArgumentError(
        path + " has " + std::to_string(slots.rows()) +
        " optimizer values per weight, but this job's optimizer needs " +
        std::to_string(into.size() / range.size()) + ": give the --optimizer of the snapshot");
  }
  for (size_t slot = 0; slot < slots.rows(); ++slot) {
    MILLRACE_RETURN_IF_ERROR(
        CopyKeys(slots, part, range, into.subspan(slot * range.size(), range.size())));
  }
  return absl::OkStatus();
}

Status ReadRows(const std::string& folder, const SnapshotPart& part, const ServerOptions& options,
                const EmbeddingTable& table, FrozenRows& rows) {
  const auto open = [&](std::string_view what, std::string_view type,
                        std::optional<size_t> columns) {
    return NpyReader::Open(SnapshotFile(folder, what, ShardId(part.shard()), "npy"), type, columns);
  };
  MILLRACE_ASSIGN_OR_RETURN(NpyReader ids, open("embedding-ids", kNpyUint64, std::nullopt));
  MILLRACE_ASSIGN_OR_RETURN(NpyReader values, open("embedding-values", kNpyFloat, table.width()));
  MILLRACE_ASSIGN_OR_RETURN(NpyReader slots,
                            open("embedding-slots", kNpyFloat, table.slot_floats()));
  MILLRACE_ASSIGN_OR_RETURN(NpyReader updates, open("embedding-updates", kNpyUint32, std::nullopt));
  MILLRACE_ASSIGN_OR_RETURN(NpyReader times, open("embedding-times", kNpyInt64, std::nullopt));
  std::vector<float> floats(table.width() + table.slot_floats());
  const std::span<float> all(floats);
  for (uint64_t i = 0; i < part.rows(); ++i) {
    EmbeddingId id = 0;
    EmbeddingRowHead head;
    MILLRACE_RETURN_IF_ERROR(ids.Read(std::span(&id, 1)));
    MILLRACE_RETURN_IF_ERROR(values.Read(all.first(table.width())));
    MILLRACE_RETURN_IF_ERROR(slots.Read(all.subspan(table.width())));
    MILLRACE_RETURN_IF_ERROR(updates.Read(std::span(&head.updates, 1)));
    MILLRACE_RETURN_IF_ERROR(times.Read(std::span(&head.updated_ms, 1)));
    if (ShardOfEmbedding(id, options.shards) != options.shard) continue;
    const bool admitted = head.updates >= options.embeddings->admit_after;
    rows.Add(id, 0, head, admitted ? all : std::span<const float>());
  }
  return absl::OkStatus();
}

// Of shard 0's state, what this shard begins with: sums, scaling and counters are shard 0's only.
ShardState StartOf(const ShardState& saved, const ServerOptions& options, SnapshotStart start) {
  ShardState state = saved;
  state.set_epoch(options.epoch);
  state.set_shard(options.shard);
  state.set_position(0);
  state.set_last_record_hash(0);
  const Moments none(options.numeric_columns);
  if (options.shard != 0) ToProto(none, *state.mutable_moments());
  *state.mutable_previous_round()->mutable_moments() = state.moments();
  state.mutable_previous_round()->set_step_ms(state.step_ms());
  if (start == SnapshotStart::kNewStream) {
    state.clear_members();
    for (WorkerId worker = 0; worker < options.workers; ++worker) {
      state.add_members()->set_worker(worker);
    }
  }
  if (options.shard != 0 || start == SnapshotStart::kNewStream) {
    state.clear_progressive();
    state.clear_tail();
    state.clear_rows_trained();
    state.clear_counters();
  }
  return state;
}

bool IsInRounds(const Training::Consistency& consistency) {
  return consistency.model() == Training::Consistency::SEQUENTIAL ||
         (consistency.model() == Training::Consistency::BOUNDED && consistency.max_delay() == 0);
}

// Who has left is in no round.
bool StandAtOneClock(const SnapshotManifest& manifest) {
  std::optional<uint64_t> clock;
  for (const SnapshotPart::Worker& worker : manifest.workers()) {
    if (worker.left()) continue;
    if (clock.value_or(worker.clock()) != worker.clock()) return false;
    clock = worker.clock();
  }
  return true;
}

// A line for each field that is set otherwise; empty: none.
std::string Differences(const google::protobuf::Message& saved,
                        const google::protobuf::Message& now) {
  std::string differences;
  google::protobuf::util::MessageDifferencer differencer;
  // JSON names defaults, which the job leaves out.
  differencer.set_message_field_comparison(google::protobuf::util::MessageDifferencer::EQUIVALENT);
  differencer.ReportDifferencesToString(&differences);
  differencer.Compare(saved, now);
  return differences;
}

}  // namespace

SnapshotStart ToSnapshotStart(const JobConfig& config) {
  return config.server().new_stream() ? SnapshotStart::kNewStream : SnapshotStart::kSameStream;
}

Status CheckSnapshotFits(const SnapshotManifest& manifest, const JobFeatures& features,
                         const Training& training, uint32_t workers, SnapshotStart start) {
  const std::string differences = Differences(manifest.features().spec(), features.spec());
  if (!differences.empty()) {
    return absl::InvalidArgumentError("the snapshot's features differ from the job's:\n" +
                                      differences);
  }
  const Training& saved = manifest.training();
  if (saved.model() != training.model() ||
      saved.optimizer().kind() != training.optimizer().kind() ||
      saved.embedding().factors() != training.embedding().factors() ||
      saved.embedding().seed() != training.embedding().seed() ||
      saved.embedding().admit_after() != training.embedding().admit_after() ||
      (saved.model() == Training::DEEP_FM && HiddenLayers(saved) != HiddenLayers(training))) {
    return absl::InvalidArgumentError(
        "the snapshot has another model or optimizer than this job: give the same --model, "
        "--optimizer, --factors, --hidden, --embedding-seed and --admit-after");
  }
  if (start == SnapshotStart::kSameStream &&
      static_cast<uint32_t>(manifest.workers_size()) != workers) {
    return absl::InvalidArgumentError(
        "the snapshot has " + std::to_string(manifest.workers_size()) + " workers, the job has " +
        std::to_string(workers) +
        ": give the same --workers, or --new-stream to start at the first row");
  }
  // How far a worker has read is told by its clock.
  if (start == SnapshotStart::kSameStream &&
      (saved.schedule() != training.schedule() || saved.batch_rows() != training.batch_rows())) {
    return absl::InvalidArgumentError(
        "the snapshot's workers used batches of " + std::to_string(saved.batch_rows()) + " rows (" +
        Training::Schedule_Name(saved.schedule()) + "), this job's use " +
        std::to_string(training.batch_rows()) + " rows (" +
        Training::Schedule_Name(training.schedule()) +
        "), so they would not continue at the same row: give the same --batch-rows and --schedule, "
        "or --new-stream to start at the first row");
  }
  if (start == SnapshotStart::kSameStream && IsInRounds(training.consistency()) &&
      !StandAtOneClock(manifest)) {
    return absl::InvalidArgumentError(
        "the snapshot's workers are at different clocks, but the rounds of a sequential job need "
        "all of them at one clock: give the same --consistency, or --new-stream to start at the "
        "first row");
  }
  return absl::OkStatus();
}

std::string TrainingDifferences(const SnapshotManifest& manifest, const Training& training) {
  return Differences(manifest.training(), training);
}

StatusOr<Checkpoint> FirstCheckpoint(const std::string& folder, const SnapshotManifest& manifest,
                                     const ServerOptions& options, SnapshotStart start) {
  ServerProcessor processor(options, nullptr);
  Checkpoint checkpoint;
  ShardState state;
  int64_t seen_ms = 0;
  int64_t step_ms = 0;
  if (processor.embeddings() != nullptr) checkpoint.rows = processor.embeddings()->NoRows();
  for (const SnapshotPart& part : manifest.parts()) {
    MILLRACE_RETURN_IF_ERROR(ReadDense(folder, part, processor.mutable_shard()));
    if (const EmbeddingTable* const table = processor.embeddings()) {
      MILLRACE_RETURN_IF_ERROR(ReadRows(folder, part, options, *table, checkpoint.rows));
    }
    MILLRACE_ASSIGN_OR_RETURN(
        ShardState saved, ReadState(SnapshotFile(folder, "state", ShardId(part.shard()), "pb")));
    // Each shard's log has times of its own.
    seen_ms = std::max(seen_ms, saved.seen_ms());
    step_ms = std::max(step_ms, saved.step_ms());
    if (part.shard() == 0) state = std::move(saved);
  }
  state.set_seen_ms(seen_ms);
  state.set_step_ms(step_ms);
  MILLRACE_RETURN_IF_ERROR(processor.LoadState(StartOf(state, options, start)));
  ParameterShard& shard = processor.mutable_shard();
  if (options.shards > 1 && options.consistency.sequential()) shard.KeepReplaced();
  for (size_t block = 0; block < shard.block_count(); ++block) {
    ParameterShard::Encoded encoded = shard.EncodeBlock(block);
    checkpoint.entries.push_back({std::move(encoded.key), std::move(encoded.value)});
  }
  ShardState first;
  processor.SaveState(first);
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> pieces,
                            EncodeState(std::move(first), options.most_message_bytes));
  uint32_t chunk = 0;
  for (std::string& frame : MakeFrames(pieces, 0, options.max_frame_bytes)) {
    checkpoint.entries.push_back({kStateKeyPrefix + EncodeBigEndian32(chunk++), std::move(frame)});
  }
  return checkpoint;
}

}  // namespace millrace
