// Workers and shards with their processors only; messages go by hand, in any order.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/big_endian.h"
#include "models/deep_fm.h"
#include "models/factorization_machine.h"
#include "processors/input_data_processor.h"
#include "processors/one_pass_batches.h"
#include "processors/server_processor.h"
#include "processors/worker_training_processor.h"
#include "stores/memory_byte_map.h"
#include "topics/partitioning.h"
#include "topics/row_codec.h"

namespace millrace {

inline constexpr size_t kFeatures = 3;
inline constexpr size_t kFactors = 2;
inline constexpr size_t kBatchRows = 4;
inline constexpr RowNumber kRows = 22;  // of a worker: the last batch is short
inline const RowShape kShape = {.numeric = 1, .features = kFeatures, .classes = 2, .ids = 2};

inline Row RowOf(WorkerId worker, RowNumber number) {
  std::mt19937 random(static_cast<uint32_t>(uint64_t{worker} * 1000 + uint64_t{number}));
  Row row{static_cast<uint32_t>(random() % 2), {static_cast<double>(random() % 7)}, {}, {}};
  row.index = {1 + static_cast<uint32_t>(random() % 2)};
  row.value = {1};
  row.ids = {random() % 9, 100 + random() % 5};
  return row;
}

struct TestJob {
  uint32_t workers = 1;
  uint32_t shards = 1;
  Training training{};
  bool rows_first = true;  // else they come one by one, as they are needed
  OptimizerOptions optimizer{};
  bool deep = false;
};

inline std::unique_ptr<Model> ModelOf(const TestJob& job) {
  if (!job.deep)
    return std::make_unique<FactorizationMachine>(FactorizationMachine::Shape{kFeatures, kFactors},
                                                  ScoreLoss{});
  return std::make_unique<DeepFm>(
      DeepFm::Shape{kFeatures, kShape.numeric, kShape.ids, kFactors, {5, 3}}, ScoreLoss{});
}

inline ServerOptions MakeServerOptions(const TestJob& job, ShardId shard, const Model& model) {
  ServerOptions options;
  options.shard = shard;
  options.shards = job.shards;
  options.range = RangeOfShard(shard, job.shards, model.parameter_count());
  options.penalised_end = model.penalised_end();
  options.linear_end = model.linear_end();
  options.random_init_ranges = model.random_init_ranges();
  options.optimizer = job.optimizer;
  options.values = job.training.compression().values();
  options.workers = job.workers;
  options.numeric_columns = kShape.numeric;
  options.embeddings = {.seed = 3, .initial_limit = {0, 0.5f, 0.5f}};
  const auto consistency = job.training.consistency().model();
  if (consistency == Training::Consistency::EVENTUAL) {
    options.consistency = ConsistencyPolicy::Eventual();
  }
  options.pipeline = PipelineOf(job.training);
  options.snapshot_every = job.training.snapshot_every();
  return options;
}

class TestWorker {
 public:
  // No two instances have the same `attempt`.
  TestWorker(const TestJob& job, WorkerId id, const Model& model, uint64_t attempt = 1)
      : options_(OptionsOf(job, id)),
        source_({.batch_rows = kBatchRows}),
        input_(id, kShape, source_, RowNumber{0}),
        training_(options_, model, source_, attempt << 20) {}

  bool AddRow() {
    if (next_row_ > kRows) return false;
    const std::string value =
        next_row_ < kRows ? EncodeRow(RowOf(options_.worker, next_row_)) : EncodeEnd(kRows);
    const std::string key = EncodeInputKey({next_row_, next_row_ < kRows ? 1U : 0U});
    const Status status = input_.Process({Offset(uint64_t{next_row_}), 0, key, value});
    EXPECT_TRUE(status.ok()) << status;
    ++next_row_;
    return true;
  }
  void AddAll() {
    while (AddRow()) {
    }
  }

  static WorkerOptions OptionsOf(const TestJob& job, WorkerId id) {
    WorkerOptions options;
    options.worker = id;
    options.workers = job.workers;
    options.shards = job.shards;
    options.training = job.training;
    options.numeric_columns = kShape.numeric;
    options.pipeline = PipelineOf(job.training);
    return options;
  }

