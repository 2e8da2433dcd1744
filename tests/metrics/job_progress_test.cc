#include "metrics/job_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/metrics/points.h"

namespace millrace {
namespace {

using Kind = CurvePoint::Kind;

TEST(JobProgress, CountsTheRowsOfLaterEpochsWhichAreNeitherTestedNorNew) {
  JobProgress job;
  MetricPoint point = ServerAt(1'000, 10);
  const uint64_t first_epoch = point.server().rows_trained();
  point.mutable_server()->set_rows_counted(3 * first_epoch);
  job.Fold(point);
  EXPECT_EQ(job.rows_tested(), 3 * first_epoch);
  EXPECT_EQ(job.server()->rows_trained(), first_epoch);
}

TEST(JobProgress, KnowsNothingBeforeThereIsAPoint) {
  const JobProgress job;
  EXPECT_FALSE(job.server());
  EXPECT_FALSE(job.duration_seconds());
  EXPECT_FALSE(job.recent_rows_per_second());
  EXPECT_FALSE(job.stream_share());
  EXPECT_FALSE(job.ended());
  EXPECT_FALSE(job.complete());
  EXPECT_FALSE(job.rows_per_second());
}

TEST(JobProgress, MeasuresTrainingFromTheLastPointWithoutUpdatesToTheEnd) {
  JobProgress job;
  job.Fold(ServerAt(1'000, 0));
  job.Fold(ServerAt(60'000, 0));  // a minute of waiting for rows is no training
  EXPECT_FALSE(job.duration_seconds());
  job.Fold(ServerAt(60'250, 5));
  job.Fold(ServerAt(70'000, 200));
  job.Fold(EndedAt(80'000, 400));
  EXPECT_DOUBLE_EQ(*job.duration_seconds(), 20);
  EXPECT_DOUBLE_EQ(*job.rounds_per_second(), 20);
  EXPECT_DOUBLE_EQ(*job.rows_per_second(), 8000);
}

TEST(JobProgress, MeasuresFromTheFirstPointWhenItHasUpdatesAlready) {
  JobProgress job;
  job.Fold(ServerAt(5'000, 10));
  job.Fold(EndedAt(7'000, 20));
  EXPECT_DOUBLE_EQ(*job.duration_seconds(), 2);
}

TEST(JobProgress, HasNoNegativeDurationWhenTheServersClocksDiffer) {
  JobProgress job;
  job.Fold(ServerAt(9'000, 10));
  job.Fold(EndedAt(7'000, 20));
  EXPECT_DOUBLE_EQ(*job.duration_seconds(), 0);
  EXPECT_FALSE(job.rows_per_second());
}

TEST(JobProgress, TellsNoRateOfLessThanASecond) {
  JobProgress job;
  job.Fold(ServerAt(1'000, 10));  // most of the job, before the first report
  job.Fold(EndedAt(1'999, 11));
  EXPECT_TRUE(job.duration_seconds());
  EXPECT_FALSE(job.rounds_per_second());
  EXPECT_FALSE(job.rows_per_second());
}

TEST(JobProgress, WhatASnapshotHadLearntBeforeTheJobIsNoSpeedOfIt) {
  JobProgress job;
  job.Fold(ServerAt(5'000, 1'000));  // 400,000 rows in 1,000 rounds, of the snapshot
  job.Fold(EndedAt(7'000, 1'010));
  EXPECT_DOUBLE_EQ(*job.rows_per_second(), 2'000);
  EXPECT_DOUBLE_EQ(*job.rounds_per_second(), 5);
}

TEST(JobProgress, NorOfAShardThatHasItsRowsFromTheSnapshotButNoUpdates) {
  JobProgress job;
  MetricPoint point = ServerAt(5'000, 0);
  point.mutable_server()->set_rows_trained(400'000);
  job.Fold(point);
  point = EndedAt(7'000, 10);
  point.mutable_server()->set_rows_trained(404'000);
  job.Fold(ServerAt(5'250, 0));
  job.Fold(point);
  EXPECT_FALSE(job.rows_per_second()) << "one report with updates";
  JobProgress begun;
  point = ServerAt(5'000, 0);
  point.mutable_server()->set_rows_trained(400'000);
  begun.Fold(point);
  point = ServerAt(5'250, 1);
  point.mutable_server()->set_rows_trained(400'400);
  begun.Fold(point);
  point = EndedAt(7'000, 10);
  point.mutable_server()->set_rows_trained(404'000);
  begun.Fold(point);
  EXPECT_DOUBLE_EQ(*begun.rows_per_second(), 2'000);
}

TEST(JobProgress, CountsOnSlidingBuffersTheRowsThatWereTrainedOn) {
  const auto on_buffers = [](MetricPoint point, uint64_t rows_counted) {
    point.mutable_server()->mutable_training()->set_schedule(Training::BUFFER);
    point.mutable_server()->set_rows_counted(rows_counted);
    return point;
  };
  JobProgress job;
  job.Fold(ProducerAt(900, 100, 100, 10'000, true));  // and one that was rejected
  job.Fold(on_buffers(ServerAt(1'000, 0), 0));
  job.Fold(on_buffers(ServerAt(1'250, 1), 1'000));
  EXPECT_DOUBLE_EQ(*job.recent_rows_per_second(), 1'600);
  EXPECT_FALSE(job.rows_replaced()) << "not at the end";
  MetricPoint end = on_buffers(EndedAt(3'000, 10), 10'000);
  end.mutable_server()->set_undecodable_rows(5);
  job.Fold(end);
  EXPECT_DOUBLE_EQ(*job.rows_per_second(), 2'000);
  EXPECT_EQ(job.rows_replaced(), 5'995u);
}

TEST(JobProgress, OnlySlidingBuffersReplaceRows) {
  JobProgress job;
  job.Fold(ProducerAt(900, 100, 100, 10'000, true));
  job.Fold(EndedAt(3'000, 10));
  EXPECT_FALSE(job.rows_replaced());
}

TEST(JobProgress, HasReadNoFewerRowsThanItWasTrainedOn) {
  JobProgress job;
  job.Fold(ProducerAt(900, 5, 10, 3'000));  // and one that was rejected
  EXPECT_EQ(job.rows_read(), 3'001u);
  job.Fold(ServerAt(1'000, 10));
  EXPECT_EQ(job.rows_read(), 4'001u) << "the producer's last report is older";
}

TEST(JobProgress, HasStoppedWhenAllItsShardsHave) {
  const auto stopped = [](int64_t timestamp_ms, uint32_t shard) {
    MetricPoint point = ServerAt(timestamp_ms, 10);
    point.mutable_server()->set_shards(2);
    point.mutable_server()->set_shard(shard);
    point.mutable_server()->set_stopped(true);
    return point;
  };
  JobProgress job;
  EXPECT_FALSE(job.stopped_ms());
  job.Fold(stopped(1'000, 0));
  EXPECT_FALSE(job.stopped_ms());
  job.Fold(stopped(1'500, 1));
  EXPECT_EQ(job.stopped_ms(), 1'500);
  MetricPoint again = stopped(2'000, 0);
  again.mutable_server()->set_stopped(false);
  job.Fold(again);
  EXPECT_FALSE(job.stopped_ms());
  EXPECT_FALSE(job.shard_stopped(0));
  EXPECT_TRUE(job.shard_stopped(1));
}

TEST(JobProgress, KnowsWhenEachProgramWasHeardOfAndEachWorkerMoved) {
  JobProgress job;
  job.Fold(ProducerAt(900, 5, 10, 4'000));
  job.Fold(ServerAt(1'000, 0));
  EXPECT_EQ(job.moved_ms(), 0);
  job.Fold(ServerAt(2'000, 3));
  MetricPoint point = ServerAt(3'000, 3);
  point.mutable_server()->mutable_workers(1)->set_clock(4);
  job.Fold(point);
  job.Fold(ServerAt(2'500, 3));  // of a server that was replaced
  EXPECT_EQ(job.producer_ms(), 900);
  EXPECT_EQ(job.shards_heard_ms().at(0), 3'000);
  EXPECT_EQ(job.worker_moved_ms(0), 2'000);
  EXPECT_EQ(job.worker_moved_ms(1), 3'000);
  EXPECT_EQ(job.worker_moved_ms(9), 0);
  EXPECT_EQ(job.moved_ms(), 3'000);
}

TEST(JobProgress, DoesNotCountAnOutageBeforeTheFirstUpdate) {
  JobProgress job;
  job.Fold(ServerAt(1'000, 0));
  job.Fold(ServerAt(31'000, 1));  // no point for half a minute: the server was away
  job.Fold(EndedAt(33'000, 20));
  EXPECT_DOUBLE_EQ(*job.duration_seconds(), 2);
}

TEST(JobProgress, GivesTheRatesOfTheLastSeconds) {
  JobProgress job;
  for (int i = 0; i <= 40; ++i) job.Fold(ServerAt(250 * i, 10 * i));
  // Four times as fast from ten seconds on.
  for (int i = 1; i <= 40; ++i) job.Fold(ServerAt(10'000 + 250 * i, 400 + 40 * i));
  EXPECT_NEAR(*job.recent_rounds_per_second(), 160, 1);
  EXPECT_NEAR(*job.recent_rows_per_second(), 64'000, 400);
  job.Fold(EndedAt(20'250, 2000));
  EXPECT_FALSE(job.recent_rows_per_second()) << "a job that has ended has no present rate";
}

TEST(JobProgress, IgnoresAPointOfAServerThatWasReplaced) {
  JobProgress job;
  job.Fold(ServerAt(1'000, 10));
  job.Fold(ServerAt(1'250, 8));
  EXPECT_EQ(job.server()->rounds(), 10u);
}

TEST(JobProgress, GoesOnWithAShardThatHasItsWeightsFromAWorkerAndItsCountersFromNobody) {
  JobProgress job;
  job.Fold(ServerAt(1'000, 10));
  MetricPoint restored = EndedAt(1'250, 11);
  restored.mutable_server()->set_updates(1);
  job.Fold(restored);
  EXPECT_EQ(job.server()->rounds(), 11u);
  EXPECT_TRUE(job.ended());
}

TEST(JobProgress, AddsUpTheRowsOfGroupsOfServersByTheFirstShardOfEach) {
  JobProgress job;
  uint64_t rows = 0;
  for (uint32_t shard = 0; shard < 4; ++shard) {
    MetricPoint point = ServerAt(1'000, 10);
    point.mutable_server()->set_shard(shard);
    point.mutable_server()->set_shards(4);
    point.mutable_server()->set_groups(2);
    point.mutable_server()->set_group(shard / 2);
    if (shard == 0) rows = point.server().rows_trained();
    if (shard == 2) point.mutable_server()->set_rows_trained(5);
    job.Fold(point);
  }
  EXPECT_EQ(job.server()->rows_trained(), rows + 5);
}

TEST(JobProgress, PutsTheShardsTogether) {
  MetricPoint zero = ServerAt(1'000, 10);
  MetricPoint one = ServerAt(1'000, 9);
  one.mutable_server()->set_shard(1);
  one.mutable_server()->set_rows_trained(0);
  one.mutable_server()->set_duplicates_ignored(3);
  zero.mutable_server()->set_duplicates_ignored(2);
  one.mutable_server()->set_unsaved_updates(30);
  zero.mutable_server()->set_time_jumps(1);
  one.mutable_server()->set_time_jumps(2);
  one.mutable_server()->set_aborted_checkpoints(4);
  JobProgress job;
  job.Fold(zero);
  job.Fold(one);
  EXPECT_EQ(job.server()->rounds(), 9u);
  EXPECT_EQ(job.server()->rows_trained(), 4000u);
  EXPECT_EQ(job.server()->duplicates_ignored(), 5u);
  EXPECT_EQ(job.server()->unsaved_updates(), 30u) << "of the shard that has most";
  EXPECT_EQ(job.server()->time_jumps(), 3u);
  EXPECT_EQ(job.server()->aborted_checkpoints(), 4u) << "of the shard that has most";
  job.Fold(EndedAt(2'000, 10));
  EXPECT_FALSE(job.ended()) << "shard 1 has not";
  MetricPoint one_ended = EndedAt(2'000, 10);
  one_ended.mutable_server()->set_shard(1);
  job.Fold(one_ended);
  EXPECT_TRUE(job.ended());
}

TEST(JobProgress, RemembersTheGreatestStaleness) {
  JobProgress job;
  MetricPoint point = ServerAt(1'000, 10);
  point.mutable_server()->set_staleness(4);
  job.Fold(point);
  job.Fold(ServerAt(1'250, 11));
  EXPECT_EQ(job.server()->staleness(), 0u);
  EXPECT_EQ(job.staleness_max(), 4u);
}

TEST(JobProgress, EstimatesTheStreamByItsBytesUntilItHasBeenSent) {
  JobProgress job;
  job.Fold(ProducerAt(1'000, 500, 2'000, 1'000));
  job.Fold(ServerAt(1'000, 1));
  const auto share = job.stream_share();
  ASSERT_TRUE(share);
  EXPECT_DOUBLE_EQ(share->sent, 0.25);
  EXPECT_EQ(share->rows, 4'000u);
  EXPECT_DOUBLE_EQ(share->learnt, 0.1);
  job.Fold(ProducerAt(1'500, 2'000, 2'000, 3'900, true));
  EXPECT_EQ(job.stream_share()->rows, 3'900u);
  EXPECT_DOUBLE_EQ(job.stream_share()->sent, 1);
}

TEST(JobProgress, KnowsTheLengthOfAStreamOfSeveralPassesInTheSecond) {
  MetricPoint point = ProducerAt(1'000, 1'500, 3'000, 1'400);
  point.mutable_producer()->set_rows_read(1'001);  // the file's, one of them rejected
  point.mutable_producer()->set_epoch_of_stream(2);
  point.mutable_producer()->set_epochs_of_stream(3);
  JobProgress job;
  job.Fold(point);
  EXPECT_DOUBLE_EQ(job.stream_share()->sent, 0.5);
  EXPECT_EQ(job.stream_share()->rows, 3'000u);
}

TEST(JobProgress, EstimatesNoMoreRowsThanANumberHolds) {
  JobProgress job;
  job.Fold(ProducerAt(1'000, 1, uint64_t{1} << 60, uint64_t{1} << 50));
  EXPECT_EQ(job.stream_share()->rows, uint64_t{1} << 62);
  MetricPoint point = ProducerAt(2'000, 1, uint64_t{1} << 60, uint64_t{1} << 50);
  point.mutable_producer()->set_epoch_of_stream(2);
  point.mutable_producer()->set_epochs_of_stream(1 << 20);
  job.Fold(point);
  EXPECT_EQ(job.stream_share()->rows, uint64_t{1} << 62);
}

TEST(JobProgress, HasNoShareOfAPipe) {
  JobProgress job;
  job.Fold(ProducerAt(1'000, 500, 0, 1'000));
  EXPECT_FALSE(job.stream_share());
  EXPECT_FALSE(job.seconds_left());
}

TEST(JobProgress, CountsRowsThatAreOnlyTestedAsLearntFrom) {
  // After --freeze-after the trained rows stand still, the tested ones go on.
  MetricPoint point = ServerAt(1'000, 10);
  point.mutable_server()->set_rows_trained(1'000);
  JobProgress job;
  job.Fold(point);
  EXPECT_EQ(job.rows_tested(), 4'000u);
}

TEST(JobProgress, LooksAtTheStreamAloneOnTheSlidingBuffer) {
  JobProgress job;
  job.Fold(ProducerAt(1'000, 1'000, 2'000, 1'000));
  MetricPoint point = ServerAt(1'000, 1);
  point.mutable_server()->mutable_training()->set_schedule(Training::BUFFER);
  job.Fold(point);
  EXPECT_DOUBLE_EQ(job.stream_share()->learnt, 0.5) << "rows may be replaced unseen";
}

TEST(JobProgress, TellsTheTimeLeftByTheRowsStillToBeLearntFrom) {
  JobProgress job;
  job.Fold(ProducerAt(0, 10, 10, 8'000, true));
  for (int i = 0; i <= 10; ++i) job.Fold(ServerAt(1'000 * i, i));  // 400 rows a second
  EXPECT_DOUBLE_EQ(*job.seconds_left(), 10);
}

TEST(JobProgress, AnOutageChangesTheTimeLeftByNothing) {
  JobProgress job;
  job.Fold(ProducerAt(0, 10, 10, 400'000, true));
  for (int i = 0; i <= 40; ++i) job.Fold(ServerAt(250 * i, i));  // 1,600 rows a second
  EXPECT_DOUBLE_EQ(*job.seconds_left(), 240);
  job.Fold(ServerAt(70'000, 40));  // the server was away for a minute
  EXPECT_FALSE(job.seconds_left());
  EXPECT_FALSE(job.recent_rows_per_second());
  for (int i = 0; i < 40; ++i) {
    job.Fold(ServerAt(70'250 + 250 * i, 41 + i));
    if (i < 4) {
      EXPECT_FALSE(job.seconds_left()) << i;
    } else {
      EXPECT_DOUBLE_EQ(*job.seconds_left(), (400'000 - 400 * (41 + i)) / 1'600.0) << i;
      EXPECT_DOUBLE_EQ(*job.recent_rows_per_second(), 1'600) << i;
    }
  }
}

TEST(JobProgress, OneShardThatIsAwayIsAnOutageOfAll) {
  const auto of_shard = [](uint32_t shard, MetricPoint point) {
    point.mutable_server()->set_shard(shard);
    point.mutable_server()->set_shards(2);
    return point;
  };
  JobProgress job;
  for (int i = 0; i <= 40; ++i) {
    job.Fold(of_shard(0, ServerAt(250 * i, i)));
    job.Fold(of_shard(1, ServerAt(250 * i + 10, i)));
  }
  EXPECT_NEAR(*job.recent_rows_per_second(), 1'600, 5);
  for (int i = 1; i <= 12; ++i) job.Fold(of_shard(0, ServerAt(10'000 + 250 * i, 40)));
  job.Fold(of_shard(1, ServerAt(13'100, 40)));
  EXPECT_FALSE(job.recent_rows_per_second());
  for (int i = 1; i <= 5; ++i) job.Fold(of_shard(0, ServerAt(13'100 + 250 * i, 40 + i)));
  EXPECT_DOUBLE_EQ(*job.recent_rows_per_second(), 1'600);
}

TEST(JobProgress, OnSlidingBuffersTheTimeLeftIsByThePresentSpeedOfTheStream) {
  JobProgress job;
  MetricPoint server = ServerAt(0, 1);
  server.mutable_server()->mutable_training()->set_schedule(Training::BUFFER);
  job.Fold(server);
  for (int i = 0; i <= 20; ++i) {
    job.Fold(ProducerAt(500 * i, 100 * i, 10'000, 100 * i));  // 200 rows a second
  }
  EXPECT_DOUBLE_EQ(*job.seconds_left(), 40);
  server.set_timestamp_ms(600'000);
  server.mutable_server()->set_rounds(2);
  job.Fold(server);
  job.Fold(ProducerAt(600'000, 2'100, 10'000, 2'100));  // the broker was away
  EXPECT_FALSE(job.seconds_left());
  for (int i = 1; i <= 4; ++i) {
    job.Fold(ProducerAt(600'000 + 500 * i, 2'100 + 100 * i, 10'000, 2'100 + 100 * i));
  }
  EXPECT_NEAR(*job.seconds_left(), 37.5, 0.1);
}

TEST(JobProgress, IsCompleteWhenTheLastEvaluationAndTheProducersEndHaveCome) {
  JobProgress job;
  job.Fold(ProducerAt(0, 5, 10, 4'000));
  job.Fold(EvaluationAt(900, 5));
  job.Fold(EndedAt(1'000, 10));
  EXPECT_TRUE(job.ended());
  EXPECT_FALSE(job.complete());
  job.Fold(EvaluationAt(1'001, 10, true));
  EXPECT_FALSE(job.complete());
  job.Fold(ProducerAt(1'002, 10, 10, 4'000, true));
  EXPECT_TRUE(job.complete());
}

TEST(JobProgress, IsCompleteWithoutEvaluationsAndProducer) {
  JobProgress job;
  job.Fold(EndedAt(1'000, 10));
  EXPECT_TRUE(job.complete());
}

TEST(JobProgress, StaysEndedWhenTheServerStays) {
  JobProgress job;
  job.Fold(ServerAt(0, 0));
  job.Fold(EndedAt(1'000, 10));
  job.Fold(ServerAt(9'000, 10));
  EXPECT_TRUE(job.ended());
  EXPECT_DOUBLE_EQ(*job.duration_seconds(), 1);
}

TEST(JobProgress, FindsTheRowsOfAnEvaluationByItsClock) {
  JobProgress job;
  job.Fold(ServerAt(1'000, 10));
  job.Fold(EvaluationAt(1'100, 15));
  EXPECT_TRUE(job.curve(Kind::kHoldout).empty()) << "what its rows were is not known yet";
  EXPECT_TRUE(job.holdout()) << "but its figures can be shown";
  job.Fold(ServerAt(1'250, 20));
  ASSERT_EQ(job.curve(Kind::kHoldout).points().size(), 1u);
  EXPECT_EQ(job.curve(Kind::kHoldout).points()[0].rows_tested, 6'000u);
  EXPECT_EQ(job.curve(Kind::kHoldout).points()[0].timestamp_ms, 1'100);
}

TEST(JobProgress, KnowsThatTheModelOfClockZeroHasSeenNothing) {
  JobProgress job;
  job.Fold(EvaluationAt(900, 0));
  job.Fold(ServerAt(1'000, 10));
  ASSERT_TRUE(job.curve(Kind::kHoldout).empty()) << "it would flatten the curve";
  EXPECT_EQ(job.TakeCurvePoints().front().rows_tested, 0u);
}

TEST(JobProgress, GivesTheLastEvaluationTheLastRowsKnownWhenItFinishes) {
  JobProgress job;
  job.Fold(ServerAt(1'000, 10));
  job.Fold(EvaluationAt(1'100, 15, true));
  job.Finish();
  ASSERT_EQ(job.curve(Kind::kHoldout).points().size(), 1u);
  EXPECT_EQ(job.curve(Kind::kHoldout).points()[0].rows_tested, 4'000u);
}

TEST(JobProgress, HandsOutEachCurvePointOnce) {
  JobProgress job;
  job.Fold(ServerAt(1'000, 0));
  EXPECT_TRUE(job.TakeCurvePoints().empty()) << "there are no figures yet";
  MetricPoint point = ServerAt(1'250, 10);
  *point.mutable_server()->mutable_tail() = MakeFigures(100, 0.7, 0.6);
  job.Fold(point);
  job.Fold(EvaluationAt(1'300, 10));
  const std::vector<CurvePoint> points = job.TakeCurvePoints();
  ASSERT_EQ(points.size(), 3u);
  EXPECT_EQ(points[0].kind, Kind::kProgressive);
  EXPECT_EQ(points[1].kind, Kind::kTail);
  EXPECT_EQ(points[2].kind, Kind::kHoldout);
  EXPECT_TRUE(job.TakeCurvePoints().empty());
}

TEST(JobProgress, AWindowIsAPointOfItsCurveOnceWhereItEnded) {
  JobProgress job;
  job.Fold(ServerAt(1'000, 0));
  const auto with_window = [](int64_t timestamp_ms, uint64_t clock, uint64_t end) {
    MetricPoint point = ServerAt(timestamp_ms, clock);
    *point.mutable_server()->mutable_window() = MakeFigures(1'010, 0.8, 0.4);
    point.mutable_server()->set_window_end(end);
    return point;
  };
  job.Fold(ServerAt(1'250, 1));
  EXPECT_TRUE(job.curve(Kind::kWindow).empty()) << "none is full yet";
  job.Fold(with_window(2'000, 10, 3'900));
  job.Fold(with_window(2'600, 11, 3'900));
  job.Fold(with_window(3'200, 13, 5'100));
  const std::vector<CurvePoint>& points = job.curve(Kind::kWindow).points();
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0].rows_tested, 3'900u);
  EXPECT_EQ(points[0].figures.rows(), 1'010u);
  EXPECT_EQ(points[1].rows_tested, 5'100u);
  EXPECT_EQ(NameOf(points[1].kind), "window");
}

TEST(JobProgress, TakesProgressiveFiguresTwiceASecondAndAtTheEnd) {
  JobProgress job;
  for (int i = 0; i < 40; ++i) job.Fold(ServerAt(250 * i, 1 + i));
  EXPECT_EQ(job.TakeCurvePoints().size(), 20u);
  job.Fold(EndedAt(10'000 - 249, 41));
  const std::vector<CurvePoint> last = job.TakeCurvePoints();
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(last[0].rows_tested, 16'400u);
}

TEST(JobProgress, NamesHowAJobLearnsAsTheFlagsDo) {
  Training training;
  training.mutable_optimizer()->set_learning_rate(0.04);
  EXPECT_EQ(ConsistencyName(training), "sequential");
  EXPECT_EQ(ScheduleName(training), "one-pass");
  EXPECT_EQ(LearnerName(training), "adagrad 0.04");
  training.mutable_consistency()->set_model(Training::Consistency::BOUNDED);
  training.mutable_consistency()->set_max_delay(2);
  training.set_schedule(Training::BUFFER);
  training.mutable_update()->set_kind(Training::Update::WEIGHT_CHANGE);
  EXPECT_EQ(ConsistencyName(training), "bounded:2");
  EXPECT_EQ(ScheduleName(training), "buffer");
  EXPECT_EQ(LearnerName(training), "lbfgs, averaged");
  training.mutable_update()->set_kind(Training::Update::GRADIENT);
  training.set_model(Training::EXTERNAL);
  EXPECT_EQ(LearnerName(training), "external, adagrad 0.04");
}

TEST(JobProgress, OfRoundsThatTakeLongTheRateIsThatOfTheLastOnes) {
  JobProgress job;
  for (int quarter = 0; quarter <= 4 * 45; ++quarter) {
    job.Fold(ServerAt(250 * quarter, static_cast<uint64_t>(quarter / 40)));  // a round takes 10 s
    if (quarter < 40) continue;
    ASSERT_GT(*job.recent_rounds_per_second(), 0.05) << quarter;
    ASSERT_LT(*job.recent_rounds_per_second(), 0.3) << quarter;
  }
}

TEST(JobProgress, RemembersTheVersionsOfProcessesThatWereReplaced) {
  JobProgress job;
  for (const char* version : {"1", "2", "2"}) {
    MetricPoint point = ServerAt(1'000, 5);
    point.mutable_server()->mutable_setup()->set_version(version);
    job.Fold(point);
  }
  job.Fold(ProducerAt(1'000, 1, 1, 1));  // which does not say
  MetricPoint worker;
  worker.set_timestamp_ms(99'000);
  worker.mutable_worker()->mutable_setup()->set_version("3");
  job.Fold(worker);
  EXPECT_THAT(job.versions(),
              testing::ElementsAre(testing::Pair("ServerApp", testing::ElementsAre("1", "2")),
                                   testing::Pair("WorkerApp", testing::ElementsAre("3"))));
  EXPECT_EQ(job.last_timestamp_ms(), 1'000) << "a worker's start is no news of the job";
  for (int i = 0; i < 1'000; ++i) {
    MetricPoint point = ServerAt(1'000, 5);
    point.mutable_server()->mutable_setup()->set_version(std::to_string(i));
    job.Fold(point);
  }
  EXPECT_EQ(job.versions().at("ServerApp").size(), JobProgress::kMostVersions);
}

}  // namespace
}  // namespace millrace
