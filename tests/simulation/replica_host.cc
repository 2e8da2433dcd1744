#include "tests/simulation/replica_host.h"

#include <utility>

#include "base/check.h"
#include "tasks/checkpoint.h"

namespace millrace::simulation {
namespace {

constexpr uint64_t kMostRecordsOfStep = 6;

double DrawPace(Random& random) {
  constexpr double kPaces[] = {0.03, 0.3, 1};
  return kPaces[random.Below(3)];
}

// Now and then so small that checkpoints come in parts.
size_t DrawPartBytes(Random& random) {
  return random.Chance(0.3) ? random.Between(1, 400) : kMostBatchBytes;
}

}  // namespace

ReplicaHost::ReplicaHost(World& world, ShardId shard, std::shared_ptr<Disk> disk)
    : world_(world),
      shard_(shard),
      disk_(std::move(disk)),
      pace_(DrawPace(world.random)),
      assembler_(DrawPartBytes(world.random)),
      torn_if_it_dies_(!disk_->whole) {
  disk_->in_use = true;
  const StatusOr<Offset> offset = ReadParametersOffset(*disk_->map);
  if (!offset.ok()) world_.observer->OnError("a replica whose offset cannot be read");
  next_ = offset.value_or(Offset(0));
  if (next_ > 0) world_.Count("follower goes on with a replica");
}

bool ReplicaHost::Step() {
  bool did = false;
  for (uint64_t i = world_.random.Between(1, kMostRecordsOfStep); i > 0 && alive_; --i) {
    const LogRecord* record =
        world_.log.Next(Topic::kParameters, static_cast<int32_t>(shard_), next_);
    if (record == nullptr) break;
    did = true;
    next_ = record->offset + 1;
    Take(*record);
  }
  return did;
}

void ReplicaHost::Take(const LogRecord& record) {
  StatusOr<std::optional<CheckpointAssembler::Part>> part =
      assembler_.Add(record.offset, record.key, record.value);
  if (!part.ok()) return world_.observer->OnError("replica: " + part.status().ToString());
  if (!*part) return;
  const std::optional<Offset> end = (*part)->end;
  // What is left of several checkpoints is whole only where their compaction ended.
  const bool compacted = end && *end < world_.compacted[shard_];
  disk_->whole = end && !compacted;
  if (!disk_->whole) torn_if_it_dies_ = true;
  const Status applied = Apply(*std::move(*part));
  // It lets go of the replica, and opens it again.
  if (absl::IsResourceExhausted(applied)) return Die();
  if (!applied.ok()) return world_.observer->OnError("replica: " + applied.ToString());
  if (!end) {
    world_.Count("part of a checkpoint taken by a replica");
  } else if (compacted) {
    world_.Count("replica behind a compaction");
  } else {
    world_.Count("checkpoint taken by a replica");
    world_.observer->OnCopy(shard_, *disk_->map);
  }
  if (world_.random.Chance(0.3)) Flush();
}

Status ReplicaHost::Apply(CheckpointAssembler::Part part) {
  if (world_.Fault("full disk of a follower", world_.disk_errors)) {
    return absl::ResourceExhaustedError("no space left on the device");
  }
  return disk_->map->Write(BatchOf(std::move(part.entries), part.end));
}

void ReplicaHost::Flush() {
  if (world_.Fault("follower dies between write and flush", 0.02)) return Die();
  if (world_.Fault("disk of a follower that fails to flush", world_.disk_errors)) return Die();
  if (!disk_->map->Flush().ok()) world_.observer->OnError("a disk refuses to flush");
  torn_if_it_dies_ = !disk_->whole;
}

void ReplicaHost::Die() {
  if (!alive_) return;
  alive_ = false;
  disk_->map->Crash(world_.random.Below(disk_->map->unflushed_batches() + 1));
  if (torn_if_it_dies_) disk_->whole = false;
  disk_->in_use = false;
}

std::shared_ptr<Disk> ReplicaHost::CopyOf(const Disk& disk) {
  auto copy = std::make_shared<Disk>();
  copy->map = disk.map->Clone();
  MILLRACE_CHECK(copy->map->Flush().ok());  // its files were written once more, where they went
  copy->whole = disk.whole;
  return copy;
}

}  // namespace millrace::simulation
