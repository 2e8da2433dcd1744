#include "durability/snapshots/snapshot_writer.h"

#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file_error.h"
#include "base/private_file.h"
#include "durability/snapshots/snapshot_files.h"
#include "formats/npy_file.h"
#include "tasks/first_checkpoint.h"

namespace millrace {
namespace {

// The files of a part, which are named here and nowhere else.
class PartFiles {
 public:
  PartFiles(std::string folder, ShardId shard) : folder_(std::move(folder)), shard_(shard) {}

  // The path of a file that is to be written now.
  const std::string& New(std::string_view what, std::string_view extension) {
    return paths_.emplace_back(SnapshotFile(folder_, what, shard_, extension));
  }
  // REQUIRES: all of them have been written.
  Status Describe(SnapshotPart& part) const {
    for (const std::string& path : paths_) {
      MILLRACE_ASSIGN_OR_RETURN(*part.add_files(), DescribeFile(path));
    }
    return absl::OkStatus();
  }

 private:
  std::string folder_;
  ShardId shard_;
  std::vector<std::string> paths_;
};

// The arrays of embedding rows, which grow together.
class RowArrays {
 public:
  // `shrinks`: rows miss penalties.
  static StatusOr<RowArrays> Create(PartFiles& files, size_t width, size_t slots, bool shrinks) {
    const auto open = [&](std::string_view what, std::string_view type,
                          std::optional<size_t> columns) {
      return NpyWriter::Create(files.New(what, "npy"), type, columns);
    };
    MILLRACE_ASSIGN_OR_RETURN(NpyWriter ids, open("embedding-ids", kNpyUint64, std::nullopt));
    MILLRACE_ASSIGN_OR_RETURN(NpyWriter values, open("embedding-values", kNpyFloat, width));
    MILLRACE_ASSIGN_OR_RETURN(NpyWriter state, open("embedding-slots", kNpyFloat, slots));
    MILLRACE_ASSIGN_OR_RETURN(NpyWriter updates,
                              open("embedding-updates", kNpyUint32, std::nullopt));
    MILLRACE_ASSIGN_OR_RETURN(NpyWriter times, open("embedding-times", kNpyInt64, std::nullopt));
    std::optional<NpyWriter> shrinkage;
    if (shrinks) {
      MILLRACE_ASSIGN_OR_RETURN(NpyWriter file,
                                open("embedding-shrinkage", kNpyDouble, std::nullopt));
      shrinkage.emplace(std::move(file));
    }
    return RowArrays(std::move(ids), std::move(values), std::move(state), std::move(updates),
                     std::move(times), std::move(shrinkage), width);
  }

  Status Add(EmbeddingId id, const EmbeddingRowHead& head, std::span<const float> floats) {
    ++rows_;
    MILLRACE_RETURN_IF_ERROR(ids_.Append(std::span<const EmbeddingId>(&id, 1)));
    MILLRACE_RETURN_IF_ERROR(values_.Append(floats.first(width_)));
    MILLRACE_RETURN_IF_ERROR(slots_.Append(floats.subspan(width_)));
    MILLRACE_RETURN_IF_ERROR(updates_.Append(std::span<const uint32_t>(&head.updates, 1)));
    MILLRACE_RETURN_IF_ERROR(times_.Append(std::span<const int64_t>(&head.updated_ms, 1)));
    if (!shrinkage_) return absl::OkStatus();
    return shrinkage_->Append(std::span<const double>(&head.shrinkage, 1));
  }

  Status Finish() {
    for (NpyWriter* file : {&ids_, &values_, &slots_, &updates_, &times_}) {
      MILLRACE_RETURN_IF_ERROR(file->Finish(rows_));
    }
    return shrinkage_ ? shrinkage_->Finish(rows_) : absl::OkStatus();
  }
  size_t rows() const { return rows_; }

 private:
  RowArrays(NpyWriter ids, NpyWriter values, NpyWriter slots, NpyWriter updates, NpyWriter times,
            std::optional<NpyWriter> shrinkage, size_t width)
      : ids_(std::move(ids)),
        values_(std::move(values)),
        slots_(std::move(slots)),
        updates_(std::move(updates)),
        times_(std::move(times)),
        shrinkage_(std::move(shrinkage)),
        width_(width) {}

