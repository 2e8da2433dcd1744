// What one step of a shard does to its weights.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "processors/server_processor.h"
#include "tests/processors/server_fixture.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// ---- what a step is ----

TEST(ServerProcessorTest, EmptyUpdatesAdvanceTheClockWithoutAStep) {
  TestServer server(SmallServer(kSequential));
  for (WorkerId worker = 0; worker < 3; ++worker)
    server.Send(Message(Gradient::kUpdate, worker, 0));
  EXPECT_EQ(server.processor().clocks().Min(), 1u);
  EXPECT_EQ(server.processor().steps(), 0u);
}

TEST(ServerProcessorTest, SparseAndDenseSlicesOfTheSameGradientGiveTheSameBytes) {
  TestServer dense(SmallServer(kEventual));
  TestServer sparse(SmallServer(kEventual));
  dense.Send(Update(0, 0, {0, 0, 3, 0.1f, 0, 7}, kRange));
  Gradient update = Update(0, 0, Same(0), kRange);
  Slice& slice = *update.mutable_update()->mutable_slice();
  slice.clear_dense();
  for (const auto& [key, value] :
       std::vector<std::pair<uint32_t, float>>{{2, 3}, {3, 0.1f}, {5, 7}}) {
    slice.add_sparse_index(key);
    slice.add_sparse_value(value);
  }
  sparse.Send(update);
  EXPECT_EQ(dense.weights(), sparse.weights());
}

TEST(ServerProcessorTest, ThePenaltyIsNotAppliedToTheBias) {
  ServerOptions options = SmallServer(kEventual);
  options.l2 = 0.5;
  TestServer server(options);
  std::ranges::fill(server.processor().mutable_shard().mutable_weights(), 8.0f);
  server.SendNext(0, 0);
  EXPECT_EQ(server.weights(), (std::vector<float>{6, 6, 6, 6, 8, 8}));
}

TEST(ServerProcessorTest, AShardPenalisesOnlyThoseOfItsOwnKeysThatAreNotTheBias) {
  for (const auto& [range, expected] : std::vector<std::pair<KeyRange, std::vector<float>>>{
           {{0, 3}, {6, 6, 6}}, {{3, 6}, {6, 8, 8}}, {{4, 6}, {8, 8}}, {{5, 6}, {8}}}) {
    ServerOptions options = SmallServer(kEventual);
    options.l2 = 0.5;
    options.range = range;
    TestServer server(options);
    std::ranges::fill(server.processor().mutable_shard().mutable_weights(), 8.0f);
    server.SendNext(0, 0);
    EXPECT_EQ(server.weights(), expected);
  }
}

// A model of twelve weights on one shard: rows of three, of which an update names some, against
// dense parameters. Returns both after some hundred steps.
std::pair<std::vector<float>, std::vector<float>> RowsAndDense(OptimizerOptions optimizer) {
  constexpr size_t kRows = 4;
  constexpr size_t kWidth = 3;
  ServerOptions options = SmallServer(kEventual);
  options.optimizer = optimizer;
  options.l2 = 0.03;
  options.range = {0, kRows * kWidth};
  options.penalised_end = kRows * kWidth;
  TestServer dense(options);
  options.range = {0, 0};
  options.row_l2 = options.l2;
  options.embeddings.emplace();
  options.embeddings->initial_limit.assign(kWidth, 0.0f);
  options.row_linear_end = kWidth;
  TestServer wide(options);
  std::mt19937 random(4);
  for (Clock clock = 0; clock < 300; clock = clock + 1) {
    Gradient update = Update(0, clock, {}, {0, 0}, 2);
    std::vector<float> sum(kRows * kWidth);
    for (size_t id = 0; id < kRows; ++id) {
      if (random() % (10 * id + 1) != 0) continue;  // the last is rare
      update.mutable_update()->mutable_embeddings()->add_id(id);
      for (size_t i = 0; i < kWidth; ++i) {
        const float value = static_cast<float>(random() % 1000) / 500 - 1;
        sum[id * kWidth + i] = value;
        update.mutable_update()->mutable_embeddings()->add_value(value);
      }
    }
    wide.Send(update);
    dense.Send(Update(0, clock, sum, {0, kRows * kWidth}, 2));
  }
  std::vector<float> rows(kRows * kWidth);
  EXPECT_TRUE(wide.processor().ReadEmbeddings(std::vector<EmbeddingId>{0, 1, 2, 3}, rows).ok());
  return {rows, dense.weights()};
}

