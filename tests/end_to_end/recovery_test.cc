// What a job does when processes die, move, or say things twice or late.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/big_endian.h"
#include "stores/memory_byte_map.h"
#include "tasks/checkpoint.h"
#include "tests/end_to_end/scenarios.h"
#include "tests/end_to_end/topology.h"

namespace millrace::simulation {
namespace {

TEST(Recovery, ARestartedWorkerContinuesItsClock) {
  TestedTopology job(Job({12}));
  job.StartServer();
  WorkerHost& first = job.StartWorkers({0});
  job.Produce(0, 6);
  job.RunUntilIdle();
  EXPECT_EQ(job.clock(0), 2u);
  TestedTopology::Kill(first);
  job.StartWorkers({0});
  job.ProduceAll();
  job.RunUntilIdle();
  EXPECT_EQ(job.clock(0), 4u);
  EXPECT_EQ(job.processor().rows_trained(), 12u);
  EXPECT_EQ(job.processor().counters().duplicates_ignored(), 0u);
  EXPECT_EQ(job.violation(), "");
}

TEST(Recovery, AWorkerThatMovesStartsAtTheCommit) {
  TestedTopology job(Job({12}));
  job.StartServer();
  WorkerHost& first = job.StartWorkers({0});
  job.Produce(0, 8);
  job.RunUntilIdle();
  first.Revoke(0, false);
  ASSERT_TRUE(job.world().committed[0].has_value());
  EXPECT_EQ(job.world().committed[0]->metadata, "row=6 clock=2");
  job.StartWorkers({0});
  job.ProduceAll();
  job.RunUntilIdle();
  EXPECT_TRUE(job.processor().AllLeft());
  EXPECT_EQ(job.processor().rows_trained(), 12u);
  EXPECT_EQ(job.violation(), "");
}

TEST(Recovery, AWorkerThatHadLeftStaysSo) {
  TestedTopology job(Job({3}));
  job.StartServer();
  WorkerHost& first = job.StartWorkers({0});
  job.ProduceAll();
  job.RunUntilIdle();
  TestedTopology::Kill(first);
  WorkerHost& second = job.StartWorkers({0});
  job.RunUntilIdle();
  EXPECT_TRUE(second.task(0).left());
  EXPECT_EQ(job.clock(0), 1u);
}

TEST(Recovery, AReplayedGradientIsAppliedOnceAndAnswered) {
  TestedTopology job(Job({6}));
  job.StartServer();
  job.StartWorkers({0});
  job.Produce(0, 3);
  job.RunUntilIdle();
  const std::vector<float> weights = WeightsNow(job);
  const size_t answers = job.WeightsOf(0).size();
  job.AppendGradient(job.GradientsOf(0).back());
  job.RunUntilIdle();
  EXPECT_EQ(WeightsNow(job), weights);
  EXPECT_EQ(job.processor().counters().duplicates_ignored(), 1u);
  EXPECT_EQ(job.WeightsOf(0).size(), answers + 1);
  EXPECT_EQ(job.violation(), "");
}

TEST(Recovery, APoisonedGradientCountsAsEmpty) {
  TestedTopology job(Job({6, 6}));
  Gradient poison;
  poison.set_epoch(kEpoch);
  poison.set_worker(0);
  poison.mutable_update();
  poison.mutable_update()->set_row_count(1);
  poison.mutable_update()->set_weight_sum(1);
  poison.mutable_update()->set_rows_end(3);
  Slice& slice = *poison.mutable_update()->mutable_slice();
  slice.set_end(job.referee().now().weights->size());
  for (uint64_t key = 0; key < slice.end(); ++key) {
    slice.add_dense(std::numeric_limits<float>::quiet_NaN());
  }
  job.AppendGradient(poison);
  job.StartServer();
  job.StartWorkers({0, 1});
  job.ProduceAll();
  job.RunUntilIdle();
  job.Checkpoint();
  EXPECT_TRUE(job.processor().AllLeft());  // nobody hangs
  EXPECT_EQ(job.processor().counters().non_finite_updates(), 1u);
  EXPECT_EQ(job.processor().rows_trained(), 9u);  // the three of the poisoned clock are lost
  for (float weight : WeightsNow(job)) EXPECT_TRUE(std::isfinite(weight));
  ASSERT_EQ(job.DeadLetters().size(), 1u);
  EXPECT_EQ(job.DeadLetters()[0].topic(), "gradients");
  EXPECT_EQ(job.violation(), "");
}

TEST(Recovery, AProducerThatStartsAgainMayRepeatRows) {
  TestedTopology job(Job({6}));
  job.StartServer();
  WorkerHost& process = job.StartWorkers({0});
  job.Produce(0, 4);
  for (const RowNumber row : std::vector<RowNumber>{2, 3}) {
    job.world().Append({Topic::kInputData, 0, EncodeInputKey({row, 1}),
                        InputValue(job.world().scenario, 0, {row, 1})});
  }
  job.ProduceAll();
  job.RunUntilIdle();
  EXPECT_EQ(process.task(0).repeated_rows(), 2u);
  EXPECT_EQ(job.processor().rows_trained(), 6u);
  EXPECT_EQ(job.violation(), "");
}

TEST(Recovery, AServerWithNothingRecoversFromTheTopics) {
  TestedTopology job(Job({12, 12}));
  ServerHost& first = job.StartServer();
  job.StartWorkers({0, 1});
  job.Produce(0, 6);
  job.Produce(1, 6);
  job.RunUntilIdle();
  job.Checkpoint();
  EXPECT_GT(job.world().log.Begin(Topic::kGradients, 0), 0);  // truncated after the checkpoint
  const std::vector<float> weights = WeightsNow(job);
  TestedTopology::Kill(first);
  job.StartServer();
  job.RunUntilIdle();
  EXPECT_EQ(WeightsNow(job), weights);
  job.ProduceAll();
  job.RunUntilIdle();
  EXPECT_TRUE(job.processor().AllLeft());
  EXPECT_EQ(job.violation(), "");
}

TEST(Recovery, AServerRecoversFromItsDiskAndReadsOnlyWhatFollowed) {
  TestedTopology job(Job({12}));
  const auto disk = std::make_shared<Disk>();
  ServerHost& first = job.StartServer(disk);
  job.StartWorkers({0});
  job.Produce(0, 6);
  job.RunUntilIdle();
  job.Checkpoint();
  TestedTopology::Kill(first);
  job.world().coverage.clear();
  job.StartServer(disk);
  job.RunUntilIdle();
  EXPECT_EQ(job.world().coverage["recovery from a disk"], 1u);
  EXPECT_EQ(job.world().coverage["record of parameters read at recovery"], 0u);
  EXPECT_EQ(job.violation(), "");
}

TEST(Recovery, AnAnswerThatWasNotDeliveredIsMadeAgain) {
  TestedTopology job(Job({6}));
  ServerHost& first = job.StartServer();
  job.StartWorkers({0});
  job.RunUntilIdle();
  job.HoldBack(first);
  job.Produce(0, 3);
  job.RunUntilIdle();
  EXPECT_EQ(job.clock(0), 1u);
  TestedTopology::Kill(first);  // its answer with it
  job.Release();
  job.StartServer();
  job.ProduceAll();
  job.RunUntilIdle();
  EXPECT_TRUE(job.processor().AllLeft());
  EXPECT_EQ(job.violation(), "");
}

TEST(Recovery, AZombieServersLateAnswerHarmsNothing) {
  TestedTopology job(Job({12}));
  ServerHost& zombie = job.StartServer();
  WorkerHost& first = job.StartWorkers({0});
  job.RunUntilIdle();
  job.HoldBack(zombie);
  job.Produce(0, 3);
  job.RunUntilIdle();  // its answer of clock 1 is on its way
  job.StartServer();
  job.Produce(0, 6);
  job.RunUntilIdle();
  EXPECT_EQ(job.clock(0), 3u);
  first.Revoke(0, false);  // commits row 9
  WorkerHost& second = job.StartWorkers({0});
  // The late answer is the first that the new task reads: its rows are no longer there.
  job.world().Append(zombie.sender().Front(job.world().random));
  while (second.Step()) {
  }
  EXPECT_EQ(job.violation(), "");
  TestedTopology::Kill(zombie);
  job.Release();
  job.ProduceAll();
  job.RunUntilIdle();
  EXPECT_TRUE(job.processor().AllLeft());
  EXPECT_EQ(job.processor().rows_trained(), 12u);
  EXPECT_EQ(job.violation(), "");
}

TEST(Recovery, AZombieServerIsFencedAndStops) {
  TestedTopology job(Job({6}));
  ServerHost& zombie = job.StartServer();
  job.StartWorkers({0});
  job.Produce(0, 3);
  job.RunUntilIdle();
  job.StartServer();
  job.RunUntilIdle();
  while (!zombie.must_stop() && zombie.StepCheckpoint()) {
  }
  EXPECT_TRUE(zombie.must_stop());
  EXPECT_EQ(job.world().coverage["checkpoint"], 0u);
  EXPECT_EQ(job.violation(), "");
}

TEST(Recovery, APositionOutsideTheLogIsNeverSkipped) {
  TestedTopology job(Job({6}));
  ServerHost& first = job.StartServer();
  job.StartWorkers({0});
  job.Produce(0, 3);
  job.RunUntilIdle();
  job.Checkpoint();
  TestedTopology::Kill(first);
  job.ProduceAll();
  job.RunUntilIdle();
  // By hand, or by a retention that nobody should have set.
  job.world().log.DeleteBefore(Topic::kGradients, 0, job.world().log.End(Topic::kGradients, 0));
  job.AppendGradient(Gradient());
  job.world().log.DeleteBefore(Topic::kGradients, 0, job.world().log.End(Topic::kGradients, 0));
  ServerHost& second = job.StartServer();
  job.RunUntilIdle();
  EXPECT_TRUE(second.must_stop());
  EXPECT_FALSE(second.live());
  EXPECT_TRUE(absl::IsDataLoss(second.failure())) << second.failure();
}

TEST(Recovery, AnotherRecordInFrontOfThePositionIsNoticed) {
  TestedTopology job(Job({6}));
  const auto disk = std::make_shared<Disk>();
  ServerHost& first = job.StartServer(disk);
  job.StartWorkers({0});
  job.Produce(0, 3);
  job.RunUntilIdle();
  job.Checkpoint();
  TestedTopology::Kill(first);
  // `gradients` is deleted and recreated; the disk and `parameters` are kept.
  job.world().log.Recreate(Topic::kGradients, 0);
  for (int i = 0; i < 10; ++i) job.AppendGradient(Gradient());
  ServerHost& server = job.StartServer(disk);
  job.RunUntilIdle();
  EXPECT_TRUE(server.must_stop());
  EXPECT_TRUE(absl::IsDataLoss(server.failure())) << server.failure();
  EXPECT_NE(server.failure().message().find("differs from the last one of the checkpoint"),
            std::string_view::npos);
}

TEST(Recovery, WeightsDeletedByRetentionAreAskedForAgain) {
  TestedTopology job(Job({6}));
  ServerHost& server = job.StartServer();
  WorkerHost& process = job.StartWorkers({0});
  job.Produce(0, 3);
  job.HoldBack(process);
  while (server.Step()) {
  }
  job.Release();
  // The answer comes and goes before the worker has read it.
  while (!process.sender().empty()) {
    job.world().Append(process.sender().Front(job.world().random));
    process.sender().PopFront();
  }
  while (server.Step()) {
  }
  while (!server.sender().empty()) {
    job.world().Append(server.sender().Front(job.world().random));
    server.sender().PopFront();
  }
  job.world().log.DeleteBefore(Topic::kWeights, 0, job.world().log.End(Topic::kWeights, 0));
  job.ProduceAll();
  job.RunUntilIdle();
  EXPECT_EQ(job.world().coverage["worker behind the weights"], 1u);
  EXPECT_TRUE(job.processor().AllLeft());
}

TEST(Recovery, RowsDeletedByAZombieAreNeededByNobody) {
  TestedTopology job(Job({12}));
  job.StartServer();
  WorkerHost& zombie = job.StartWorkers({0});
  job.Produce(0, 9);
  job.RunUntilIdle();
  zombie.Lose(0);
  WorkerHost& second = job.StartWorkers({0});       // without a commit: from the first row
  for (int i = 0; i < 10; ++i) zombie.CommitAll();  // refused; but what it deletes is gone
  EXPECT_GT(job.world().log.Begin(Topic::kInputData, 0), 0);
  zombie.Revoke(0, true);
  job.ProduceAll();
  job.RunUntilIdle();
  EXPECT_TRUE(second.task(0).left());
  EXPECT_EQ(job.processor().rows_trained(), 12u);
  EXPECT_EQ(job.violation(), "");
}

TEST(Recovery, ARecordThatIsNoRowIsBuriedOnceThoughItsWorkerMoves) {
  TestedTopology job(Job({6}));
  job.StartServer();
  WorkerHost& first = job.StartWorkers({0});
  job.Produce(0, 3);
  job.world().Append({Topic::kInputData, 0, "nobody", "?"});
  job.RunUntilIdle();
  first.Revoke(0, false);  // the record counts with row 3, which has not come
  job.StartWorkers({0});
  job.ProduceAll();
  job.RunUntilIdle();
  job.Checkpoint();
  ASSERT_EQ(job.DeadLetters().size(), 1u);
  EXPECT_EQ(job.DeadLetters()[0].topic(), "input-data");
  EXPECT_EQ(job.DeadLetters()[0].offset(), 3);
  EXPECT_EQ(job.violation(), "");
}

TEST(Recovery, ABufferOnDiskThatIsTooOldIsNotMixedWithItsSuccessor) {
  TestedTopology job(BufferJob({700}));
  const auto disk = std::make_shared<Disk>();
  job.StartServer();
  WorkerHost& first = job.StartWorkers({0}, disk);
  job.Produce(0, 20);
  job.RunUntilIdle();
  first.Revoke(0, true);  // saves its buffer, of row 20
  WorkerHost& second = job.StartWorkers({0});
  job.Produce(0, 640);
  job.RunUntilIdle();
  for (int i = 0; i < 5; ++i) second.CommitAll();
  ASSERT_TRUE(job.world().committed[0].has_value());
  second.Revoke(0, true);
  first.Assign(0);  // its disk is behind the commit
  job.RunUntilIdle();
  first.SaveAll();
  TestedTopology::Kill(first);
  WorkerHost& third = job.StartWorkers({0}, disk);
  job.ProduceAll();
  job.RunUntilIdle();
  EXPECT_EQ(job.violation(), "");
  EXPECT_TRUE(third.Has(0) && third.task(0).left());
}

// A log whose last step fails.
class LogThatCannotTrim final : public CheckpointLog {
 public:
  StatusOr<Offset> CommitTransaction(const millrace::Checkpoint&, Offset) override { return 1; }
  Status TrimGradients(Offset) override { return absl::UnavailableError("the broker is away"); }
};

TEST(Recovery, DeadLettersAreDeliveredOnceThoughALaterStepFails) {
  LogThatCannotTrim log;
  MemoryByteMap store;
  millrace::Checkpoint checkpoint;
  checkpoint.position = 5;
  checkpoint.dead_letters = {"letter"};
  checkpoint.blocks = {0};
  CheckpointRun run(checkpoint, log, store);
  Status status;
  while (status.ok() && !run.done()) status = run.Step();
  EXPECT_FALSE(status.ok());
  EXPECT_TRUE(run.checkpoint().dead_letters.empty());
  EXPECT_EQ(run.checkpoint().blocks.size(), 1u);
}

}  // namespace
}  // namespace millrace::simulation
