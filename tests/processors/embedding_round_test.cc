// Embedding rows on their way between workers and shards: both processors, messages by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/big_endian.h"
#include "models/deep_fm.h"
#include "models/factorization_machine.h"
#include "processors/one_pass_batches.h"
#include "processors/server_processor.h"
#include "processors/worker_training_processor.h"
#include "stores/memory_byte_map.h"
#include "topics/codec.h"
#include "topics/partitioning.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr size_t kFeatures = 3;
constexpr size_t kFactors = 2;
constexpr size_t kBatchRows = 4;
constexpr RowNumber kRows = 22;  // of a worker: the last batch is short
const RowShape kShape = {.numeric = 1, .features = kFeatures, .classes = 2, .ids = 2};

Row RowOf(WorkerId worker, RowNumber number) {
  std::mt19937 random(static_cast<uint32_t>(worker * 1000 + number));
  Row row{static_cast<uint32_t>(random() % 2), {static_cast<double>(random() % 7)}, {}, {}};
  row.index = {1 + static_cast<uint32_t>(random() % 2)};
  row.value = {1};
  row.ids = {random() % 9, 100 + random() % 5};
  return row;
}

struct Job {
  uint32_t workers = 1;
  uint32_t shards = 1;
  Training training{};
  bool rows_first = true;  // else they come one by one, as they are needed
  OptimizerOptions optimizer{};
  bool deep = false;
};

std::unique_ptr<Model> ModelOf(const Job& job) {
  constexpr auto kLog = FactorizationMachine::Loss::kLog;
  if (!job.deep) return std::make_unique<FactorizationMachine>(kFeatures, kFactors, kLog);
  return std::make_unique<DeepFm>(
      DeepFm::Shape{kFeatures, kShape.numeric, kShape.ids, kFactors, {5, 3}}, kLog);
}

ServerOptions ServerOptionsOf(const Job& job, ShardId shard, const Model& model) {
  ServerOptions options;
  options.shard = shard;
  options.shards = job.shards;
  options.range = RangeOfShard(shard, job.shards, model.parameter_count());
  options.penalised_end = model.penalised_end();
  options.linear_end = model.linear_end();
  options.drawn = model.drawn();
  options.optimizer = job.optimizer;
  options.values = job.training.compression().values();
  options.workers = job.workers;
  options.numeric_columns = kShape.numeric;
  options.embeddings = {.seed = 3, .initial_limit = {0, 0.5f, 0.5f}};
  const auto consistency = job.training.consistency().model();
  if (consistency == Training::Consistency::EVENTUAL) {
    options.consistency = ConsistencyPolicy::Eventual();
  }
  return options;
}

class Worker {
 public:
  Worker(const Job& job, WorkerId id, const Model& model)
      : options_(OptionsOf(job, id)),
        source_(kBatchRows),
        input_(id, kShape, source_, RowNumber{0}),
        training_(options_, model, source_, input_) {}

  bool AddRow() {
    if (next_row_ > kRows) return false;
    const std::string value =
        next_row_ < kRows ? EncodeRow(RowOf(options_.worker, next_row_)) : EncodeEnd(kRows);
    const Status status =
        input_.Process({static_cast<Offset>(next_row_), 0, EncodeBigEndian64(next_row_), value});
    EXPECT_TRUE(status.ok()) << status;
    ++next_row_;
    return true;
  }
  void AddAll() {
    while (AddRow()) {
    }
  }

  static WorkerOptions OptionsOf(const Job& job, WorkerId id) {
    WorkerOptions options;
    options.worker = id;
    options.workers = job.workers;
    options.shards = job.shards;
    options.training = job.training;
    return options;
  }

  WorkerOptions options_;
  OnePassBatches source_;
  InputDataProcessor input_;
  RowNumber next_row_ = 0;
  WorkerTrainingProcessor training_;
};

// Messages wait, are reordered between partitions, and may be lost on a worker's death.
class Topology {
 public:
  explicit Topology(const Job& job, uint32_t seed = 1)
      : job_(job), random_(seed), model_(ModelOf(job)) {
    for (ShardId shard = 0; shard < job.shards; ++shard) {
      servers_.push_back(
          std::make_unique<ServerProcessor>(ServerOptionsOf(job, shard, *model_), nullptr));
    }
    for (WorkerId id = 0; id < job.workers; ++id) StartWorker(id);
  }

  void StartWorker(WorkerId id) {
    workers_[id] = std::make_unique<Worker>(job_, id, *model_);
    if (job_.rows_first) workers_[id]->AddAll();
    WorkerOutput output;
    workers_[id]->training_.Start(output);
    Send(id, output);
  }

