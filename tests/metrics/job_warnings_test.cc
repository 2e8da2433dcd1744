#include "metrics/job_warnings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "metrics/source_counts.h"
#include "tests/metrics/points.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<std::string> Kinds(const std::vector<JobWarning>& warnings) {
  std::vector<std::string> kinds;
  for (const JobWarning& warning : warnings) kinds.push_back(warning.kind);
  return kinds;
}

MetricPoint ProducerWith(uint64_t read, uint64_t rejected, bool ended) {
  MetricPoint point = ProducerAt(1'000, 100, 100, read - rejected, ended);
  point.mutable_producer()->set_rows_read(read);
  point.mutable_producer()->set_rows_rejected(rejected);
  return point;
}

std::vector<JobWarning> OfProducer(uint64_t read, uint64_t rejected, bool ended) {
  JobProgress job;
  job.Fold(ProducerWith(read, rejected, ended));
  return WarningsOf(job);
}

std::vector<JobWarning> OfSource(const SourceState& state, bool ended) {
  MetricPoint point = ProducerWith(10'000, 500, ended);
  AddSourceCounts(state, *point.mutable_producer());
  JobProgress job;
  job.Fold(point);
  return WarningsOf(job);
}

// 4 workers.
JobProgress JobOf(const Training& training, uint64_t rows_sent, const MetricPoint& last) {
  JobProgress job;
  job.Fold(ProducerWith(rows_sent, 0, true));
  MetricPoint point = last;
  *point.mutable_server()->mutable_training() = training;
  job.Fold(point);
  return job;
}

TEST(JobWarnings, ProgramsOfDifferentVersionsAreTold) {
  MetricPoint server = EndedAt(9'000, 250);
  server.mutable_server()->mutable_setup()->set_version("0.1.0 (aaa)");
  JobProgress job = JobOf(Training(), 100'000, server);
  MetricPoint worker;
  worker.mutable_worker()->mutable_setup()->set_version("0.1.0 (aaa)");
  job.Fold(worker);
  EXPECT_THAT(WarningsOf(job), IsEmpty());
  worker.mutable_worker()->mutable_setup()->set_version("0.1.0 (bbb)");
  job.Fold(worker);
  ASSERT_THAT(Kinds(WarningsOf(job)), ElementsAre("versions"));
  EXPECT_THAT(WarningsOf(job)[0].text,
              HasSubstr("ServerApp 0.1.0 (aaa); WorkerApp 0.1.0 (aaa), 0.1.0 (bbb)"));
}

TEST(JobWarnings, AJobInWhichAllIsWellHasNone) {
  EXPECT_THAT(WarningsOf(JobProgress()), IsEmpty());
  EXPECT_THAT(WarningsOf(JobOf(Training(), 100'000, EndedAt(9'000, 250))), IsEmpty());
}

TEST(JobWarnings, TellsTheShareOfRejectedRowsWhenItIsMoreThanOneInAHundred) {
  const std::vector<JobWarning> many = OfProducer(10'000, 121, true);
  ASSERT_THAT(Kinds(many), ElementsAre("rows_rejected"));
  EXPECT_EQ(many[0].text, "121 of 10,000 rows rejected (1.2 %)");
  EXPECT_THAT(many[0].remedy, HasSubstr("--reject-file"));
  EXPECT_EQ(OfProducer(10'000, 9'999, true)[0].text, "9,999 of 10,000 rows rejected (100 %)");

  const std::vector<JobWarning> few = OfProducer(10'000, 100, true);
  ASSERT_THAT(Kinds(few), ElementsAre("rows_rejected"));
  EXPECT_EQ(few[0].text, "100 rows rejected");
  EXPECT_THAT(few[0].remedy, IsEmpty());
  EXPECT_EQ(OfProducer(10'000, 1, true)[0].text, "1 row rejected");
}

TEST(JobWarnings, SaysWhereTheRejectedRecordsOfATopicAre) {
  const std::vector<JobWarning> warnings = OfSource(SourceState(), true);
  ASSERT_THAT(Kinds(warnings), ElementsAre("rows_rejected"));
  EXPECT_THAT(warnings[0].remedy, HasSubstr("the topic dead-letter has them"));
  EXPECT_THAT(warnings[0].remedy, Not(HasSubstr("--reject-file")));
}

TEST(JobWarnings, TellsOfRowsThatGotNoLabelFromAnotherTopic) {
  SourceState state;
  SourceState::Labels& labels = *state.mutable_labels();
  labels.set_matched(495);
  labels.set_unmatched(5);
  EXPECT_THAT(Kinds(OfSource(state, true)), ElementsAre("rows_rejected"));
  labels.set_unmatched(6);
  EXPECT_THAT(Kinds(OfSource(state, false)), ElementsAre("rows_rejected"));
  const std::vector<JobWarning> warnings = OfSource(state, true);
  ASSERT_THAT(Kinds(warnings), ElementsAre("rows_rejected", "rows_unlabelled"));
  EXPECT_EQ(warnings[1].text, "6 of 501 rows got no label from another topic (1.2 %)");
  EXPECT_THAT(warnings[1].remedy, HasSubstr("--join-window"));
  labels.set_matched(2'000);
  labels.set_unmatched(30);
  EXPECT_EQ(OfSource(state, false).size(), 2u);
  // With --unmatched-label it is what rows without a label are.
  labels.set_unmatched(0);
  labels.set_defaulted(5'000);
  EXPECT_EQ(OfSource(state, true).size(), 1u);
  labels.set_matched(0);
  EXPECT_EQ(OfSource(state, true).size(), 2u);
}

TEST(JobWarnings, TellsNoShareOfTheFirstFewRowsOfAStreamThatGoesOn) {
  EXPECT_THAT(OfProducer(999, 500, false)[0].remedy, IsEmpty());
  EXPECT_FALSE(OfProducer(1'000, 500, false)[0].remedy.empty());
  EXPECT_FALSE(OfProducer(999, 500, true)[0].remedy.empty());
}

TEST(JobWarnings, TellsWhatPartOfTheTestFileCannotBeUsed) {
  JobProgress job;
  MetricPoint point = EvaluationAt(1'000, 5);  // 1,000 rows
  point.mutable_evaluation()->set_rows_rejected(24);
  job.Fold(point);
  const std::vector<JobWarning> warnings = WarningsOf(job);
  ASSERT_THAT(Kinds(warnings), ElementsAre("test_rows_rejected"));
  EXPECT_EQ(warnings[0].text, "24 of 1,024 rows of the --test file cannot be used");
  EXPECT_THAT(warnings[0].remedy, HasSubstr("ServerApp's log"));
}

Training BufferTraining() {
  Training training;
  training.set_schedule(Training::BUFFER);
  return training;
}

TEST(JobWarnings, TellsWhatShareWasTrainedOnWhenMoreThanATenthWasReplacedInTheBuffers) {
  // 100 rounds have trained on 40,000 rows.
  EXPECT_THAT(WarningsOf(JobOf(BufferTraining(), 44'444, EndedAt(9'000, 100))), IsEmpty());
  EXPECT_THAT(Kinds(WarningsOf(JobOf(BufferTraining(), 44'445, EndedAt(9'000, 100)))),
              ElementsAre("rows_untrained"));
  const auto warnings = WarningsOf(JobOf(BufferTraining(), 78'000, EndedAt(9'000, 100)));
  ASSERT_THAT(Kinds(warnings), ElementsAre("rows_untrained", "few_steps"));
  EXPECT_EQ(warnings[0].text,
            "only 40,000 of 78,000 rows (51 %) were ever trained on: newer ones took their places "
            "in the sliding buffers");
  EXPECT_THAT(warnings[0].remedy, HasSubstr("--schedule one-pass"));

  Training frozen = BufferTraining();
  frozen.set_freeze_after_rows(44'000);
  EXPECT_THAT(WarningsOf(JobOf(frozen, 100'000, EndedAt(9'000, 100))), IsEmpty())
      << "the others are not to be trained on";
}

TEST(JobWarnings, OfAStreamThatGoesOnCountsOnlyRowsThatAreNoLongerInABuffer) {
  JobProgress job;
  job.Fold(ProducerWith(100'000, 0, false));
  MetricPoint point = ServerAt(2'000, 10);  // 4,000 rows trained on, 4 * 128 in buffers
  *point.mutable_server()->mutable_training() = BufferTraining();
  point.mutable_server()->set_rows_counted(4'444 + 512);
  job.Fold(point);
  EXPECT_THAT(WarningsOf(job), IsEmpty());
  point.set_timestamp_ms(3'000);
  point.mutable_server()->set_rows_counted(4'445 + 512);
  job.Fold(point);
  EXPECT_THAT(Kinds(WarningsOf(job)), ElementsAre("rows_untrained"));
}

TEST(JobWarnings, TellsThatAStreamIsTooShortForItsBatches) {
  Training training;
  training.set_batch_rows(100);  // 400 rows a round of 4 workers: 49 rounds, and 50
  EXPECT_THAT(WarningsOf(JobOf(training, 19'601, ServerAt(2'000, 1))), IsEmpty());
  const auto warnings = WarningsOf(JobOf(training, 19'600, ServerAt(2'000, 1)));
  ASSERT_THAT(Kinds(warnings), ElementsAre("few_steps"));
  EXPECT_EQ(warnings[0].text,
            "the stream gives only 49 optimizer steps: 19,600 rows, up to 400 in a step");
  EXPECT_THAT(warnings[0].remedy, HasSubstr("--batch-rows"));

  training.mutable_consistency()->set_model(Training::Consistency::EVENTUAL);
  EXPECT_THAT(WarningsOf(JobOf(training, 19'600, ServerAt(2'000, 1))), IsEmpty())
      << "each update is a step";
  EXPECT_THAT(Kinds(WarningsOf(JobOf(training, 4'900, ServerAt(2'000, 1)))),
              ElementsAre("few_steps"));
}

TEST(JobWarnings, OfRowByRowLearningTellsThatTheWorkersSeldomHearOfEachOther) {
  Training training;
  training.mutable_update()->set_kind(Training::Update::ONLINE);
  training.set_batch_rows(100);  // 400 rows a round of 4 workers: 49 rounds, and 50
  EXPECT_THAT(WarningsOf(JobOf(training, 19'601, ServerAt(2'000, 1))), IsEmpty());
  auto warnings = WarningsOf(JobOf(training, 19'600, ServerAt(2'000, 1)));
  ASSERT_THAT(Kinds(warnings), ElementsAre("few_rounds"));
  EXPECT_EQ(warnings[0].text,
            "the 4 workers share what they have learnt only 49 times: 19,600 rows, up to 400 in a "
            "round");
  training.set_batch_rows(1'000);
  warnings = WarningsOf(JobOf(training, 1'000, ServerAt(2'000, 1)));
  ASSERT_THAT(Kinds(warnings), ElementsAre("few_rounds"));
  EXPECT_THAT(warnings[0].text, HasSubstr("only 1 time: 1,000 rows, up to 4,000 in a round"));
  EXPECT_THAT(warnings[0].remedy, HasSubstr("--batch-rows"));

  training.mutable_consistency()->set_model(Training::Consistency::EVENTUAL);
  training.set_batch_rows(100);
  EXPECT_THAT(Kinds(WarningsOf(JobOf(training, 19'600, ServerAt(2'000, 1)))),
              ElementsAre("few_rounds"))
      << "each worker hears of the others when it has done a batch";
}

TEST(JobWarnings, OfRowByRowLearningOneWorkerMissesNothing) {
  Training training;
  training.mutable_update()->set_kind(Training::Update::ONLINE);
  training.set_batch_rows(1'000);
  const auto producer = ProducerWith(1'000, 0, true).producer();
  EXPECT_THAT(WarningsOf(producer, training, 1), IsEmpty());
  EXPECT_THAT(Kinds(WarningsOf(producer, training, 4)), ElementsAre("few_rounds"));
}

TEST(JobWarnings, OfRowByRowLearningBatchesThatBeginWithOneRowCannotBeSmaller) {
  Training training;
  training.mutable_update()->set_kind(Training::Update::ONLINE);
  EXPECT_THAT(WarningsOf(JobOf(training, 100, ServerAt(2'000, 1))), IsEmpty());
  training.set_batch_rows(1);
  EXPECT_THAT(WarningsOf(JobOf(training, 100, ServerAt(2'000, 1))), IsEmpty());
  training.set_batch_rows(2);
  EXPECT_THAT(Kinds(WarningsOf(JobOf(training, 100, ServerAt(2'000, 1)))),
              ElementsAre("few_rounds"));
}

TEST(JobWarnings, OfWeightChangesTellsThatMostRowsAreTestedByHardlyAnyModel) {
  Training training;
  training.mutable_update()->set_kind(Training::Update::WEIGHT_CHANGE);
  training.set_batch_rows(100);  // 4 rounds, and 5
  EXPECT_THAT(WarningsOf(JobOf(training, 1'601, ServerAt(2'000, 1))), IsEmpty());
  auto warnings = WarningsOf(JobOf(training, 1'600, ServerAt(2'000, 1)));
  ASSERT_THAT(Kinds(warnings), ElementsAre("few_rounds"));
  EXPECT_THAT(warnings[0].text,
              HasSubstr("averaged only 4 times: 1,600 rows, up to 400 in a round; the first round "
                        "is tested by weights that have learnt nothing"));
  EXPECT_THAT(warnings[0].remedy, HasSubstr("--test"));
  const auto producer = ProducerWith(400, 0, true).producer();
  EXPECT_THAT(Kinds(WarningsOf(producer, training, 1)), ElementsAre("few_rounds"));
  EXPECT_THAT(WarningsOf(ProducerWith(0, 0, true).producer(), training, 1), IsEmpty());
}

TEST(JobWarnings, OfBatchesThatGrowThereAreMoreSteps) {
  Training training;  // up to 32 rows: without growth 49 rounds of 4 workers
  EXPECT_THAT(Kinds(WarningsOf(JobOf(training, 6'272, ServerAt(2'000, 1)))),
              ElementsAre("few_steps"));
  training.set_first_batch_rows(8);
  EXPECT_THAT(WarningsOf(JobOf(training, 6'272, ServerAt(2'000, 1))), IsEmpty());
  // 36 rounds of 8 rows of each worker, and from the 288th row on of 9, 9, 9, 9, 10 ...
  const auto warnings = WarningsOf(JobOf(training, 4 * (288 + 4 * 9), ServerAt(2'000, 1)));
  ASSERT_THAT(Kinds(warnings), ElementsAre("few_steps"));
  EXPECT_EQ(warnings[0].text,
            "the stream gives only 40 optimizer steps: 1,296 rows, up to 128 in a step");
}

TEST(JobWarnings, OfBatchesThatGrowBeyond64RowsTheStepsAreThoseOfSlowerGrowth) {
  Training training;
  training.set_batch_rows(200);
  training.set_first_batch_rows(64);
  const auto warnings = WarningsOf(JobOf(training, 4 * 49 * 64, ServerAt(2'000, 1)));
  ASSERT_THAT(Kinds(warnings), ElementsAre("few_steps"));
  EXPECT_EQ(warnings[0].text,
            "the stream gives only 49 optimizer steps: 12,544 rows, up to 800 in a step");
}

TEST(JobWarnings, OfFrozenRowsThereAreNoSteps) {
  Training training;
  training.set_batch_rows(100);
  training.set_freeze_after_rows(4'000);
  EXPECT_THAT(Kinds(WarningsOf(JobOf(training, 40'000, ServerAt(2'000, 1)))),
              ElementsAre("few_steps"));
}

TEST(JobWarnings, OfAJobOnBuffersTheStepsAreCountedAtItsEnd) {
  EXPECT_THAT(WarningsOf(JobOf(BufferTraining(), 16'000, ServerAt(2'000, 40))), IsEmpty());
  const auto warnings = WarningsOf(JobOf(BufferTraining(), 16'000, EndedAt(2'000, 49)));
  ASSERT_THAT(Kinds(warnings), ElementsAre("few_steps"));
  EXPECT_EQ(warnings[0].text, "only 49 optimizer steps were made");
  EXPECT_THAT(WarningsOf(JobOf(BufferTraining(), 16'000, EndedAt(2'000, 50))), IsEmpty());
}

TEST(JobWarnings, OfAJobOnBuffersTheStepsAreHeldAgainstThoseOfOnePass) {
  // One pass has 128 rows in a step, so 200 steps and 201.
  const auto job = [](uint64_t rows) {
    MetricPoint ended = EndedAt(2'000, 50);
    ended.mutable_server()->set_rows_trained(rows);
    return JobOf(BufferTraining(), rows, ended);
  };
  EXPECT_THAT(WarningsOf(job(25'700)), IsEmpty());
  const auto warnings = WarningsOf(job(25'728));
  ASSERT_THAT(Kinds(warnings), ElementsAre("few_steps"));
  EXPECT_EQ(warnings[0].text,
            "only 50 optimizer steps were made: of the 25,728 rows that came one pass makes 201");
  EXPECT_THAT(warnings[0].remedy, HasSubstr("--schedule one-pass"));
}

TEST(JobWarnings, OfRowByRowLearningOnBuffersTellsAtTheEndThatTheWorkersSeldomHeardOfEachOther) {
  Training training = BufferTraining();
  training.mutable_update()->set_kind(Training::Update::ONLINE);
  EXPECT_THAT(WarningsOf(JobOf(training, 16'000, ServerAt(2'000, 40))), IsEmpty());
  EXPECT_THAT(WarningsOf(JobOf(training, 16'000, EndedAt(2'000, 50))), IsEmpty());
  const auto warnings = WarningsOf(JobOf(training, 16'000, EndedAt(2'000, 49)));
  ASSERT_THAT(Kinds(warnings), ElementsAre("few_rounds"));
  EXPECT_EQ(warnings[0].text, "the 4 workers shared what they had learnt only 49 times");
  EXPECT_THAT(warnings[0].remedy, HasSubstr("--batch-rows"));
  // Each worker hears of the others at each of its own updates.
  training.mutable_consistency()->set_model(Training::Consistency::EVENTUAL);
  MetricPoint eventual = EndedAt(2'000, 49);
  eventual.mutable_server()->set_shards(1);
  EXPECT_THAT(Kinds(WarningsOf(JobOf(training, 16'000, eventual))), ElementsAre("few_rounds"));
  training.set_batch_rows(1);
  EXPECT_THAT(WarningsOf(JobOf(training, 16'000, EndedAt(2'000, 49))), IsEmpty());
  training.set_batch_rows(32);
  MetricPoint alone = EndedAt(2'000, 49);
  alone.mutable_server()->mutable_workers()->DeleteSubrange(1, 3);
  EXPECT_THAT(WarningsOf(JobOf(training, 16'000, alone)), IsEmpty());
}

TEST(JobWarnings, OfWeightChangesOnBuffersTellsAtTheEndThatThereWereFewAverages) {
  Training training = BufferTraining();
  training.mutable_update()->set_kind(Training::Update::WEIGHT_CHANGE);
  EXPECT_THAT(WarningsOf(JobOf(training, 1'600, EndedAt(2'000, 5))), IsEmpty());
  const auto warnings = WarningsOf(JobOf(training, 1'600, EndedAt(2'000, 4)));
  ASSERT_THAT(Kinds(warnings), ElementsAre("few_rounds"));
  EXPECT_EQ(warnings[0].text, "the workers' weights were averaged only 4 times");
}

TEST(JobWarnings, WhatMakesTheModelUselessComesBeforeCountsOfEvents) {
  MetricPoint point = EndedAt(2'000, 3);
  MetricPoint::ServerProgress& server = *point.mutable_server();
  server.set_undecodable_rows(1);
  server.set_non_finite_updates(2);
  server.set_refused(3);
  server.set_aborted_checkpoints(4);
  server.set_duplicates_ignored(5);
  server.set_time_jumps(6);
  JobProgress job = JobOf(BufferTraining(), 16'000, point);
  MetricPoint evaluation = EvaluationAt(2'000, 3, true);
  evaluation.mutable_evaluation()->set_rows_rejected(1);
  job.Fold(evaluation);
  job.Fold(ProducerWith(16'000, 1'000, true));
  EXPECT_THAT(Kinds(WarningsOf(job)),
              ElementsAre("rows_rejected", "test_rows_rejected", "rows_untrained", "few_steps",
                          "undecodable_rows", "non_finite_updates", "refused",
                          "aborted_checkpoints", "duplicates_ignored", "time_jumps"));
}

TEST(JobWarnings, CsvProducerGivesThoseItCanKnow) {
  Training training;
  training.set_batch_rows(100);
  const auto producer = ProducerWith(10'000, 400, true).producer();
  EXPECT_THAT(Kinds(WarningsOf(producer, std::nullopt, 4)), ElementsAre("rows_rejected"));
  EXPECT_THAT(Kinds(WarningsOf(producer, training, 4)), ElementsAre("rows_rejected", "few_steps"));
  EXPECT_THAT(Kinds(WarningsOf(producer, training, 1)), ElementsAre("rows_rejected"));
}

TEST(JobWarnings, AsTextARemedyFollows) {
  EXPECT_EQ(ToText({"kind", "3 things", "do this"}), "3 things: do this");
  EXPECT_EQ(ToText({"kind", "3 things", ""}), "3 things");
}

}  // namespace
}  // namespace millrace
