// How a server comes to live: it fences, catches up with `parameters` and begins to replay.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "tasks/checkpoint.h"
#include "tests/simulation/server_host.h"
#include "tests/simulation/server_log.h"
#include "tests/simulation/server_store.h"

namespace millrace::simulation {

void ServerHost::Fence() {
  epoch_ = world_.log.InitTransactions(transactional_id_);
  log_ = MakeLog();
}

std::unique_ptr<CheckpointLog> ServerHost::MakeLog() {
  return std::make_unique<ServerLog>(world_, shard_, transactional_id_, epoch_, must_stop_);
}

void ServerHost::Load() {
  const StatusOr<Offset> from = ReadParametersOffset(*store_);
  if (!from.ok()) return Failed("store", from.status());
  const Offset end = world_.log.StableEnd(Topic::kParameters, partition_);
  if (Status fits = CheckCopy(*from, end); !fits.ok()) return Failed("parameters", fits);
  next_parameter_ = *from;
  if (next_parameter_ > 0) world_.Count("recovery from a disk");
  // Small enough for a checkpoint to come in parts, now and then.
  parameters_.emplace(world_.random.Between(1, 2000));
  phase_ = Phase::kParameters;
}

void ServerHost::CatchUp() {
  for (uint64_t i = world_.random.Between(1, kRecordsAtOnce); i > 0; --i) {
    const LogRecord* record = world_.log.Next(Topic::kParameters, partition_, next_parameter_);
    if (record == nullptr) return TakeParameters();
    next_parameter_ = record->offset + 1;
    world_.Count("record of parameters read at recovery");
    const StatusOr<std::optional<CheckpointAssembler::Part>> part =
        parameters_->Add(record->offset, record->key, record->value);
    if (!part.ok()) return Failed("parameters", part.status());
    if (!*part) continue;
    if (!(*part)->end) world_.Count("part of a checkpoint read at recovery");
    if (Status status = store_->Write(BatchOf((*part)->entries, (*part)->end)); !status.ok()) {
      return Failed("store", status);
    }
  }
}

void ServerHost::TakeParameters() {
  if (parameters_->unfinished()) {
    return Failed("parameters", absl::DataLossError("the last checkpoint has no end"));
  }
  task_ = std::make_unique<ShardTask>(Options(), *store_);
  if (Status status = task_->Load(); !status.ok()) return Failed("parameters", status);
  phase_ = Phase::kStart;
}

void ServerHost::BeginWithSnapshot() {
  world_.Count("shard starts from a snapshot");
  const StoredSnapshot snapshot = Start();
  FirstCheckpoint first(Options(), snapshot.start);
  const bool reads_stores = snapshot.start == SnapshotStart::kSameJob && ReadsSealedStores();
  for (const auto& [shard, part] : snapshot.parts) {
    if (!reads_stores) {
      first.AddState(shard, part.state);
    } else if (Status status = AddSealedState(part.of, *part.store, first); !status.ok()) {
      return Failed("sealed shard", status);
    }
  }
  for (const auto& [shard, part] : snapshot.parts) {
    if (reads_stores) {
      const Status status = AddSealedValues(part.of, *part.store, first);
      if (!status.ok()) return Failed("sealed shard", status);
      continue;
    }
    first.AddWeights(part.begin, part.weights);
    const size_t slots = std::min(first.slots(), part.slots.size());
    for (size_t slot = 0; slot < slots; ++slot) first.AddSlot(slot, part.begin, part.slots[slot]);
    for (const StoredSnapshot::Row& row : part.rows) {
      first.AddRow(shard, row.id, row.head, row.floats);
    }
  }
  StatusOr<Checkpoint> checkpoint = first.Finish();
  if (!checkpoint.ok()) return Failed("snapshot", checkpoint.status());
  run_ = std::make_unique<CheckpointRun>(*std::move(checkpoint), *log_, *store_, kBatchBytes,
                                         kRunBytes);
  phase_ = Phase::kFirstCheckpoint;
}

// Without a first checkpoint nothing is lost: the process ends, and the next begins once more.
void ServerHost::StepFirstCheckpoint() {
  if (const Status stepped = run_->Step(); !stepped.ok()) {
    world_.Count("first checkpoint that is not made");
    must_stop_ = true;
    return;
  }
  if (!run_->done()) return;
  run_.reset();
  task_ = std::make_unique<ShardTask>(Options(), *store_);
  if (Status status = task_->Load(); !status.ok()) return Failed("first checkpoint", status);
  phase_ = Phase::kStart;
}

void ServerHost::BeginReplay() {
  const Offset begin = world_.log.Begin(Topic::kGradients, partition_);
  if (world_.scenario.start && BeginsWithSnapshot(*task_, begin)) return BeginWithSnapshot();
  const Status status = StartReplay(begin, world_.log.End(Topic::kGradients, partition_));
  if (!status.ok()) return Failed("start of the replay", status);
  if (task_->processor().state_lost() && !task_->has_state()) {
    if (zombie()) {  // its successor may have gone on, and made a checkpoint, since it looked
      world_.Count("zombie that starts without any copy");
      must_stop_ = true;
      return;
    }
    world_.Count("server starts without any copy");
    world_.observer->OnStateLost(*task_);
  }
  world_.observer->OnFolded(*task_);
  feed_.emplace(*task_);
  next_gradient_ = task_->gradients_position();
  phase_ = Phase::kLive;
}

}  // namespace millrace::simulation