  WorkerOptions options_;
  OnePassBatches source_;
  InputDataProcessor input_;
  RowNumber next_row_ = 0;
  WorkerTrainingProcessor training_;
};

// Messages wait, are reordered between partitions, and may be lost on a worker's death.
class TestedTopology {
 public:
  explicit TestedTopology(const TestJob& job, uint32_t seed = 1)
      : job_(job), random_(seed), model_(ModelOf(job)) {
    for (ShardId shard = 0; shard < job.shards; ++shard) {
      servers_.push_back(
          std::make_unique<ServerProcessor>(MakeServerOptions(job, shard, *model_), nullptr));
    }
    for (WorkerId id = 0; id < job.workers; ++id) StartWorker(id);
  }

  void StartWorker(WorkerId id) {
    workers_[id] = std::make_unique<TestWorker>(job_, id, *model_, ++attempts_);
    weights_[id].clear();  // it reads from the end on
    if (job_.rows_first) workers_[id]->AddAll();
    WorkerOutput output;
    workers_[id]->training_.Start(output);
    Send(id, output);
  }

  // Until everybody has left, or nothing more happens.
  void Run(double deaths = 0) {
    int steps = 0;
    int ended = 0;  // times that nothing was under way after the end; workers may ask for ever
    // (Sealed shards may get messages for a while.)
    for (int idle = 0, late = 0; idle < 3 && ended < 3 && steps < 100'000 && late < 500; ++steps) {
      late += AllSealed() ? 1 : 0;
      if (deaths > 0 && std::uniform_real_distribution<>()(random_) < deaths) {
        StartWorker(static_cast<WorkerId>(random_() % job_.workers));
      }
      if (meanwhile) meanwhile(random_);
      if (Deliver() || (!job_.rows_first && AddSomeRow())) {
        idle = 0;
        continue;
      }
      ++idle;
      if (AllLeft()) ++ended;
      for (auto& [id, worker] : workers_) {
        WorkerOutput output;
        worker->training_.Repeat(output);
        Send(id, output);
      }
    }
    if (IsBeyondHelp() || AllSealed()) return;
    for (const auto& server : servers_) EXPECT_TRUE(server->AllLeft()) << "after " << steps;
  }

  bool AllLeft() const {
    return std::ranges::all_of(servers_, [](const auto& server) { return server->AllLeft(); });
  }

  // A shard is lost, and the workers that had its weights have died since: nobody goes on.
  bool IsBeyondHelp() const {
    return std::ranges::any_of(servers_, [](const auto& server) {
      return server->state_lost() && server->WaitedFor().empty();
    });
  }

  // Nothing is left of the shard: it is created again and announces that to all workers.
  void LoseShard(ShardId shard) {
    servers_[shard] =
        std::make_unique<ServerProcessor>(MakeServerOptions(job_, shard, *model_), nullptr);
    servers_[shard]->MarkStateLost();
    for (auto& [id, queue] : weights_)
      queue.push_back({false, servers_[shard]->Answer(id)->Joined()});
  }
  const ServerProcessor& server(ShardId shard) const { return *servers_[shard]; }

