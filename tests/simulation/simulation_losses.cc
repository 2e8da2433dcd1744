// Logs that lose what they must not lose: a shard has to notice, and to refuse to go on.
#include <algorithm>

#include "stores/memory_byte_map.h"
#include "tasks/checkpoint_assembler.h"
#include "tests/simulation/simulation.h"

namespace millrace::simulation {

Offset Simulation::SavedPosition(ShardId shard) const {
  const auto partition = static_cast<int32_t>(shard);
  MemoryByteMap copy;
  CheckpointAssembler parameters;
  for (Offset at = world_.log.Begin(Topic::kParameters, partition);
       const LogRecord* record = world_.log.Next(Topic::kParameters, partition, at);) {
    at = record->offset + 1;
    const auto part = parameters.Add(record->offset, record->key, record->value);
    if (!part.ok() || (*part && !copy.Write(BatchOf((*part)->entries, (*part)->end)).ok()))
      return 0;
  }
  ShardTask task(MakeServerOptions(world_.scenario, shard), copy);
  return task.Load().ok() ? task.position() : Offset(0);
}

bool Simulation::LoseRecords(ShardId shard) {
  // What its servers have begun ends with them.
  world_.log.InitTransactions("shard-" + std::to_string(shard));
  const bool lost = world_.random.Chance(0.3) ? RecreateParameters(shard) : LoseGradients(shard);
  if (!lost) return false;
  for (const auto& server : servers_) {
    if (server->shard() == shard) server->Die();
  }
  server_[shard] = nullptr;
  world_.loss.emplace();
  world_.loss->shard = shard;
  world_.observer = &nobody_;
  return true;
}

bool Simulation::LoseGradients(ShardId shard) {
  MemoryLog& log = world_.log;
  const auto partition = static_cast<int32_t>(shard);
  const Offset position = SavedPosition(shard);
  const Offset begin = log.Begin(Topic::kGradients, partition);
  const Offset end = log.End(Topic::kGradients, partition);
  if (position < end && world_.random.Chance(0.4)) {
    world_.Count("loss: gradients deleted in front of the position");
    log.DeleteBefore(Topic::kGradients, partition, end);
    return true;
  }
  if (position <= begin) return false;
  if (world_.random.Chance(0.5)) {
    world_.Count("loss: the end of gradients");
    const uint64_t kept = world_.random.Below(static_cast<uint64_t>(position - begin));
    log.LoseFrom(Topic::kGradients, partition, begin + kept);
  } else {
    world_.Count("loss: gradients recreated");
    log.Recreate(Topic::kGradients, partition);
  }
  if (world_.random.Chance(0.5)) return true;
  // Others stand where it has been, up to the position or further.
  world_.Count("loss: other records in the place of those that were lost");
  const Offset up_to = position + world_.random.Below(3);
  while (log.End(Topic::kGradients, partition) < up_to) {
    log.Append(Topic::kGradients, partition, "nobody", "?");
  }
  return true;
}

// With gradients from the first record on nothing would be lost.
bool Simulation::RecreateParameters(ShardId shard) {
  const auto partition = static_cast<int32_t>(shard);
  if (world_.log.Begin(Topic::kGradients, partition) == 0) return false;
  world_.Count("loss: parameters recreated");
  world_.log.Recreate(Topic::kParameters, partition);
  return true;
}

std::string Simulation::AwaitRefusal() {
  const ShardLoss& loss = *world_.loss;
  constexpr int kMostTurns = 20'000;
  world_.faults = false;
  // Nobody else does anything: a worker might say again just what was lost.
  for (int turn = 0; turn < kMostTurns && !loss.refused && !loss.answered; ++turn) {
    Bury();
    if (server_[loss.shard] == nullptr) StartServer(loss.shard);
    TurnServer(*server_[loss.shard]);
  }
  if (loss.answered) {
    return "shard " + std::to_string(loss.shard) + " answers though its records were lost";
  }
  if (!loss.refused) return "shard " + std::to_string(loss.shard) + " does not say what it lost";
  world_.Count("server refuses to go on");
  return "";
}

}  // namespace millrace::simulation