TEST(ServerProcessorTest, RowsOfSgdWithAPenaltyAreADenseModelsWeights) {
  for (const double decay : {0.0, 0.01}) {
    const auto [rows, dense] =
        RowsAndDense({.kind = OptimizerOptions::Kind::kSgd, .learning_rate = 0.5, .decay = decay});
    for (size_t i = 0; i < rows.size(); ++i) EXPECT_NEAR(rows[i], dense[i], 2e-6) << i;
  }
}

TEST(ServerProcessorTest, RowsOfAdaGradWithAPenaltyAreNearlyADenseModelsWeights) {
  const auto [rows, dense] =
      RowsAndDense({.kind = OptimizerOptions::Kind::kAdaGrad, .learning_rate = 0.1});
  for (size_t i = 0; i < rows.size(); ++i) EXPECT_NEAR(rows[i], dense[i], 5e-3) << i;
}

TEST(ServerProcessorTest, ChangesOfARoundAreAveragedByTheirShareOfTheRows) {
  ServerOptions options = SmallServer(kSequential);
  options.updates = UpdateKind::kAverageChanges;
  TestServer server(options);
  server.Send(Update(0, 0, Same(8), kRange, 1));
  server.Send(Update(1, 0, Same(4), kRange, 3));
  server.Send(Message(Gradient::kUpdate, 2, 0));
  EXPECT_EQ(server.weights(), Same(8.0f / 4 + 4.0f * 3 / 4));
}

TEST(ServerProcessorTest, AChangeThatComesAloneMovesTheWeightsByItsWorkersShare) {
  ServerOptions options = SmallServer(kEventual);
  options.updates = UpdateKind::kAverageChanges;
  options.workers = 4;
  TestServer server(options);
  server.Send(Update(0, 0, Same(8), kRange, 100));
  EXPECT_EQ(server.weights(), Same(2));
  server.Send(Message(Gradient::kLeave, 3, 0));
  server.Send(Message(Gradient::kLeave, 2, 0));
  server.Send(Update(1, 0, Same(8), kRange, 1));
  EXPECT_EQ(server.weights(), Same(6)) << "of two who are left";
}

// ---- changes of online learners ----

ServerOptions Summing(ConsistencyPolicy policy) {
  ServerOptions options = SmallServer(policy);
  options.optimizer = {.kind = OptimizerOptions::Kind::kSum};
  return options;
}

TEST(ServerProcessorTest, ChangesOfOnlineLearnersAreAddedUpWhateverTheirRowsWeigh) {
  TestServer server(Summing(kSequential));
  server.Send(Update(0, 0, Same(8), kRange, 1));
  server.Send(Update(1, 0, Same(4), kRange, 3));
  EXPECT_EQ(server.weights(), Same(0)) << "the round has not ended";
  server.Send(Message(Gradient::kUpdate, 2, 0));
  EXPECT_EQ(server.weights(), Same(12));
  EXPECT_EQ(server.processor().steps(), 1u);
  for (const WorkerId worker : std::vector<WorkerId>{2, 1, 0})
    server.Send(Update(worker, 1, Same(-1), kRange, 50));
  EXPECT_EQ(server.weights(), Same(9));
}

TEST(ServerProcessorTest, ChangesOfOnlineLearnersAreAddedInTheOrderOfWorkersNotOfArrival) {
  std::vector<WorkerId> order = {0, 1, 2};
  do {
    TestServer server(Summing(kSequential));
    // Only in this order is the 1 not lost in the rounding.
    const std::vector<float> changes = {1e8f, -1e8f, 1};
    for (const WorkerId worker : order)
      server.Send(Update(worker, 0, Same(changes[worker]), kRange));
    EXPECT_EQ(server.weights(), Same(1));
  } while (std::ranges::next_permutation(order).found);
}

TEST(ServerProcessorTest, AChangeOfAnOnlineLearnerThatComesAloneIsAddedWhole) {
  TestServer server(Summing(kEventual));
  server.Send(Update(0, 0, Same(8), kRange, 100));
  EXPECT_EQ(server.weights(), Same(8));
  server.Send(Message(Gradient::kLeave, 2, 0));
  server.Send(Update(1, 0, Same(1), kRange, 1));
  server.Send(Update(0, 1, Same(-2), kRange, 7));
  EXPECT_EQ(server.weights(), Same(7));
}

