// A hostile topic `parameters`, as those read it who follow a shard, an evaluation and a Predictor:
// they end with a reason, or show what a server would have that has loaded the same records.
#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "follower/checkpoint_image.h"
#include "tasks/checkpoint_assembler.h"
#include "tasks/shard_image.h"
#include "tests/fuzz/fuzz_job.h"
#include "tests/fuzz/mutate_entry.h"
#include "tests/fuzz/mutate_message.h"
#include "tests/fuzz/target.h"
#include "topics/partitioning.h"

namespace millrace::fuzz {
namespace {

using Records = std::vector<Checkpoint::Entry>;
using Part = CheckpointAssembler::Part;

std::vector<EmbeddingId> IdsOf(const FuzzJob& job, ShardId shard) {
  std::vector<EmbeddingId> ids;
  if (!job.options(shard).embeddings) return ids;
  for (const EmbeddingId id : simulation::AllIds(job.scenario())) {
    if (ShardOfEmbedding(id, job.scenario().shards) == shard) ids.push_back(id);
  }
  return ids;
}

// Whether any was changed.
bool MutateSome(Records& records, ByteSource& bytes) {
  bool has_changed = false;
  for (Checkpoint::Entry& record : records) {
    const bool is_state = record.key.starts_with(kStateKeyPrefix);
    if (!bytes.Chance(is_state ? 128 : 32)) continue;
    has_changed = true;
    MutateEntry(record.key, record.value, bytes);
    // (Chunks of a state whose keys are exchanged are joined here, and not by a server.)
    if (!is_state && bytes.Chance(32)) Mutate(record.key, bytes);
  }
  return has_changed;
}

// Gives each part of the records to `take`. Whether the last checkpoint is whole.
template <typename Take>
StatusOr<bool> ReadParts(const Records& records, size_t part_bytes, const Take& take) {
  CheckpointAssembler assembler(part_bytes);
  Offset offset = 0;
  for (const auto& [key, value] : records) {
    const Offset at = offset;
    ++offset;
    if (!CheckpointAssembler::Knows(key)) continue;
    MILLRACE_ASSIGN_OR_RETURN(std::optional<Part> part, assembler.Add(at, key, value));
    if (part) MILLRACE_RETURN_IF_ERROR(take(*std::move(part)));
  }
  return !assembler.unfinished();
}

Status ShowNew(ShardImage& image) {
  if (!image.is_new()) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(image.Finish());
  image.Show();
  return absl::OkStatus();
}

bool SameBits(std::span<const float> left, std::span<const float> right) {
  return left.size() == right.size() &&
         (left.empty() || std::memcmp(left.data(), right.data(), left.size_bytes()) == 0);
}

// The store of a server that has taken over all records.
StatusOr<bool> FillStore(const Records& records, size_t part_bytes, MemoryByteMap& store) {
  return ReadParts(records, part_bytes, [&](Part part) {
    return store.Write(BatchOf(std::move(part.entries), part.end));
  });
}

void CheckSameAsPredictors(const ShardImage::View& view, const CheckpointImage& image,
                           std::span<const EmbeddingId> ids) {
  MILLRACE_CHECK(SameBits(view.weights, image.weights()));
  std::vector<CheckpointImage::RowPlace> places;
  image.AppendRows(places);
  const size_t width = ids.empty() ? 0 : view.rows.size() / ids.size();
  std::vector<float> row(width);
  for (const auto& [id, place] : places) {
    const auto found = std::ranges::lower_bound(ids, id);
    if (found == ids.end() || *found != id) continue;
    image.ReadRow(place, row);
    const auto at = static_cast<size_t>(found - ids.begin()) * width;
    MILLRACE_CHECK(SameBits(row, std::span(view.rows).subspan(at, width)));
  }
}

void CheckSame(const ShardImage::View& view, const ShardTask& task,
               std::span<const EmbeddingId> ids) {
  if (view.at_cut) return;  // a server goes on to what is held there
  MILLRACE_CHECK(SameBits(view.weights, task.processor().shard().weights()));
  MILLRACE_CHECK(view.position == task.position());
  MILLRACE_CHECK(view.has_ended == task.processor().AllLeft());
  if (ids.empty()) return;
  std::vector<float> rows(view.rows.size());
  // (A row is decoded when it is needed.)
  if (!task.processor().ReadEmbeddings(ids, rows).ok()) return;
  MILLRACE_CHECK(SameBits(view.rows, rows));
}

}  // namespace

void FuzzOne(ByteSource& bytes) {
  FuzzJob job(bytes, Hostile::kNothing);
  ByteSource hostile = job.RunWithoutSome(200);
  const auto id = static_cast<ShardId>(hostile.Below(job.shards()));
  MILLRACE_CHECK(job.SaveShard(id).ok());
  const size_t part_bytes = hostile.Chance(128) ? 1 + hostile.Below(400) : kMostBatchBytes;
  const bool shows_each = hostile.Chance(128);
  Records records = job.parameters(id);
  const bool is_hostile = MutateSome(records, hostile);

  const std::vector<EmbeddingId> ids = IdsOf(job, id);
  ShardImage image(job.options(id), ids);
  const StatusOr<bool> is_whole = ReadParts(records, part_bytes, [&](Part part) -> Status {
    MILLRACE_RETURN_IF_ERROR(image.Take(std::move(part)));
    return shows_each ? ShowNew(image) : absl::OkStatus();
  });
  const Status shown = is_whole.ok() ? ShowNew(image) : is_whole.status();
  MILLRACE_CHECK(shown.ok() || (is_hostile && absl::IsDataLoss(shown) && !shown.message().empty()));
  CheckpointImage predictors(job.options(id));
  const StatusOr<bool> taken =
      ReadParts(records, part_bytes, [&](const Part& part) { return predictors.Take(part); });
  MILLRACE_CHECK(taken.ok() || (is_hostile && absl::IsDataLoss(taken.status())));
  const ShardImage::View& view = image.view();
  MILLRACE_CHECK(view.weights.size() == job.options(id).range.size() && view.position >= 0);
  // (Who has shown a checkpoint of a time to come forgets rows that a server has.)
  if (!shown.ok() || !*is_whole || (shows_each && is_hostile)) return;
  // (Of a job that replies by the previous round a Predictor reads rows as of that.)
  const bool expires = job.scenario().training.embedding().expire_after_s() > 0;
  if (taken.ok() && !expires) CheckSameAsPredictors(view, predictors, ids);
  MemoryByteMap store;
  MILLRACE_CHECK(FillStore(records, part_bytes, store).value_or(false));
  ShardTask task(job.options(id), store);
  const Status loaded = task.Load();
  MILLRACE_CHECK(loaded.ok() || is_hostile);
  if (loaded.ok()) CheckSame(view, task, ids);
}

}  // namespace millrace::fuzz
