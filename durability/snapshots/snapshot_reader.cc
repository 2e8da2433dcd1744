#include "durability/snapshots/snapshot_reader.h"

#include <google/protobuf/util/message_differencer.h>

#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "durability/snapshots/snapshot_files.h"
#include "formats/npy_file.h"
#include "tasks/task_options.h"

namespace millrace {
namespace {

Status ReadDense(const std::string& folder, const SnapshotPart& part, FirstCheckpoint& first) {
  const size_t keys = part.end() - part.begin();
  if (keys == 0 || first.range().size() == 0) return absl::OkStatus();
  std::vector<float> values(keys);
  MILLRACE_ASSIGN_OR_RETURN(
      NpyReader weights,
      NpyReader::Open(SnapshotFile(folder, "weights", ShardId(part.shard()), "npy"), kNpyFloat,
                      std::nullopt));
  MILLRACE_RETURN_IF_ERROR(weights.Read(std::span<float>(values)));
  first.AddWeights(part.begin(), values);
  const std::string path = SnapshotFile(folder, "slots", ShardId(part.shard()), "npy");
  MILLRACE_ASSIGN_OR_RETURN(NpyReader slots, NpyReader::Open(path, kNpyFloat, keys));
  if (slots.rows() != first.slots()) {
    return absl::InvalidArgumentError(
        path + " has " + std::to_string(slots.rows()) +
        " optimizer values per weight, but this job's optimizer needs " +
        std::to_string(first.slots()) + ": give the --optimizer of the snapshot");
  }
  for (size_t slot = 0; slot < slots.rows(); ++slot) {
    MILLRACE_RETURN_IF_ERROR(slots.Read(std::span<float>(values)));
    first.AddSlot(slot, part.begin(), values);
  }
  return absl::OkStatus();
}

Status ReadRows(const std::string& folder, const SnapshotPart& part, const EmbeddingTable& table,
                FirstCheckpoint& first) {
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
  std::optional<NpyReader> shrinkage;
  if (part.shrinkage() != 0) {
    MILLRACE_ASSIGN_OR_RETURN(NpyReader file,
                              open("embedding-shrinkage", kNpyDouble, std::nullopt));
    shrinkage.emplace(std::move(file));
  }
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
    if (shrinkage) MILLRACE_RETURN_IF_ERROR(shrinkage->Read(std::span(&head.shrinkage, 1)));
    first.AddRow(ShardId(part.shard()), id, head, all);
  }
  return absl::OkStatus();
}

// The last shard's range ends where the model's keys end.
Status CheckKeys(const std::string& folder, const SnapshotManifest& manifest,
                 const ServerOptions& options) {
  const uint64_t keys = manifest.parameters();
  const bool is_last = options.shard + 1 == options.shards;
  if (is_last ? options.range.end == keys : options.range.end <= keys) return absl::OkStatus();
  return absl::DataLossError(ManifestPath(folder) + ": the snapshot has " + std::to_string(keys) +
                             " parameters, but shard " + std::to_string(options.shard) +
                             " of this job has the keys [" + std::to_string(options.range.begin) +
                             ", " + std::to_string(options.range.end) +
                             "): give the snapshot that the job starts from");
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

// What a trainer has named, without what may be another in each job.
JobFeatures ParametersOf(const JobFeatures& features) {
  JobFeatures named;
  *named.mutable_parameters() = features.parameters();
  for (NamedParameter& parameter : *named.mutable_parameters()) {
    parameter.clear_learning_rate_multiplier();
    parameter.clear_decay_multiplier();
  }
  return named;
}

bool IsDealtAlike(const JobFeatures& a, const JobFeatures& b) {
  return std::max(a.rows_per_turn(), 1U) == std::max(b.rows_per_turn(), 1U) &&
         a.most_rows_per_turn() == b.most_rows_per_turn() && a.dealt_workers() == b.dealt_workers();
}

// "in turns of 256 to 1024 rows, to the first 1 only"
std::string DealingText(const JobFeatures& features) {
  std::string text = "in turns of " + std::to_string(std::max(features.rows_per_turn(), 1U));
  if (features.most_rows_per_turn() > 0) {
    text += " to " + std::to_string(features.most_rows_per_turn());
  }
  text += " rows";
  if (features.dealt_workers() > 0) {
    text += ", to the first " + std::to_string(features.dealt_workers()) + " only";
  }
  return text;
}

}  // namespace

StatusOr<ShardState> ReadSnapshotState(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  ShardState state;
  if (file && state.ParseFromIstream(&file)) return state;
  return absl::DataLossError(path + " cannot be read");
}

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
  const std::string renamed =
      Differences(ParametersOf(manifest.features()), ParametersOf(features));
  if (!renamed.empty()) {
    return absl::InvalidArgumentError(
        "the snapshot's parameters differ from those that the trainer has named:\n" + renamed);
  }
  const Training& saved = manifest.training();
  if (saved.model() != training.model() ||
      saved.optimizer().kind() != training.optimizer().kind() ||
      saved.embedding().factors() != training.embedding().factors() ||
      saved.embedding().seed() != training.embedding().seed() ||
      saved.embedding().admit_after() != training.embedding().admit_after() ||
      ((saved.model() == Training::DEEP_FM || saved.model() == Training::NETWORK) &&
       HiddenLayers(saved) != HiddenLayers(training))) {
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
  if (start == SnapshotStart::kSameStream && !IsDealtAlike(manifest.features(), features)) {
    return absl::InvalidArgumentError(
        "the snapshot's job dealt its rows to the workers " + DealingText(manifest.features()) +
        ", this job " + DealingText(features) +
        ", so its workers would not continue after the rows that they have had: give the "
        "--rows-per-turn of that job, or --new-stream to start at the first row");
  }
  if (start == SnapshotStart::kSameStream && saved.schedule() != training.schedule()) {
    return absl::InvalidArgumentError(
        "the snapshot's workers used schedule " + Training::Schedule_Name(saved.schedule()) +
        ", this job's use " + Training::Schedule_Name(training.schedule()) +
        ", so they would not continue at the same row: give the same --schedule, or --new-stream "
        "to start at the first row");
  }
  if (start == SnapshotStart::kSameStream && saved.sharding() == Training::DYNAMIC) {
    return absl::InvalidArgumentError(
        "the snapshot's job leased rows (--sharding dynamic), so its workers did not have the rows "
        "of a partition each, and none can continue after them: give --new-stream to start at the "
        "first row");
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

StatusOr<Checkpoint> ReadFirstCheckpoint(const std::string& folder,
                                         const SnapshotManifest& manifest,
                                         const ServerOptions& options, SnapshotStart start) {
  MILLRACE_CHECK(CheckParts(folder, manifest).ok());
  MILLRACE_RETURN_IF_ERROR(CheckKeys(folder, manifest, options));
  FirstCheckpoint first(options, start);
  for (const SnapshotPart& part : manifest.parts()) {
    MILLRACE_ASSIGN_OR_RETURN(ShardState saved, ReadSnapshotState(SnapshotFile(
                                                    folder, "state", ShardId(part.shard()), "pb")));
    first.AddState(ShardId(part.shard()), std::move(saved));
  }
  for (const SnapshotPart& part : manifest.parts()) {
    MILLRACE_RETURN_IF_ERROR(ReadDense(folder, part, first));
    if (const EmbeddingTable* const table = first.embeddings()) {
      MILLRACE_RETURN_IF_ERROR(ReadRows(folder, part, *table, first));
    }
  }
  return first.Finish();
}

}  // namespace millrace
