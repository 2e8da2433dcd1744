#include "tests/simulation/image_host.h"

#include <utility>
#include <vector>

#include "topics/partitioning.h"

namespace millrace::simulation {
namespace {

constexpr uint64_t kMostTaken = 12;

std::vector<EmbeddingId> IdsOf(const Scenario& scenario, ShardId shard) {
  std::vector<EmbeddingId> ids;
  if (!scenario.has_rows()) return ids;
  for (const EmbeddingId id : AllIds(scenario)) {
    if (ShardOfEmbedding(id, scenario.shards) == shard) ids.push_back(id);
  }
  return ids;
}

}  // namespace

ImageHost::ImageHost(World& world, ShardId shard, uint64_t seed)
    : world_(world), shard_(shard), random_(Random::Hash(seed, shard, 0, 0)) {
  BeginAgain();
}

void ImageHost::BeginAgain() {
  const size_t part_bytes = random_.Chance(0.3) ? random_.Between(1, 400) : kMostBatchBytes;
  assembler_ = CheckpointAssembler(part_bytes);
  image_ = std::make_unique<ShardImage>(MakeServerOptions(world_.scenario, shard_),
                                        IdsOf(world_.scenario, shard_));
  next_ = 0;
}

void ImageHost::Turn() {
  if (random_.Chance(0.8)) return;
  if (random_.Chance(0.02)) BeginAgain();
  for (uint64_t i = random_.Between(1, kMostTaken); i > 0 && TakeOne(); --i) {
  }
}

void ImageHost::TakeAll() {
  while (TakeOne()) {
  }
}

bool ImageHost::TakeOne() {
  const LogRecord* record =
      world_.log.Next(Topic::kParameters, static_cast<int32_t>(shard_), next_);
  if (record == nullptr) return false;
  next_ = record->offset + 1;
  StatusOr<std::optional<CheckpointAssembler::Part>> part =
      assembler_.Add(record->offset, record->key, record->value);
  Status status = part.status();
  if (status.ok() && *part) {
    status = Take(*image_, **std::move(part));
    if (status.ok()) Show();
  }
  if (!status.ok()) world_.observer->OnError("a follower: " + status.ToString());
  return status.ok();
}

Status ImageHost::Take(ShardImage& image, CheckpointAssembler::Part part) {
  return image.Take(std::move(part));
}

// What is left of several checkpoints is whole only where their compaction ended.
void ImageHost::Show() {
  const LogRecord* const next =
      world_.log.Next(Topic::kParameters, static_cast<int32_t>(shard_), next_);
  const bool is_left_over = next != nullptr && next->offset < world_.compacted[shard_];
  if (!image_->is_new() || is_left_over) return;
  if (random_.Chance(0.3)) return;  // the next one has come already
  if (const Status finished = image_->Finish(); !finished.ok()) {
    return world_.observer->OnError("a follower: " + finished.ToString());
  }
  image_->Show();
  world_.Count("checkpoint seen by a follower");
  world_.observer->OnImage(shard_, image_->view());
}

}  // namespace millrace::simulation
