#include "metrics/job_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/metrics/points.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using Kind = JobState::Kind;

// Producer and server speak until 10 s; 24,000 rows are sent, 16,000 learnt from.
JobProgress SomeJob() {
  JobProgress job;
  for (int i = 0; i <= 40; ++i) {
    job.Fold(ProducerAt(250 * i, 600, 1'000, 24'000));
    job.Fold(ServerAt(250 * i, i));
  }
  return job;
}

TEST(JobState, AJobWhoseServersAnswerAndWhoseClocksMoveRuns) {
  const JobState state = ComputeJobState(SomeJob(), 10'100);
  EXPECT_EQ(state.kind, Kind::kRunning);
  EXPECT_EQ(state.reason, "");
  ASSERT_EQ(state.programs.size(), 6u);
  EXPECT_EQ(state.programs[0].name, "CsvProducer");
  EXPECT_DOUBLE_EQ(state.programs[0].seconds, 0.1);
  EXPECT_EQ(state.programs[1].name, "ServerApp, shard 0");
  EXPECT_EQ(state.programs[5].name, "worker 3");
}

TEST(JobState, ADeadServerIsWaitedForWhileTheProducerLives) {
  JobProgress job = SomeJob();
  job.Fold(ProducerAt(30'000, 600, 1'000, 24'000));
  const JobState state = ComputeJobState(job, 30'100);
  EXPECT_EQ(state.kind, Kind::kWaiting);
  EXPECT_EQ(state.reason, "for ServerApp, shard 0 (silent for 0:20)");
}

TEST(JobState, AJobOfWhichNothingIsHeardIsStalledHoweverFastItWas) {
  const JobState state = ComputeJobState(SomeJob(), 3'610'000);
  EXPECT_EQ(state.kind, Kind::kStalled);
  EXPECT_EQ(state.reason, "no program has been heard from for 1:00:00");
}

TEST(JobState, AJobThatHasEndedHasHoweverLongAgo) {
  JobProgress job = SomeJob();
  job.Fold(EndedAt(10'250, 41));
  EXPECT_EQ(ComputeJobState(job, 10'300).kind, Kind::kEnded);
  EXPECT_EQ(ComputeJobState(job, 1'000'000'000).kind, Kind::kEnded);
}

TEST(JobState, TheSlowestWorkersAreWaitedFor) {
  JobProgress job = SomeJob();
  for (int i = 0; i <= 40; ++i) {
    MetricPoint point = ServerAt(10'250 + 250 * i, 41);
    for (const int slow : {1, 2}) point.mutable_server()->mutable_workers(slow)->set_clock(40);
    job.Fold(point);
  }
  const JobState state = ComputeJobState(job, 20'250);
  EXPECT_EQ(state.kind, Kind::kWaiting);
  EXPECT_EQ(state.reason, "for worker 1 (no update for 0:10), 2 (no update for 0:10)");
}

TEST(JobState, AWorkerThatHasLeftIsNotWaitedFor) {
  JobProgress job = SomeJob();
  for (int i = 0; i <= 40; ++i) {
    MetricPoint point = ServerAt(10'250 + 250 * i, 41);
    point.mutable_server()->mutable_workers(0)->set_clock(40);
    point.mutable_server()->mutable_workers(0)->set_left(true);
    point.mutable_server()->mutable_workers(3)->set_clock(40);
    job.Fold(point);
  }
  EXPECT_EQ(ComputeJobState(job, 20'250).reason, "for worker 3 (no update for 0:10)");
}

TEST(JobState, WithoutFiguresEverybodyIsWaitedForInTurn) {
  JobProgress job;
  EXPECT_EQ(ComputeJobState(job, 1'000).reason, "for the job's first figures");
  job.Fold(ProducerAt(1'000, 6, 10, 24));
  EXPECT_EQ(ComputeJobState(job, 1'100).reason, "for ServerApp, which has not been heard from");
  MetricPoint server = ServerAt(1'100, 0);
  server.mutable_server()->clear_workers();
  server.mutable_server()->set_shards(2);
  job.Fold(server);
  EXPECT_EQ(ComputeJobState(job, 1'200).reason, "for ServerApp, shard 1 (not heard from)");
  server.mutable_server()->set_shard(1);
  job.Fold(server);
  job.Fold(ProducerAt(1'100, 6, 10, 24'000));
  EXPECT_THAT(ComputeJobState(job, 1'200).reason, HasSubstr("for WorkerApp"));
  EXPECT_EQ(ComputeJobState(job, 1'200).kind, Kind::kWaiting);
}

TEST(JobState, AStreamThatIsSilentHasItsRowsOrItsProducerWaitedFor) {
  JobProgress job;
  job.Fold(ServerAt(1'000, 60));  // 24,000 rows
  for (int i = 0; i <= 40; ++i) job.Fold(ServerAt(1'000 + 250 * i, 60));
  EXPECT_EQ(ComputeJobState(job, 11'000).reason, "for CsvProducer, which has not been heard from");
  job.Fold(ProducerAt(11'000, 600, 1'000, 24'050));  // less than a batch of 32 for each worker
  EXPECT_EQ(ComputeJobState(job, 11'000).reason, "for rows: all that were sent are trained on");
  for (int i = 0; i <= 40; ++i) job.Fold(ServerAt(11'000 + 250 * i, 60));
  EXPECT_EQ(ComputeJobState(job, 21'000).reason, "for CsvProducer (silent for 0:10)");
}

TEST(JobState, AClockThatIsAheadIsNow) {
  EXPECT_EQ(ComputeJobState(SomeJob(), 0).programs[0].seconds, 0);
  EXPECT_EQ(ComputeJobState(SomeJob(), 0).kind, Kind::kRunning);
}

}  // namespace
}  // namespace millrace
