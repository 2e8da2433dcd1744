#include "tests/end_to_end/topology.h"

#include <optional>
#include <utility>

#include "base/big_endian.h"
#include "topics/frame.h"

namespace millrace::simulation {
namespace {

// The messages of a partition, whole.
template <typename Message>
std::vector<Message> Read(const MemoryLog& log, Topic topic, int32_t partition,
                          const std::string& key) {
  std::vector<Message> messages;
  std::vector<Referee::Unfinished> unfinished;
  for (Offset at = log.Begin(topic, partition);
       const LogRecord* record = log.Next(topic, partition, at);) {
    at = record->offset + 1;
    if (!key.empty() && record->key != key) continue;
    bool bad = false;
    const std::optional<std::string> body = Referee::Join(record->value, unfinished, bad);
    Message message;
    if (body && message.ParseFromString(*body)) messages.push_back(std::move(message));
  }
  return messages;
}

}  // namespace

TestedTopology::TestedTopology(const Scenario& scenario)
    : world_(scenario, 1), inspector_(world_), next_row_(scenario.workers) {
  world_.observer = &inspector_;
}

void TestedTopology::Produce(WorkerId worker, RowNumber rows) {
  RowNumber& next = next_row_[worker];
  for (RowNumber i = 0; i < rows && next <= world_.scenario.rows[worker]; ++i, ++next) {
    const InputKey key = {next, next < world_.scenario.rows[worker] ? 1U : 0U};
    world_.Append({Topic::kInputData, static_cast<int32_t>(worker), EncodeInputKey(key),
                   InputValue(world_.scenario, worker, key)},
                  static_cast<int64_t>(1000 + 100 * next));
  }
}

void TestedTopology::ProduceAll() {
  for (WorkerId worker = 0; worker < world_.scenario.workers; ++worker) {
    Produce(worker, world_.scenario.rows[worker] + 1);
  }
}

ServerHost& TestedTopology::StartServer(DiskPointer disk) {
  if (server_ != nullptr) server_->set_replaced();
  servers_.push_back(std::make_unique<ServerHost>(world_, ShardId(0), std::move(disk)));
  server_ = servers_.back().get();
  return *server_;
}

WorkerHost& TestedTopology::StartWorkers(const std::vector<WorkerId>& workers, DiskPointer disk) {
  processes_.push_back(std::make_unique<WorkerHost>(world_, std::move(disk)));
  for (WorkerId worker : workers) processes_.back()->Assign(worker);
  return *processes_.back();
}

void TestedTopology::Kill(Host& host) {
  host.Die();
  host.sender().Clear();
}

void TestedTopology::RunUntilIdle() {
  std::vector<Host*> hosts;
  for (const auto& server : servers_) hosts.push_back(server.get());
  for (const auto& process : processes_) hosts.push_back(process.get());
  for (bool did = true; did;) {
    did = false;
    for (Host* host : hosts) {
      while (host != held_back_ && !host->sender().empty()) {
        world_.Append(host->sender().Front(world_.random));
        host->sender().PopFront();
        did = true;
      }
      const auto* server = dynamic_cast<const ServerHost*>(host);
      if (host->alive() && (server == nullptr || !server->must_stop())) did |= host->Step();
    }
  }
}

void TestedTopology::Checkpoint() {
  while (server_->StepCheckpoint()) {
  }
}

std::vector<Gradient> TestedTopology::GradientsOf(WorkerId worker) const {
  return Read<Gradient>(world_.log, Topic::kGradients, 0, EncodeBigEndian32(worker));
}

std::vector<Weights> TestedTopology::WeightsOf(WorkerId worker) const {
  return Read<Weights>(world_.log, Topic::kWeights, static_cast<int32_t>(worker), "");
}

std::vector<DeadLetter> TestedTopology::DeadLetters() const {
  return Read<DeadLetter>(world_.log, Topic::kDeadLetter, 0, "");
}

void TestedTopology::AppendGradient(const Gradient& message) {
  world_.Append({Topic::kGradients, 0, EncodeBigEndian32(message.worker()),
                 MakeFrames(message.SerializeAsString(), 0).front()});
}

}  // namespace millrace::simulation