  // To shard 0, like any record.
  void AskForSnapshot(uint64_t id) {
    Gradient request;
    request.set_epoch(1);
    request.set_worker(kNoWorker);
    request.mutable_request_snapshot()->set_number(id);
    gradients_[0].push_back(
        {EncodeBigEndian32(kNoWorker), MakeFrames(request.SerializeAsString(), 0)[0]});
  }
  // The order to go over to so many shards; to shard 0 and, as no master does, to all others.
  void Reshard(uint32_t shards, uint32_t layout = 0) {
    Gradient order;
    order.set_epoch(1);
    order.set_worker(kNoWorker);
    order.mutable_reshard()->set_layout(layout);
    order.mutable_reshard()->set_shards(shards);
    for (ShardId shard = 0; shard < job_.shards; ++shard) {
      gradients_[shard].push_back(
          {EncodeBigEndian32(kNoWorker), MakeFrames(order.SerializeAsString(), 0)[0]});
    }
  }
  bool AllSealed() const {
    return std::ranges::all_of(servers_,
                               [](const auto& server) { return server->seal().is_sealed(); });
  }
  void Cancel(ShardId shard, uint64_t id) {
    Gradient request;
    request.set_epoch(1);
    request.set_worker(kNoWorker);
    request.mutable_cancel_snapshot()->set_snapshot(id);
    gradients_[shard].push_back(
        {EncodeBigEndian32(kNoWorker), MakeFrames(request.SerializeAsString(), 0)[0]});
  }
  // Tells all shards, at different points of what they do.
  void CutHere(uint64_t id) {
    Gradient request;
    request.set_epoch(1);
    request.set_worker(kNoWorker);
    request.mutable_cut_here()->set_snapshot(id);
    for (auto& [shard, log] : gradients_) {
      log.push_back({EncodeBigEndian32(kNoWorker), MakeFrames(request.SerializeAsString(), 0)[0]});
    }
  }
  // What each shard was at the cut.
  struct Cut {
    std::map<WorkerId, VectorClock::Entry> clocks;
    std::vector<float> weights;
    std::string state;
  };
  // By snapshot and shard.
  const std::map<uint64_t, std::map<ShardId, Cut>>& cuts() const { return cuts_; }
  // Another thing to do between two deliveries.
  std::function<void(std::mt19937&)> meanwhile;

  std::vector<float> Parameters() const {
    std::vector<float> parameters;
    for (const auto& server : servers_) {
      const auto part = server->shard().weights();
      parameters.insert(parameters.end(), part.begin(), part.end());
    }
    return parameters;
  }
  std::map<EmbeddingId, std::vector<float>> Embeddings() const {
    std::map<EmbeddingId, std::vector<float>> rows;
    for (EmbeddingId id = 0; id < 110; ++id) {
      std::vector<float>& values = rows[id];
      values.resize(model_->row_width());
      const std::vector<EmbeddingId> ids = {id};
      const ShardId shard = ShardOfEmbedding(id, job_.shards);
      EXPECT_TRUE(servers_[shard]->ReadEmbeddings(ids, values).ok());
    }
    return rows;
  }

  // The updates that the shard has taken, as they came.
  const std::vector<Gradient>& accepted(ShardId shard) const { return accepted_.at(shard); }
  uint64_t asks() const { return asks_; }
  const Model& model() const { return *model_; }

