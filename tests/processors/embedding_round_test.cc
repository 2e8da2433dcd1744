// Embedding rows on their way between workers and shards: both processors, messages by hand.
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "tests/processors/topology.h"
#include "topics/figures_codec.h"
#include "topics/slice_codec.h"

namespace millrace {
namespace {

// One worker, one shard, no messages: the sums, the step and the rows as they are defined.
TEST(EmbeddingRound, OneWorkerAndOneShardAreThePlainLoop) {
  TestedTopology topology({.training = Sequential()});
  topology.Run();
  const Model& model = topology.model();
  const std::unique_ptr<Optimizer> optimizer = Optimizer::Create({});
  ServerProcessor born(MakeServerOptions({}, 0, model), nullptr);
  std::map<EmbeddingId, std::vector<float>> rows, slots;
  std::vector<float> parameters(model.parameter_count()), parameter_slots(parameters.size());
  std::vector<uint64_t> class_rows(2);
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
    Scaler scaler = Scaler::Identity(1);
    scaler.set_class_rows(class_rows);  // of the batches before
    model.Compute(view, scaler, parameters, {ids, values, row_gradient}, &gradient, {});
    for (const Row& row : batch) ++class_rows[row.label];
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

struct Seeds {
  uint32_t begin;
  uint32_t end;
};

// The job on other numbers of shards, with late rows, and with deaths in every other run.
void ExpectSameOnAnyShards(TestJob job, const TestedTopology& plain, Seeds seeds, double death) {
  for (uint32_t seed = seeds.begin; seed < seeds.end; ++seed) {
    job.shards = 1 + seed % 4;
    job.rows_first = seed % 3 > 0;
    TestedTopology topology(job, seed);
    topology.Run(seed % 2 == 0 ? death : 0);
    ASSERT_EQ(topology.Parameters(), plain.Parameters()) << "seed " << seed;
    ASSERT_EQ(topology.Embeddings(), plain.Embeddings()) << "seed " << seed;
  }
}

class SequentialJob : public testing::TestWithParam<TestJob> {};

TEST_P(SequentialJob, IsTheSameBytesWhateverShardsDeathsAndLateRows) {
  const TestJob& job = GetParam();
  TestedTopology plain(job);
  plain.Run();
  ExpectSameOnAnyShards(job, plain, {0, 60}, 0.02);
}

INSTANTIATE_TEST_SUITE_P(
    EmbeddingRound, SequentialJob,
    testing::Values(
        TestJob{.workers = 3, .training = Sequential()},
        TestJob{.workers = 3,
                .training = Sequential(),
                .optimizer = {.kind = OptimizerOptions::Kind::kFtrl, .l1 = 0.05, .l2 = 0.1}},
        TestJob{.workers = 3, .training = Sequential(), .deep = true},
        TestJob{.workers = 3,
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
      const TestJob job = {.workers = 3, .training = Compressed(values, top_k), .deep = true};
      TestedTopology plain(job);
      plain.Run();
      // What is kept back dies with a worker.
      ExpectSameOnAnyShards(job, plain, {1, 12}, top_k == 1 ? 0.02 : 0);
      TestedTopology all({.workers = 3, .training = Sequential(), .deep = true});
      all.Run();
      const bool same = values == Training::Compression::FLOAT32 && top_k == 1;
      EXPECT_EQ(all.Parameters() == plain.Parameters(), same);
    }
  }
}

TEST(EmbeddingRound, TopKStillLosesNoUpdateWhenWorkersDie) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    TestedTopology topology({.workers = 3,
                             .shards = 1 + seed % 3,
                             .training = Compressed(Training::Compression::BF16, 0.2),
                             .rows_first = seed % 2 == 0},
                            seed);
    topology.Run(0.02);  // which ends with everybody having left
  }
}

// What a shard says to worker 0, with zeros for values.
Weights AnswerOf(const Model& model, ShardId shard, Clock clock,
                 const std::vector<EmbeddingId>& ids = {}) {
  Weights message;
  message.set_epoch(1);
  message.set_shard(shard);
  message.set_clock(clock);
  message.set_released(true);
  const KeyRange range = RangeOfShard(shard, 2, model.parameter_count());
  EncodeDenseSlice(std::vector<float>(range.size()), range, *message.mutable_slice());
  if (shard == 0) ToProto(Moments(kShape.numeric), *message.mutable_moments());
  message.mutable_rows()->set_end(clock * kBatchRows);
  message.mutable_embeddings()->mutable_id()->Add(ids.begin(), ids.end());
  const auto values = static_cast<int>(ids.size() * model.row_width());
  message.mutable_embeddings()->mutable_value()->Resize(values, 0);
  return message;
}

std::vector<Gradient> ReceiveAndTrain(TestWorker& worker, const Weights& answer) {
  WorkerOutput output;
  EXPECT_TRUE(worker.training_.ProcessWeights(answer.SerializeAsString()).ok());
  EXPECT_TRUE(worker.training_.TryTrain(output).ok());
  std::vector<Gradient> messages;
  for (const auto& message : output.messages) {
    EXPECT_TRUE(messages.emplace_back().ParseFromString(message.body->Joined()));
  }
  return messages;
}

// Another instance of the worker may be the one whose update brings the shards on.
TEST(EmbeddingRound, AWorkerAsksForRowsAnewWhenTheClockOfItsQuestionIsPast) {
  const TestJob job = {.shards = 2, .training = Sequential()};
  const std::unique_ptr<Model> model = ModelOf(job);
  TestWorker worker(job, 0, *model);
  worker.AddAll();
  ReceiveAndTrain(worker, AnswerOf(*model, 0, 1));
  ReceiveAndTrain(worker, AnswerOf(*model, 1, 0));
  Weights previous_round = AnswerOf(*model, 0, 0);
  previous_round.set_previous_round(true);
  // Shard 0 has gone on, and is asked for rows as they were.
  EXPECT_EQ(ReceiveAndTrain(worker, previous_round).size(), 2u);
  const std::vector<Gradient> questions = ReceiveAndTrain(worker, AnswerOf(*model, 1, 1));
  ASSERT_EQ(questions.size(), 2u) << "each shard, for the rows of the present batch";
  std::vector<Gradient> updates;
  for (ShardId shard = 0; shard < 2; ++shard) {
    EXPECT_EQ(questions[shard].kind_case(), Gradient::kAsk);
    EXPECT_EQ(questions[shard].clock(), 1u);
    const auto& ids = questions[shard].ask().wanted();
    updates = ReceiveAndTrain(worker, AnswerOf(*model, shard, 1, {ids.begin(), ids.end()}));
  }
  ASSERT_EQ(updates.size(), 2u);
  EXPECT_EQ(updates[0].kind_case(), Gradient::kUpdate);
  EXPECT_EQ(updates[0].clock(), 1u);
}

TEST(EmbeddingRound, RowsThatDoNotComeAreAskedForAgain) {
  const TestJob job = {.shards = 2, .training = Sequential()};
  const std::unique_ptr<Model> model = ModelOf(job);
  TestWorker worker(job, 0, *model);
  worker.AddAll();
  ReceiveAndTrain(worker, AnswerOf(*model, 0, 0));
  const std::vector<Gradient> questions = ReceiveAndTrain(worker, AnswerOf(*model, 1, 0));
  ASSERT_EQ(questions.size(), 2u);
  for (int times = 0; times < 3; ++times) {  // each of them may be lost
    WorkerOutput output;
    worker.training_.Repeat(output);
    ASSERT_EQ(output.messages.size(), 2u);
    for (ShardId shard = 0; shard < 2; ++shard) {
      EXPECT_EQ(output.messages[shard].shard, shard);
      Gradient again;
      ASSERT_TRUE(again.ParseFromString(output.messages[shard].body->Joined()));
      again.set_number(questions[shard].number());
      EXPECT_EQ(again.SerializeAsString(), questions[shard].SerializeAsString());
    }
  }
}

TEST(EmbeddingRound, RowsThatAreNotWhatTheJobHasAreRefusedAndChangeNothing) {
  const TestJob job = {.shards = 2, .training = Sequential()};
  const std::unique_ptr<Model> model = ModelOf(job);
  TestWorker worker(job, 0, *model);
  worker.AddAll();
  std::vector<EmbeddingId> ids;
  EmbeddingId of_the_other_shard = 0;
  for (EmbeddingId id = 0; ids.size() < 3; ++id) {
    if (ShardOfEmbedding(id, 2) == 0) {
      ids.push_back(id);
    } else {
      of_the_other_shard = id;
    }
  }
  const Weights good = AnswerOf(*model, 0, 0, ids);
  std::vector<Weights> bad(5, good);
  bad[0].mutable_embeddings()->mutable_value()->RemoveLast();
  bad[1].mutable_embeddings()->clear_value();
  bad[2].mutable_embeddings()->add_value(1);
  bad[3].mutable_embeddings()->mutable_id()->SwapElements(0, 1);
  bad[4].mutable_embeddings()->set_id(2, of_the_other_shard);
  for (const Weights& message : bad) {
    const Status status = worker.training_.ProcessWeights(message.SerializeAsString());
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << message.embeddings().ShortDebugString();
    EXPECT_EQ(worker.training_.SilentShards().size(), 2u);
  }
  EXPECT_TRUE(worker.training_.ProcessWeights(good.SerializeAsString()).ok());
}

// A row has its values, a sum of squares for each of them, and z of its weight.
TEST(EmbeddingRound, FtrlAddsOneFloatToTheStateOfARow) {
  const TestJob job = {.optimizer = {.kind = OptimizerOptions::Kind::kFtrl}};
  const ServerProcessor server(MakeServerOptions(job, 0, *ModelOf(job)), nullptr);
  EXPECT_EQ(server.embeddings()->slot_floats(), 1 + kFactors + 1);
}

TEST(EmbeddingRound, RowsThatAreKnownAheadComeWithoutAQuestion) {
  TestedTopology topology({.workers = 2, .shards = 2, .training = Sequential()});
  topology.Run();
  // Each worker asks each shard where it stands, and for the rows of its first batch.
  EXPECT_LE(topology.asks(), 2 * 2 * 2u);
}

// A step of AdaGrad for each row that the update names, by its definition; the learning rate and
// epsilon are OptimizerOptions' own.
void StepRows(const Gradient& update, std::map<EmbeddingId, std::vector<float>>& rows,
              std::map<EmbeddingId, std::vector<float>>& squares) {
  const auto mean = static_cast<float>(1 / update.update().weight_sum());
  const float* value = update.update().embeddings().value().data();
  for (const EmbeddingId id : update.update().embeddings().id()) {
    std::vector<float>& row = rows.at(id);
    squares[id].resize(row.size());
    for (size_t i = 0; i < row.size(); ++i) {
      const float gradient = *value++ * mean;
      squares[id][i] += gradient * gradient;
      row[i] -= 0.3f * gradient / (std::sqrt(squares[id][i]) + 1e-8f);
    }
  }
}

// Each worker's update of each clock is taken once, and every row it names has made its step.
TEST(EmbeddingRound, EventualJobsEndWithEveryUpdateApplied) {
  TestJob job = {.workers = 3, .shards = 2, .training = Sequential()};
  job.training.mutable_consistency()->set_model(Training::Consistency::EVENTUAL);
  for (uint32_t seed = 0; seed < 20; ++seed) {
    job.rows_first = seed % 2 == 0;
    TestedTopology topology(job, seed);
    std::map<EmbeddingId, std::vector<float>> rows = topology.Embeddings();
    std::map<EmbeddingId, std::vector<float>> squares;
    topology.Run(0.02);
    for (ShardId shard = 0; shard < job.shards; ++shard) {
      std::set<std::pair<WorkerId, Clock>> taken;
      for (const Gradient& update : topology.accepted(shard)) {
        EXPECT_TRUE(taken.emplace(update.worker(), update.clock()).second) << "seed " << seed;
        StepRows(update, rows, squares);
      }
      EXPECT_EQ(taken.size(), job.workers * ((kRows + kBatchRows - 1) / kBatchRows));
    }
    EXPECT_EQ(topology.Embeddings(), rows) << "seed " << seed;
    EXPECT_GT(squares.size(), 10u) << "nothing was learnt";
  }
}

}  // namespace
}  // namespace millrace
