// How a job runs when nothing goes wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/end_to_end/scenarios.h"
#include "tests/end_to_end/topology.h"
#include "tests/simulation/reference_loop.h"

namespace millrace::simulation {
namespace {

using testing::ElementsAreArray;
using testing::IsEmpty;

std::vector<Gradient> UpdatesOf(const TestedTopology& job, WorkerId worker) {
  std::vector<Gradient> updates = job.GradientsOf(worker);
  std::erase_if(updates, [](const Gradient& g) { return !g.has_update(); });
  return updates;
}

uint64_t RowsOf(const std::vector<Gradient>& updates) {
  uint64_t rows = 0;
  for (const Gradient& update : updates) rows += update.update().row_count();
  return rows;
}

TEST(Training, EveryWorkerTrainsItsOwnPartition) {
  TestedTopology job(Job({6, 7, 8, 9}));
  job.StartServer();
  job.StartWorkers({0, 1});
  job.StartWorkers({2, 3});
  job.ProduceAll();
  job.RunUntilIdle();
  for (WorkerId worker = 0; worker < 4; ++worker) {
    EXPECT_EQ(RowsOf(UpdatesOf(job, worker)), uint64_t{worker} + 6);
  }
  EXPECT_EQ(job.processor().rows_trained(), 30u);
  EXPECT_TRUE(job.processor().AllLeft());
  EXPECT_EQ(job.violation(), "");
}

TEST(Training, TheLastClassesInterceptIsUpdated) {
  TestedTopology job(Job({6}));
  job.StartServer();
  job.StartWorkers({0});
  job.ProduceAll();
  job.RunUntilIdle();
  EXPECT_NE(job.processor().shard().weights().back(), 0.0f);
}

TEST(Training, UnequalRowCountsFinish) {
  for (const auto model : {Training::Consistency::SEQUENTIAL, Training::Consistency::EVENTUAL,
                           Training::Consistency::BOUNDED}) {
    TestedTopology job(With(Job({1, 20, 4, 11}), model, 2));
    job.StartServer();
    job.StartWorkers({0, 1, 2, 3});
    job.ProduceAll();
    job.RunUntilIdle();
    EXPECT_TRUE(job.processor().AllLeft());
    EXPECT_EQ(job.processor().rows_trained(), 36u);
    EXPECT_EQ(job.violation(), "");
  }
}

TEST(Training, AnEmptyPartitionLeavesAtOnce) {
  TestedTopology job(Job({0, 3}));
  job.StartServer();
  job.StartWorkers({0, 1});
  job.Produce(0, 1);  // its end
  job.RunUntilIdle();
  EXPECT_TRUE(job.processor().clocks().left(0));
  EXPECT_FALSE(job.processor().clocks().left(1));
  job.Produce(1, 3);
  job.RunUntilIdle();
  EXPECT_EQ(job.clock(1), 1u);  // the round does not wait for who has left
  EXPECT_EQ(job.violation(), "");
}

TEST(Training, WeightsBeforeRowsAreOwed) {
  TestedTopology job(Job({6}));
  job.StartServer();
  WorkerHost& process = job.StartWorkers({0});
  job.RunUntilIdle();
  EXPECT_TRUE(process.task(0).owes_update());
  job.Produce(0, 2);
  job.RunUntilIdle();
  EXPECT_EQ(job.clock(0), 0u);
  job.Produce(0, 1);  // completes the batch
  job.RunUntilIdle();
  EXPECT_EQ(job.clock(0), 1u);
}

TEST(Training, RowsBeforeAServerWaitForIt) {
  TestedTopology job(Job({6, 6}));
  job.ProduceAll();
  WorkerHost& process = job.StartWorkers({0, 1});
  job.RunUntilIdle();
  EXPECT_THAT(UpdatesOf(job, 0), IsEmpty());
  job.StartServer();
  job.RunUntilIdle();
  EXPECT_TRUE(process.task(0).left());
  EXPECT_TRUE(process.task(1).left());
  EXPECT_EQ(job.violation(), "");
}

TEST(Training, SequentialNamesWhomItWaitsFor) {
  TestedTopology job(Job({3, 3, 3}));
  job.StartServer();
  job.StartWorkers({0, 1, 2});
  job.Produce(1, 3);
  job.RunUntilIdle();
  EXPECT_THAT(job.processor().WaitedFor(), ElementsAreArray<WorkerId>({0, 2}));
  EXPECT_EQ(job.clock(1), 0u);
  job.Produce(0, 3);
  job.RunUntilIdle();
  EXPECT_THAT(job.processor().WaitedFor(), ElementsAreArray<WorkerId>({2}));
  job.Produce(2, 3);
  job.RunUntilIdle();
  EXPECT_THAT(job.processor().WaitedFor(), IsEmpty());
  EXPECT_EQ(job.clock(1), 1u);
}

TEST(Training, EventualWaitsForNobody) {
  TestedTopology job(With(Job({30, 30}), Training::Consistency::EVENTUAL));
  job.StartServer();
  job.StartWorkers({0, 1});
  job.Produce(0, 30);
  job.RunUntilIdle();
  EXPECT_EQ(job.clock(0), 10u);
  EXPECT_EQ(job.clock(1), 0u);
}

TEST(Training, BoundedStopsAtTheBoundAndGoesOnWithTheSlowest) {
  TestedTopology job(With(Job({30, 30}), Training::Consistency::BOUNDED, 2));
  job.StartServer();
  job.StartWorkers({0, 1});
  job.Produce(0, 30);
  job.RunUntilIdle();
  EXPECT_EQ(job.clock(0), 3u);  // clocks 0, 1, 2 were released
  job.Produce(1, 3);
  job.RunUntilIdle();
  EXPECT_EQ(job.clock(0), 4u);
  EXPECT_EQ(job.violation(), "");
}

TEST(Training, SequentialEndsInTheWeightsOfOneProcess) {
  for (const auto optimizer : {Training::Optimizer::SGD, Training::Optimizer::MOMENTUM,
                               Training::Optimizer::ADAGRAD, Training::Optimizer::ADAM}) {
    Scenario scenario = Job({10, 7, 13});
    scenario.training.mutable_optimizer()->set_kind(optimizer);
    TestedTopology job(scenario);
    job.StartServer();
    job.StartWorkers({0, 1, 2});
    job.ProduceAll();
    job.RunUntilIdle();
    EXPECT_EQ(WeightsNow(job), TrainInOneProcess(scenario, {}).end);
  }
}

TEST(Training, WeightChangesAreAveraged) {
  Scenario scenario = Job({10, 7, 13});
  scenario.training.mutable_update()->set_kind(Training::Update::WEIGHT_CHANGE);
  TestedTopology job(scenario);
  job.StartServer();
  job.StartWorkers({0, 1, 2});
  job.ProduceAll();
  job.RunUntilIdle();
  EXPECT_EQ(WeightsNow(job), TrainInOneProcess(scenario, {}).end);
  EXPECT_EQ(job.violation(), "");
}

TEST(Training, ChangesOfOnlineLearnersAddUpToThoseOfOneProcess) {
  for (const bool wide : {false, true}) {
    SCOPED_TRACE(wide);
    const Scenario scenario = OnlineJob({10, 7, 13}, wide);
    TestedTopology job(scenario);
    job.StartServer();
    job.StartWorkers({0, 1, 2});
    job.ProduceAll();
    job.RunUntilIdle();
    std::vector<float> all = TrainInOneProcess(scenario, {}).end;  // dense ones, then the rows
    const std::vector<float> weights = WeightsNow(job);
    ASSERT_LE(weights.size(), all.size());
    all.resize(weights.size());
    EXPECT_EQ(weights, all);
    EXPECT_EQ(job.processor().rows_trained(), 30u);
    EXPECT_EQ(job.violation(), "");
  }
}

TEST(Training, AnOnlineLearnerThatIsKilledLearnsItsBatchAnewAndChangesNothing) {
  const Scenario scenario = OnlineJob({10, 7, 13});
  TestedTopology job(scenario);
  job.StartServer();
  WorkerHost& first = job.StartWorkers({0, 1, 2});
  job.Produce(0, 5);
  job.Produce(1, 5);
  job.RunUntilIdle();
  TestedTopology::Kill(first);
  job.StartWorkers({0, 1, 2});
  job.ProduceAll();
  job.RunUntilIdle();
  EXPECT_EQ(WeightsNow(job), TrainInOneProcess(scenario, {}).end);
  EXPECT_EQ(job.violation(), "");
}

TEST(Training, SplitMessagesAreJoined) {
  Scenario scenario = Job({6, 6});
  scenario.max_frame_bytes = 50;
  TestedTopology job(scenario);
  job.StartServer();
  job.StartWorkers({0, 1});
  job.ProduceAll();
  job.RunUntilIdle();
  EXPECT_GT(job.world().log.End(Topic::kGradients, 0), 20);  // 8 messages, in many records
  EXPECT_TRUE(job.processor().AllLeft());
  EXPECT_EQ(job.violation(), "");
}

TEST(Training, BufferScheduleIsSilentWithoutNewRows) {
  TestedTopology job(BufferJob({20}));
  job.StartServer();
  WorkerHost& process = job.StartWorkers({0});
  job.Produce(0, 5);
  job.RunUntilIdle();
  const Clock clock = job.clock(0);
  EXPECT_GE(clock, 1u);
  EXPECT_TRUE(process.task(0).owes_update());
  job.RunUntilIdle();
  EXPECT_EQ(job.clock(0), clock);
  job.Produce(0, 1);
  job.RunUntilIdle();
  EXPECT_EQ(job.clock(0), clock + 1);
  EXPECT_EQ(job.violation(), "");
}

TEST(Training, BufferScheduleGoesOnForSomeRoundsAfterTheEnd) {
  Scenario scenario = BufferJob({5});
  scenario.training.set_rounds_after_end(3);
  TestedTopology job(scenario);
  job.StartServer();
  job.StartWorkers({0});
  job.Produce(0, 5);
  job.RunUntilIdle();
  const Clock clock = job.clock(0);
  job.Produce(0, 1);  // the end
  job.RunUntilIdle();
  EXPECT_EQ(job.clock(0), clock + 3);
  EXPECT_TRUE(job.processor().AllLeft());
  EXPECT_EQ(job.processor().rows_trained(), 5u);  // each row counts once
  EXPECT_EQ(job.violation(), "");
}

TEST(Training, AnUndecodableRowUsesUpItsNumber) {
  Scenario scenario = Job({9});
  scenario.undecodable = 0.5;
  uint64_t bad = 0;
  for (RowNumber row = 0; row < 9; ++row) bad += IsUndecodable(scenario, 0, row) ? 1 : 0;
  ASSERT_GT(bad, 0u);
  TestedTopology job(scenario);
  job.StartServer();
  job.StartWorkers({0});
  job.ProduceAll();
  job.RunUntilIdle();
  job.Checkpoint();
  EXPECT_EQ(job.clock(0), 3u);
  EXPECT_EQ(job.processor().rows_trained(), 9 - bad);
  EXPECT_EQ(job.processor().counters().undecodable_rows(), bad);
  EXPECT_EQ(job.DeadLetters().size(), bad);
  EXPECT_EQ(job.violation(), "");
}

}  // namespace
}  // namespace millrace::simulation