  // Until everybody has left, or nothing more happens.
  void Run(double deaths = 0) {
    int turns = 0;
    for (int idle = 0; idle < 3;) {
      ASSERT_LT(++turns, 100'000) << "it never comes to rest";
      if (deaths > 0 && std::uniform_real_distribution<>()(random_) < deaths) {
        StartWorker(static_cast<WorkerId>(random_() % job_.workers));
      }
      if (Deliver() || (!job_.rows_first && AddSomeRow())) {
        idle = 0;
        continue;
      }
      ++idle;
      for (auto& [id, worker] : workers_) {
        WorkerOutput output;
        worker->training_.Repeat(output);
        Send(id, output);
      }
    }
    for (const auto& server : servers_) EXPECT_TRUE(server->AllLeft());
  }

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

  uint64_t asks() const { return asks_; }
  const Model& model() const { return *model_; }

 private:
  bool AddSomeRow() {
    Worker& worker = *workers_[static_cast<WorkerId>(random_() % job_.workers)];
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
    for (const WorkerOutput::Message& message : output.messages) {
      Gradient gradient;
      EXPECT_TRUE(gradient.ParseFromString(message.body));
      asks_ += gradient.kind() == Gradient::ASK ? 1 : 0;
      gradients_[message.shard].push_back({EncodeBigEndian32(id), MakeFrames(message.body, 0)[0]});
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
      Fold(number);
      return true;
    }
    const std::string body = weights_[number].front();
    weights_[number].pop_front();
    const Status status = workers_[number]->training_.ProcessWeights(body);
    EXPECT_TRUE(status.ok()) << status;
    return Train(number);
  }
  void Fold(ShardId shard) {
    const auto [key, value] = gradients_[shard].front();
    gradients_[shard].pop_front();
    ServerOutput output;
    ServerProcessor& server = *servers_[shard];
    EXPECT_TRUE(server.Process({offset_++, key, value}, output).ok());
    EXPECT_THAT(output.dead_letters, IsEmpty());
    for (WorkerId id : output.answers) weights_[id].push_back(*server.Answer(id));
    for (const auto& receiver : output.replaced_answers) {
      weights_[receiver.worker].push_back(*server.ReplacedAnswer(receiver));
    }
  }

  Job job_;
  std::mt19937 random_;
  std::unique_ptr<Model> model_;
  std::vector<std::unique_ptr<ServerProcessor>> servers_;
  std::map<WorkerId, std::unique_ptr<Worker>> workers_;
  std::map<ShardId, std::deque<std::pair<std::string, std::string>>> gradients_;
  std::map<WorkerId, std::deque<std::string>> weights_;
  Offset offset_ = 0;
  uint64_t asks_ = 0;
};

Training Sequential() {
  Training training;
  training.set_batch_rows(kBatchRows);
  training.set_scaling(Training::NONE);
  return training;
}

// One worker, one shard, no messages: the sums, the step and the rows as they are defined.
TEST(EmbeddingRound, OneWorkerAndOneShardAreThePlainLoop) {
  Topology topology({.training = Sequential()});
  topology.Run();
  const Model& model = topology.model();
  const std::unique_ptr<Optimizer> optimizer = Optimizer::Create({});
  ServerProcessor born(ServerOptionsOf({}, 0, model), nullptr);
  std::map<EmbeddingId, std::vector<float>> rows, slots;
  std::vector<float> parameters(model.parameter_count()), parameter_slots(parameters.size());
  uint64_t step = 0;
  for (RowNumber begin = 0; begin < kRows; begin += kBatchRows, ++step) {
    std::vector<Row> batch;
    std::set<EmbeddingId> named;
    for (RowNumber i = begin; i < std::min(begin + kBatchRows, kRows); ++i) {
      batch.push_back(RowOf(0, i));
      named.insert(batch.back().ids.begin(), batch.back().ids.end());
    }
    std::vector<const Row*> view;
    for (const Row& row : batch) view.push_back(&row);
    const std::vector<EmbeddingId> ids(named.begin(), named.end());
    std::vector<float> values;
    for (EmbeddingId id : ids) {
      if (!rows.contains(id)) {
        rows[id].resize(model.row_width());
        slots[id].resize(model.row_width());
        ASSERT_TRUE(born.ReadEmbeddings(std::vector<EmbeddingId>{id}, rows[id]).ok());
      }
      values.insert(values.end(), rows[id].begin(), rows[id].end());
    }
    std::vector<float> row_gradient(values.size());
    GradientSum gradient(model.parameter_count(), 1);
    model.Compute(view, Scaler::Identity(1), parameters, {ids, values, row_gradient}, &gradient,
                  {});
    const auto scale = static_cast<float>(1.0 / static_cast<double>(batch.size()));
    std::vector<float> mean(gradient.values().begin(), gradient.values().end());
    for (float& value : mean) value *= scale;
    for (float& value : row_gradient) value *= scale;
    optimizer->Step(step, mean, parameters, parameter_slots);
    for (size_t i = 0; i < ids.size(); ++i) {
      optimizer->Step(step,
                      std::span(row_gradient).subspan(i * model.row_width(), model.row_width()),
                      rows[ids[i]], slots[ids[i]]);
    }
  }
  EXPECT_EQ(topology.Parameters(), parameters);
  const auto trained = topology.Embeddings();
  for (const auto& [id, values] : rows) EXPECT_EQ(trained.at(id), values) << id;
}

class SequentialJob : public testing::TestWithParam<Job> {};

TEST_P(SequentialJob, IsTheSameBytesWhateverShardsDeathsAndLateRows) {
  const Job job = GetParam();
  Topology plain(job);
  plain.Run();
  for (uint32_t seed = 0; seed < 60; ++seed) {
    Job other = job;
    other.shards = 1 + seed % 4;
    other.rows_first = seed % 3 > 0;
    Topology topology(other, seed);
    topology.Run(seed % 2 == 0 ? 0.02 : 0);
    ASSERT_EQ(topology.Parameters(), plain.Parameters()) << "seed " << seed;
    ASSERT_EQ(topology.Embeddings(), plain.Embeddings()) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(
    EmbeddingRound, SequentialJob,
    testing::Values(
        Job{.workers = 3, .training = Sequential()},
        Job{.workers = 3,
            .training = Sequential(),
            .optimizer = {.kind = OptimizerOptions::Kind::kFtrl, .l1 = 0.05, .l2 = 0.1}},
        Job{.workers = 3, .training = Sequential(), .deep = true},
        Job{.workers = 3,
            .training = Sequential(),
            .optimizer = {.kind = OptimizerOptions::Kind::kFtrl, .l1 = 0.05},
            .deep = true}),
    [](const auto& job) {
      const bool ftrl = job.param.optimizer.kind == OptimizerOptions::Kind::kFtrl;
      return std::string(job.param.deep ? "DeepFm" : "FactorizationMachine") +
             (ftrl ? "ByFtrl" : "");
    });

Training Compressed(Training::Compression::Values values, double top_k = 1) {
  Training training = Sequential();
  training.mutable_compression()->set_values(values);
  training.mutable_compression()->set_top_k(top_k);
  return training;
}

// What is sent is chosen, and rounded, before an update is cut into shards.
TEST(EmbeddingRound, CompressedJobsAreTheSameBytesOnAnyNumberOfShards) {
  for (const auto values :
       {Training::Compression::FLOAT32, Training::Compression::FP16, Training::Compression::BF16}) {
    for (const double top_k : {1.0, 0.4, 0.1}) {
      const Job job = {.workers = 3, .training = Compressed(values, top_k), .deep = true};
      Topology plain(job);
      plain.Run();
      for (uint32_t seed = 1; seed < 12; ++seed) {
        Job other = job;
        other.shards = 1 + seed % 4;
        other.rows_first = seed % 3 > 0;
        Topology topology(other, seed);
        // What is kept back dies with a worker.
        topology.Run(top_k == 1 && seed % 2 == 0 ? 0.02 : 0);
        ASSERT_EQ(topology.Parameters(), plain.Parameters()) << "seed " << seed;
        ASSERT_EQ(topology.Embeddings(), plain.Embeddings()) << "seed " << seed;
      }
      Topology all({.workers = 3, .training = Sequential(), .deep = true});
      all.Run();
      const bool same = values == Training::Compression::FLOAT32 && top_k == 1;
      EXPECT_EQ(all.Parameters() == plain.Parameters(), same);
    }
  }
}

TEST(EmbeddingRound, TopKStillLosesNoUpdateWhenWorkersDie) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    Topology topology({.workers = 3,
                       .shards = 1 + seed % 3,
                       .training = Compressed(Training::Compression::BF16, 0.2),
                       .rows_first = seed % 2 == 0},
                      seed);
    topology.Run(0.02);  // which ends with everybody having left
  }
}

// A row has its values, a sum of squares for each of them, and z of its weight.
TEST(EmbeddingRound, FtrlAddsOneFloatToTheStateOfARow) {
  const Job job = {.optimizer = {.kind = OptimizerOptions::Kind::kFtrl}};
  const ServerProcessor server(ServerOptionsOf(job, 0, *ModelOf(job)), nullptr);
  EXPECT_EQ(server.embeddings()->slot_floats(), 1 + kFactors + 1);
}

TEST(EmbeddingRound, RowsThatAreKnownAheadComeWithoutAQuestion) {
  Topology topology({.workers = 2, .shards = 2, .training = Sequential()});
  topology.Run();
  // Each worker asks each shard where it stands, and for the rows of its first batch.
  EXPECT_LE(topology.asks(), 2 * 2 * 2u);
}

TEST(EmbeddingRound, EventualJobsEndWithEveryUpdateApplied) {
  Job job = {.workers = 3, .shards = 2, .training = Sequential()};
  job.training.mutable_consistency()->set_model(Training::Consistency::EVENTUAL);
  for (uint32_t seed = 0; seed < 20; ++seed) {
    job.rows_first = seed % 2 == 0;
    Topology topology(job, seed);
    topology.Run(0.02);
    Topology other(job, seed + 100);
    other.Run();
    EXPECT_NE(topology.Embeddings(), Topology(job).Embeddings()) << "nothing was learnt";
  }
}

}  // namespace
}  // namespace millrace
