#include "metrics/job_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <vector>

#include "metrics/source_counts.h"
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

TEST(JobState, OfAJobWithoutServersItsWorkerAppsAreWaitedFor) {
  JobProgress job;
  MetricPoint point = ServerAt(1'000, 1);
  point.mutable_server()->mutable_training()->set_distribution_strategy(Training::ALL_REDUCE);
  job.Fold(point);
  job.Fold(ProducerAt(21'000, 600, 1'000, 24'000));
  const JobState state = ComputeJobState(job, 21'100);
  EXPECT_EQ(state.kind, Kind::kWaiting);
  EXPECT_EQ(state.reason, "for WorkerApps (silent for 0:20)");
  EXPECT_EQ(state.programs[1].name, "WorkerApps");
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
  EXPECT_EQ(state.reason, "for workers 1-2 (no update for 0:10)");
}

// A round of 10 s in which no clock moves.
JobProgress InARound(const std::vector<uint32_t>& pending, uint32_t workers = 4) {
  JobProgress job = SomeJob();
  for (int i = 0; i <= 40; ++i) {
    MetricPoint point = ServerAt(10'250 + 250 * i, 40);
    for (uint32_t worker = 4; worker < workers; ++worker) {
      point.mutable_server()->add_workers()->set_worker(worker);
      point.mutable_server()->mutable_workers(static_cast<int>(worker))->set_clock(40);
    }
    for (const uint32_t worker : pending) {
      point.mutable_server()->mutable_workers(static_cast<int>(worker))->set_pending(true);
    }
    job.Fold(point);
  }
  return job;
}

TEST(JobState, WorkersWhoseUpdateOfTheRoundHasComeAreNotWaitedFor) {
  EXPECT_EQ(ComputeJobState(InARound({0, 1, 3}), 20'250).reason,
            "for worker 2 (no update for 0:10)");
  EXPECT_EQ(ComputeJobState(InARound({}), 20'250).reason, "for workers 0-3 (no update for 0:10)");
  EXPECT_EQ(ComputeJobState(InARound({0, 1, 2, 3}), 20'250).reason,
            "for workers 0-3 (no update for 0:10)");
}

TEST(JobState, TheShardThatIsFurthestBackTellsWhomItWaitsFor) {
  JobProgress job = InARound({});
  MetricPoint behind = ServerAt(20'250, 39);
  behind.mutable_server()->set_shard(1);
  behind.mutable_server()->set_shards(2);
  for (const int worker : {1, 2, 3}) {
    behind.mutable_server()->mutable_workers(worker)->set_pending(true);
  }
  // It has said so before.
  behind.set_timestamp_ms(10'000);
  job.Fold(behind);
  behind.set_timestamp_ms(20'250);
  job.Fold(behind);
  EXPECT_EQ(ComputeJobState(job, 20'250).reason, "for worker 0 (no update for 0:10)");
}

TEST(JobState, NamesWorkersOfWhomTheSameIsSaidTogether) {
  EXPECT_EQ(ComputeJobState(InARound({1, 5, 8}, 10), 20'250).reason,
            "for workers 0, 2-4, 6-7, 9 (no update for 0:10)");
  EXPECT_EQ(ComputeJobState(InARound({1, 3, 5, 7, 9}, 12), 20'250).reason,
            "for workers 0, 2, 4, 6 and 3 more (no update for 0:10)");
  JobProgress job = InARound({});
  MetricPoint point = ServerAt(14'000, 40);
  point.mutable_server()->mutable_workers(1)->set_clock(41);
  for (const int64_t now_ms : {22'000, 24'000}) {
    point.set_timestamp_ms(now_ms);
    job.Fold(point);
  }
  for (WorkerProgress& worker : *point.mutable_server()->mutable_workers()) worker.set_clock(41);
  for (int i = 0; i <= 40; ++i) {
    point.set_timestamp_ms(24'000 + 250 * i);
    job.Fold(point);
  }
  EXPECT_EQ(ComputeJobState(job, 34'000).reason,
            "for workers 0, 2-3 (no update for 0:10), worker 1 (no update for 0:12)");
}

TEST(JobState, UpdatesThatAlwaysTakeLongAreNoReasonToWait) {
  JobProgress job;
  job.Fold(ProducerAt(0, 600, 1'000, 24'000));
  MetricPoint point;
  for (int quarter = 0; quarter <= 4 * 60; ++quarter) {
    point = ServerAt(250 * quarter, static_cast<uint64_t>(quarter / 80));  // a round takes 20 s
    job.Fold(point);
  }
  // The third round ended at 60 s.
  for (int quarter = 1; quarter <= 4 * 61; ++quarter) {
    const int64_t now_ms = 60'000 + 250 * quarter;
    point.set_timestamp_ms(now_ms);
    job.Fold(point);
    const JobState::Kind expected =
        now_ms <= 120'000 ? JobState::Kind::kRunning : JobState::Kind::kWaiting;
    ASSERT_EQ(ComputeJobState(job, now_ms).kind, expected) << now_ms;
  }
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
  EXPECT_EQ(ComputeJobState(job, 1'100).reason,
            "for ServerApp (or an all-reduce job's WorkerApps): not heard from");
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
  job.Fold(ProducerAt(11'000, 600, 1'000, 24'000));
  EXPECT_EQ(ComputeJobState(job, 11'000).reason, "for rows: all that were sent are trained on");
  job.Fold(ProducerAt(11'000, 600, 1'000, 24'050));  // less than a batch of 32 for each worker
  EXPECT_EQ(ComputeJobState(job, 11'000).reason,
            "for rows: all but less than a batch of each worker that were sent are trained on");
  for (int i = 0; i <= 40; ++i) job.Fold(ServerAt(11'000 + 250 * i, 60));
  EXPECT_EQ(ComputeJobState(job, 21'000).reason, "for CsvProducer (silent for 0:10)");
  MetricPoint from_a_topic = ProducerAt(11'000, 600, 1'000, 24'050);
  AddSourceCounts(SourceState(), *from_a_topic.mutable_producer());
  job.Fold(from_a_topic);
  EXPECT_EQ(ComputeJobState(job, 21'000).reason, "for TopicSource (silent for 0:10)");
}

// Shard 0 of a job of one stops cleanly at 10.25 s.
JobProgress StoppedJob(uint64_t unsaved = 0) {
  JobProgress job = SomeJob();
  MetricPoint point = ServerAt(10'250, 40);
  point.mutable_server()->set_unsaved_updates(unsaved);
  point.mutable_server()->set_stopped(true);
  job.Fold(point);
  return job;
}

TEST(JobState, AJobThatWasStoppedCleanlyHasNotCrashed) {
  setenv("TZ", "UTC", 1);
  tzset();
  for (const int64_t now_ms : {10'300, 3'600'000}) {
    const JobState state = ComputeJobState(StoppedJob(), now_ms);
    EXPECT_EQ(state.kind, Kind::kStopped);
    EXPECT_EQ(NameOf(state.kind), "stopped");
    EXPECT_EQ(state.reason, "stopped cleanly at 00:00:10; everything is in a checkpoint");
    EXPECT_EQ(StateText(state), state.reason);
  }
  EXPECT_THAT(ComputeJobState(StoppedJob(), 86'400'000).reason,
              HasSubstr("stopped cleanly at 1970-01-01 00:00:10;"));
  EXPECT_THAT(ComputeJobState(StoppedJob(7), 20'000).reason,
              HasSubstr("7 updates are in no checkpoint: the next start replays them"));
}

TEST(JobState, WhoeverIsHeardFromAgainWaitsForTheServerThatStopped) {
  JobProgress job = StoppedJob();
  job.Fold(ProducerAt(10'500, 600, 1'000, 24'000));
  const JobState waiting = ComputeJobState(job, 10'600);
  EXPECT_EQ(waiting.kind, Kind::kWaiting);
  EXPECT_THAT(waiting.reason, HasSubstr("for ServerApp, shard 0 (stopped cleanly at "));
  EXPECT_EQ(ComputeJobState(job, 20'000).kind, Kind::kStopped) << "it was the producer's last word";
  job.Fold(ServerAt(20'000, 40));
  EXPECT_NE(ComputeJobState(job, 20'100).kind, Kind::kStopped);
}

TEST(JobState, WithoutKafkaNothingIsSaidOfThePrograms) {
  const JobState stalled = ComputeJobState(SomeJob(), 3'610'000);
  const JobState state = WithoutKafka(stalled, "localhost:9092", 12);
  EXPECT_EQ(state.kind, Kind::kWaiting);
  EXPECT_EQ(StateText(state), "waiting for Kafka at localhost:9092: no answer for 0:12");
  JobState ended;
  ended.kind = Kind::kEnded;
  EXPECT_EQ(WithoutKafka(ended, "localhost:9092", 12).kind, Kind::kEnded);
}

TEST(JobState, AClockThatIsAheadIsNow) {
  EXPECT_EQ(ComputeJobState(SomeJob(), 0).programs[0].seconds, 0);
  EXPECT_EQ(ComputeJobState(SomeJob(), 0).kind, Kind::kRunning);
}

}  // namespace
}  // namespace millrace
