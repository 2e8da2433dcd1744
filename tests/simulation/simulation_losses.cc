// Logs that lose what they must not lose: a shard has to notice, and to refuse to go on.
#include <algorithm>

#include "base/big_endian.h"
#include "stores/memory_byte_map.h"
#include "tasks/checkpoint_assembler.h"
#include "tests/simulation/simulation.h"
#include "topics/row_codec.h"

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

void Simulation::KillServers(ShardId shard) {
  for (const auto& server : servers_) {
    if (server->shard() == shard) server->Die();
  }
  server_[shard] = nullptr;
}

bool Simulation::LoseCopies(ShardId shard) {
  const auto partition = static_cast<int32_t>(shard);
  if (world_.log.Begin(Topic::kGradients, partition) == 0) return false;  // it has all of it
  world_.Count("all copies of a shard lost");
  world_.log.InitTransactions("shard-" + std::to_string(shard));
  KillServers(shard);
  server_disks_[shard].clear();
  given_[shard] = nullptr;
  for (Replica& replica : replicas_) {
    if (replica.shard != shard) continue;
    if (replica.host != nullptr) replica.host->Die();
    replica.host.reset();
    replica.disk = std::make_shared<Disk>();
  }
  world_.log.Recreate(Topic::kParameters, partition);
  followers_[shard]->BeginAgain();
  world_.compacted[shard] = 0;
  world_.observer->OnCopiesLost(shard);
  return true;
}

// The end of gradients is lost under a server, and others stand there when it reads on: no offset
// tells.
bool Simulation::LoseUnderServer(ShardId shard) {
  ServerHost* const server = server_[shard];
  if (server == nullptr || !server->live() || !world_.random.Chance(0.3)) return false;
  // It does not stop for another reason: the next one may go on from a checkpoint before the loss.
  const auto instances =
      std::ranges::count_if(servers_, [shard](const auto& each) { return each->shard() == shard; });
  if (server->must_stop() || server->checkpoint_under_way() || instances > 1) return false;
  MemoryLog& log = world_.log;
  const auto partition = static_cast<int32_t>(shard);
  const Offset position = server->task().position();
  const Offset begin = log.Begin(Topic::kGradients, partition);
  if (position <= begin) return false;
  world_.Count("loss: the end of gradients, under a live server");
  const uint64_t kept = world_.random.Below(static_cast<uint64_t>(position - begin));
  log.LoseFrom(Topic::kGradients, partition, begin + kept);
  const Offset up_to = position + world_.random.Below(5);
  while (log.End(Topic::kGradients, partition) < up_to) {
    log.Append(Topic::kGradients, partition, "nobody", "?");
  }
  world_.loss.emplace();
  world_.loss->shard = shard;
  world_.observer = &nobody_;
  server->LoseConnection();
  return true;
}

bool Simulation::LoseRecords(ShardId shard) {
  if (LoseUnderServer(shard)) return true;
  // What its servers have begun ends with them.
  world_.log.InitTransactions("shard-" + std::to_string(shard));
  const bool lost =
      (world_.random.Chance(0.5) && RecreateParameters(shard)) || LoseGradients(shard);
  if (!lost) return false;
  KillServers(shard);
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
  followers_[shard]->BeginAgain();
  return true;
}

bool Simulation::RecreateInput(WorkerId worker) {
  const auto partition = static_cast<int32_t>(worker);
  WorkerProcess* const owner = owner_[worker];
  if (world_.scenario.external() || owner == nullptr || !owner->Has(worker)) return false;
  // The new topic has fewer rows than the old one when its readers look, zombies too: by more
  // nobody could tell.
  Offset read = owner->next_row(worker);
  for (const auto& process : processes_) {
    if (process->alive() && process->Has(worker)) read = std::min(read, process->next_row(worker));
  }
  const auto& commit = world_.committed[worker];
  const bool restarts = commit && commit->offset > 0 && world_.random.Chance(0.7);
  if (restarts) read = std::min(read, commit->offset);
  if (read == 0) return false;
  world_.Count(restarts ? "loss: input-data recreated while its worker is down"
                        : "loss: input-data recreated");
  world_.log.Recreate(Topic::kInputData, partition);
  next_row_[worker] = world_.scenario.rows[worker] + 1;  // its producer sends nothing more
  constexpr uint64_t kOther = 100'000;
  const uint64_t rows = world_.random.Below(static_cast<uint64_t>(read));
  for (RowNumber row = 0; row < rows; ++row) {
    const Row other = MakeRow(world_.scenario, worker, row + kOther);
    world_.log.Append(Topic::kInputData, partition, EncodeInputKey({row, 1}), EncodeRow(other),
                      now_ms_[worker]);
  }
  world_.input_loss = {worker, false};
  world_.faults = false;
  if (!restarts) return true;
  owner->Die();
  Succeed(*owner);
  return true;
}

// What the worker has read it may still use, with the help of all others.
std::string Simulation::AwaitRefusalOfWorker() {
  constexpr int kWorkerTurns = 40'000;
  constexpr int kIdleWorkerTurns = 30;
  int idle = 0;
  for (int turn = 0; turn < kWorkerTurns && !inspector_.failed(); ++turn) {
    if (world_.input_loss->refused) {
      world_.Count("worker refuses to go on");
      return "";
    }
    world_.now += std::chrono::milliseconds(1);
    idle = Turn() ? 0 : idle + 1;
    if (idle < kIdleWorkerTurns || Sweep() || GiveUpSnapshots()) continue;
    idle = 0;
    for (const auto& process : processes_) process->RepeatAll();
  }
  if (inspector_.failed()) return inspector_.violation();
  return "worker " + std::to_string(world_.input_loss->worker) + " does not say what it lost";
}

std::string Simulation::AwaitRefusal() {
  const ShardLoss& loss = *world_.loss;
  constexpr int kServerTurns = 20'000;
  world_.faults = false;
  // Nobody else does anything: a worker might say again just what was lost.
  for (int turn = 0; turn < kServerTurns && !loss.refused && !loss.answered; ++turn) {
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