TEST(ServerProcessorTest, ChangesOfRowsAreAddedUpToo) {
  ServerOptions options = Summing(kSequential);
  options.range = {0, 0};
  options.workers = 2;
  options.embeddings.emplace();
  options.embeddings->initial_limit.assign(2, 0.0f);
  options.row_linear_end = 2;
  TestServer server(options);
  const auto send = [&](WorkerId worker, uint64_t rows, const std::vector<EmbeddingId>& ids) {
    Gradient update = Update(worker, 0, {}, {0, 0}, rows);
    for (const EmbeddingId id : ids) {
      update.mutable_update()->mutable_embeddings()->add_id(id);
      update.mutable_update()->mutable_embeddings()->add_value(static_cast<float>(worker + 1));
      update.mutable_update()->mutable_embeddings()->add_value(static_cast<float>(id));
    }
    server.Send(update);
  };
  send(1, 3, {5, 9});
  send(0, 1, {4, 5});
  std::vector<float> rows(6);
  ASSERT_TRUE(server.processor().ReadEmbeddings(std::vector<EmbeddingId>{4, 5, 9}, rows).ok());
  EXPECT_THAT(rows, ElementsAre(1, 4, 3, 10, 2, 9));
}

// A message without rows is not checked for its values either.
TEST(ServerProcessorTest, WhatAMessageWithoutRowsSaysOfValuesAndWeightIsNotUsed) {
  for (const bool average : {true, false}) {
    ServerOptions options = SmallServer(kSequential);
    options.updates = average ? UpdateKind::kAverageChanges : UpdateKind::kSums;
    TestServer right(options);
    TestServer server(options);
    for (TestServer* each : {&right, &server}) {
      each->Send(Update(0, 0, Same(8), kRange, 1));
      each->Send(Update(1, 0, Same(4), kRange, 3));
    }
    right.Send(Message(Gradient::kUpdate, 2, 0));
    Gradient empty = Update(2, 0, Same(100), kRange, 0);
    empty.mutable_update()->set_weight_sum(6);
    server.Send(empty);
    EXPECT_EQ(server.weights(), right.weights()) << average;
    EXPECT_NE(server.weights(), Same(0));
  }
}

TEST(ServerProcessorTest, ChangesAreAveragedWithoutOptimizerOrPenalty) {
  ServerOptions options = SmallServer(kSequential);
  options.updates = UpdateKind::kAverageChanges;
  options.l2 = 10;
  options.optimizer.kind = OptimizerOptions::Kind::kAdam;
  TestServer server(options);
  EXPECT_TRUE(server.processor().shard().slots().empty());
  for (Clock clock = 0; clock < 3; ++clock) {
    for (WorkerId worker = 0; worker < 3; ++worker) server.SendNext(worker, 1);
  }
  for (float weight : server.weights()) EXPECT_NEAR(weight, 3, 1e-6);
}

TEST(ServerProcessorTest, TheOptimizersStateIsPartOfTheShard) {
  ServerOptions options = SmallServer(kEventual);
  options.optimizer.kind = OptimizerOptions::Kind::kMomentum;
  options.optimizer.momentum = 0.5;
  TestServer server(options);
  ASSERT_EQ(server.processor().shard().slots().size(), 6u);
  server.SendNext(0, 1);
  server.SendNext(0, 1);
  EXPECT_EQ(server.weights(), Same(-0.5f - 0.75f));
  for (float slot : server.processor().shard().slots()) EXPECT_NE(slot, 0);
  // Without it the next step is another one.
  std::ranges::fill(server.processor().mutable_shard().mutable_slots(), 0.0f);
  server.SendNext(0, 1);
  EXPECT_EQ(server.weights(), Same(-1.75f));
}

TEST(ServerProcessorTest, AStepMarksTheShardAsUpdated) {
  TestServer server(SmallServer(kEventual));
  EXPECT_THAT(server.processor().mutable_shard().TakeUpdated(), IsEmpty());
  server.Send(Message(Gradient::kUpdate, 0, 0));
  EXPECT_THAT(server.processor().mutable_shard().TakeUpdated(), IsEmpty());
  server.SendNext(0);
  EXPECT_THAT(server.processor().mutable_shard().TakeUpdated(), ElementsAre(0));
}

}  // namespace
}  // namespace millrace