 private:
  bool AddSomeRow() {
    TestWorker& worker = *workers_[static_cast<WorkerId>(random_() % job_.workers)];
    if (!worker.AddRow()) {
      bool any = false;
      for (auto& [id, other] : workers_) any |= other->AddRow() && Train(id);
      return any;
    }
    return Train(worker.options_.worker);
  }
  bool Train(WorkerId id) {
    WorkerOutput output;
    const Status status = workers_[id]->training_.TryTrain(output);
    EXPECT_TRUE(status.ok()) << status;
    Send(id, output);
    return true;
  }
  void Send(WorkerId id, const WorkerOutput& output) {
    for (const WorkerMessage& message : output.messages) {
      Gradient gradient;
      const std::string body = message.body->Joined();
      EXPECT_TRUE(gradient.ParseFromString(body));
      asks_ += gradient.has_ask() ? 1 : 0;
      gradients_[message.shard].push_back({EncodeBigEndian32(id), MakeFrames(body, 0)[0]});
    }
  }
  bool Deliver() {
    std::vector<std::pair<bool, uint32_t>> ready;
    for (auto& [shard, queue] : gradients_) {
      if (!queue.empty()) ready.push_back({true, shard});
    }
    for (auto& [id, queue] : weights_) {
      if (!queue.empty()) ready.push_back({false, id});
    }
    if (ready.empty()) return false;
    const auto [to_server, number] = ready[random_() % ready.size()];
    if (to_server) {
      Fold(ShardId(number));
      return true;
    }
    const WorkerId worker(number);
    const WeightsRecord record = weights_[worker].front();
    weights_[worker].pop_front();
    WorkerTrainingProcessor& training = workers_[worker]->training_;
    if (record.is_shared) {
      auto shared = DecodeSharedWeights(
          record.body, WeightsShapeFrom(TestWorker::OptionsOf(job_, worker), *model_));
      EXPECT_TRUE(shared.ok()) << shared.status();
      training.ProcessShared(std::make_shared<const SharedWeights>(*std::move(shared)));
    } else {
      const Status status = training.ProcessWeights(record.body);
      EXPECT_TRUE(status.ok()) << status;
    }
    return Train(worker);
  }
  void AtCut(ShardId shard, uint64_t id, ServerOutput& output) {
    ServerProcessor& server = *servers_[shard];
    Cut cut;
    for (const auto& [worker, entry] : server.clocks().entries()) cut.clocks[worker] = entry;
    cut.weights.assign(server.shard().weights().begin(), server.shard().weights().end());
    ShardState state;
    server.SaveState(state);
    cut.state = state.SerializeAsString();
    EXPECT_TRUE(cuts_[id].emplace(shard, std::move(cut)).second) << "twice at one cut";
    EXPECT_TRUE(server.LeaveCut(output).ok());
  }
  void Fold(ShardId shard) {
    const auto [key, value] = gradients_[shard].front();
    gradients_[shard].pop_front();
    ServerOutput output;
    ServerProcessor& server = *servers_[shard];
    const uint64_t before = server.counters().gradients_accepted();
    EXPECT_TRUE(server.Process({offset_++, key, value}, output).ok());
    if (server.counters().gradients_accepted() > before) {
      EXPECT_TRUE(accepted_[shard].emplace_back().ParseFromString(value.substr(2)));
    }
    EXPECT_THAT(output.dead_letters, testing::IsEmpty());
    if (output.snapshot) AtCut(shard, *output.snapshot, output);
    // Of one that was given up nothing is kept.
    if (server.at_cut()) {
      EXPECT_TRUE(server.LeaveCut(output).ok());
    }
    if (const auto& reply = output.reply) {
      std::erase(output.answers, reply->worker);
      weights_[reply->worker].push_back(
          {false, server.Answer(reply->worker, {.answers_to = reply->number})->Joined()});
    }
    AppendAnswers(server, output.answers);
    for (const auto& receiver : output.previous_answers) {
      weights_[receiver.worker].push_back({false, server.PreviousAnswer(receiver)->Joined()});
    }
  }

  // As ShardTask does it: several workers are sent the values once.
  void AppendAnswers(const ServerProcessor& server, std::vector<WorkerId> workers) {
    std::ranges::sort(workers);
    workers.erase(std::ranges::unique(workers).begin(), workers.end());
    if (workers.size() < 2 || server.state_lost()) {
      for (WorkerId id : workers) weights_[id].push_back({false, server.Answer(id)->Joined()});
      return;
    }
    const auto version = static_cast<uint64_t>(offset_);
    const std::string shared = server.SharedAnswer(version, workers)->Joined();
    for (auto& [id, worker] : workers_) weights_[id].push_back({true, shared});
    for (WorkerId id : workers) {
      if (server.NeedsOwnAnswer(id))
        weights_[id].push_back({false, server.Answer(id, {.shared = version})->Joined()});
    }
  }

  // A record of `weights`, and whether all workers read it.
  struct WeightsRecord {
    bool is_shared = false;
    std::string body{};
  };

  TestJob job_;
  std::mt19937 random_;
  std::unique_ptr<Model> model_;
  std::vector<std::unique_ptr<ServerProcessor>> servers_;
  std::map<WorkerId, std::unique_ptr<TestWorker>> workers_;
  std::map<ShardId, std::deque<std::pair<std::string, std::string>>> gradients_;
  std::map<WorkerId, std::deque<WeightsRecord>> weights_;
  std::map<ShardId, std::vector<Gradient>> accepted_;
  Offset offset_ = 0;
  uint64_t attempts_ = 0;
  uint64_t asks_ = 0;
  std::map<uint64_t, std::map<ShardId, Cut>> cuts_;
};

inline Training Sequential() {
  Training training;
  training.set_batch_rows(kBatchRows);
  training.set_scaling(Training::NONE);
  return training;
}

}  // namespace millrace