  NpyWriter ids_, values_, slots_, updates_, times_;
  std::optional<NpyWriter> shrinkage_;
  size_t width_;
  size_t rows_ = 0;
};

Status WriteDense(const ParameterShard& shard, PartFiles& files) {
  const size_t keys = shard.range().size();
  const size_t slots = keys == 0 ? 0 : shard.slots().size() / keys;
  MILLRACE_RETURN_IF_ERROR(
      WriteNpy(files.New("weights", "npy"), shard.weights(), keys, std::nullopt));
  return WriteNpy(files.New("slots", "npy"), shard.slots(), slots, keys);
}

// Returns how many they are.
StatusOr<size_t> WriteRows(const EmbeddingTable& table, const EmbeddingTableOptions& options,
                           const OrderedByteMap& store, const RowTime& now, int64_t oldest_ms,
                           PartFiles& files) {
  MILLRACE_ASSIGN_OR_RETURN(
      RowArrays rows,
      RowArrays::Create(files, table.width(), table.slot_floats(), now.shrinkage > 0));
  MILLRACE_RETURN_IF_ERROR(
      VisitSnapshotRows(table, options, store, oldest_ms,
                        [&](EmbeddingId id, const EmbeddingRowHead& head,
                            std::span<const float> floats) { return rows.Add(id, head, floats); }));
  MILLRACE_RETURN_IF_ERROR(rows.Finish());
  return rows.rows();
}

}  // namespace

Status WriteSnapshotPart(const std::string& folder, SnapshotPart head, const ServerOptions& options,
                         const ServerProcessor& processor, const OrderedByteMap& store) {
  if (const std::error_code error = MakePrivateFolder(folder); error) {
    return CannotWrite(folder, error.value());
  }
  PartFiles files(folder, options.shard);
  MILLRACE_RETURN_IF_ERROR(WriteDense(processor.shard(), files));
  MILLRACE_RETURN_IF_ERROR(WriteState(files.New("state", "pb"), SnapshotStateFrom(processor)));
  if (const EmbeddingTable* const table = processor.embeddings()) {
    MILLRACE_ASSIGN_OR_RETURN(const size_t rows,
                              WriteRows(*table, *options.embeddings, store, processor.row_time(),
                                        processor.oldest_step_ms(), files));
    head.set_rows(rows);
    head.set_shrinkage(processor.row_time().shrinkage);
  }
  head.set_shard(options.shard);
  head.set_shards(options.shards);
  head.set_begin(options.range.begin);
  head.set_end(options.range.end);
  for (const auto& [worker, entry] : processor.clocks().entries()) {
    SnapshotPart::Worker& at = *head.add_workers();
    at.set_worker(worker);
    at.set_clock(entry.clock);
    at.set_left(entry.left);
  }
  MILLRACE_RETURN_IF_ERROR(files.Describe(head));
  return WriteJson(SnapshotFile(folder, "part", options.shard, "json"), head);
}

StatusOr<bool> WriteManifest(const std::string& folder, SnapshotManifest head) {
  std::vector<SnapshotPart> parts;
  uint32_t shards = 1;
  for (ShardId shard = 0; shard < shards; ++shard) {
    SnapshotPart part;
    const Status read = ReadJson(SnapshotFile(folder, "part", shard, "json"), part);
    if (absl::IsNotFound(read)) return false;
    MILLRACE_RETURN_IF_ERROR(read);
    // Left by an earlier run of the job: this run's has not come yet.
    if (part.job() == head.job() && part.epoch() < head.epoch()) return false;
    if (part.shard() != shard || part.snapshot() != head.snapshot() || part.job() != head.job() ||
        part.epoch() != head.epoch()) {
      return absl::DataLossError(
          folder + ": the part of shard " + std::to_string(shard) +
          " belongs to another snapshot; give each job its own --snapshot-dir");
    }
    shards = part.shards();
    parts.push_back(std::move(part));
  }
  // At one cut. Of a worker that stands at it and has nothing more, some shards have the leave by
  // then and some have not: nothing that it has sent is missing from either.
  for (const SnapshotPart& part : parts) {
    for (int i = 0; i < part.workers_size(); ++i) {
      if (part.workers(i).clock() == parts[0].workers(i).clock()) continue;
      return absl::DataLossError(folder + ": shard " + std::to_string(part.shard()) +
                                 " was cut at other clocks than shard 0; request another snapshot");
    }
  }
  *head.mutable_workers() = parts[0].workers();
  head.set_parameters(parts.back().end());
  head.set_format(kSnapshotFormat);
  for (SnapshotPart& part : parts) head.mutable_parts()->Add(std::move(part));
  MILLRACE_RETURN_IF_ERROR(SealSnapshot(folder, std::move(head)));
  return true;
}

}  // namespace millrace
