#include "watch/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "metrics/source_counts.h"
#include "tests/metrics/points.h"
#include "tests/watch/summary_text.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

JobProgress FinishedJob() {
  JobProgress job;
  job.Fold(ServerAt(1'000, 0));
  job.Fold(ProducerAt(1'100, 100, 100, 4'000, true));
  job.Fold(ServerAt(1'250, 5));
  job.Fold(EvaluationAt(2'900, 10, true));
  MetricPoint end = EndedAt(3'000, 10);
  end.mutable_server()->set_duplicates_ignored(3);
  *end.mutable_server()->mutable_tail() = MakeFigures(800, 0.7, 0.6);
  job.Fold(end);
  return job;
}

JobProgress JobOfGroups() {
  JobProgress job;
  for (uint32_t group = 0; group < 3; ++group) {
    MetricPoint point = ServerAt(1'000, 1'000 + group);
    MetricPoint::ServerProgress& server = *point.mutable_server();
    server.set_shard(group);
    server.set_shards(3);
    server.set_groups(3);
    server.set_group(group);
    server.set_deltas_taken(group == 0 ? 2'005 : 0);
    server.set_exchanges(group == 0 ? 0 : 1'000 + group);
    job.Fold(point);
    server.set_updates(server.updates() + 7);
    job.Fold(point);
  }
  return job;
}

TEST(Summary, HasTheExchangesOfEachGroupOfServers) {
  const Json json = Json::parse(SummaryJson(JobOfGroups(), "job", "localhost:9092"));
  ASSERT_EQ(json["server_groups"].size(), 3u);
  EXPECT_EQ(json["server_groups"][0],
            Json::parse(R"({"group": 0, "rounds": 1000, "exchanges": null, "unshared_updates": null,
                            "deltas_taken": 2005})"));
  EXPECT_EQ(json["server_groups"][2],
            Json::parse(R"({"group": 2, "rounds": 1002, "exchanges": 1002, "unshared_updates": 7,
                            "deltas_taken": 0})"));
  EXPECT_THAT(
      Text(SummaryTable(JobOfGroups(), TableOf("job", 80))),
      AllOf(HasSubstr("groups           group 0: 1,000 rounds, 2,005 deltas of others taken"),
            HasSubstr("group 1: 1,001 rounds, 1,001 exchanges, 7 updates since")));
  const Json of_one = Json::parse(SummaryJson(FinishedJob(), "job", "localhost:9092"));
  EXPECT_FALSE(of_one.contains("server_groups"));
  EXPECT_THAT(Text(SummaryTable(FinishedJob(), TableOf("job", 80))), Not(HasSubstr("group 0")));
}

TEST(SummaryJson, HasWhatProgramsAskFor) {
  const Json json = Json::parse(SummaryJson(FinishedJob(), "flights-1", "localhost:9092"));
  EXPECT_EQ(json["job"], "flights-1");
  EXPECT_EQ(json["ended"], true);
  EXPECT_EQ(json["rows_read"], 4'001);
  EXPECT_EQ(json["rows_rejected"], 1);
  EXPECT_EQ(json["rows_trained"], 4'000);
  EXPECT_EQ(json["rounds"], 10);
  EXPECT_EQ(json["rounds_per_second"], 5.0);
  EXPECT_EQ(json["duration_seconds"], 2.0);
  EXPECT_EQ(json["rows_per_second"], 2'000.0);
  EXPECT_EQ(json["consistency"], "sequential");
  EXPECT_EQ(json["schedule"], "one-pass");
  EXPECT_EQ(json["workers"], 4);
  EXPECT_EQ(json["staleness_max"], 0);
  EXPECT_EQ(json["duplicates_ignored"], 3);
  for (const char* name : {"non_finite_updates", "refused", "undecodable_rows"})
    EXPECT_EQ(json[name], 0);
  for (const char* part : {"holdout", "progressive", "tail"}) {
    ASSERT_TRUE(json.contains(part)) << part;
    for (const char* name : {"rows", "accuracy", "f1_macro", "f1_weighted", "log_loss", "auc",
                             "prior_accuracy", "prior_log_loss"}) {
      EXPECT_TRUE(json[part].contains(name)) << part << "." << name;
    }
  }
  EXPECT_EQ(json["tail"]["rows"], 800);
  EXPECT_EQ(json["holdout"]["accuracy"], 0.79);
}

TEST(Summary, HasWhatASourceOfATopicHasCounted) {
  EXPECT_TRUE(Json::parse(SummaryJson(FinishedJob(), "job", "localhost:9092"))["source"].is_null());
  JobProgress job = FinishedJob();
  SourceState state;
  state.set_topic("departures");
  state.set_rows(4'000);
  state.set_lost(2);
  MetricPoint point = ProducerAt(1'100, 100, 100, 4'000, true);
  point.mutable_producer()->mutable_setup()->set_version("1.0");
  AddSourceCounts(state, *point.mutable_producer());
  job.Fold(point);
  Json json = Json::parse(SummaryJson(job, "job", "localhost:9092"));
  EXPECT_EQ(json["source"], Json({{"topic", "departures"},
                                  {"rows", 4'000},
                                  {"dead_letters", 0},
                                  {"tombstones", 0},
                                  {"lost", 2},
                                  {"labels", nullptr}}));
  EXPECT_TRUE(json["versions"].contains("TopicSource"));
  EXPECT_THAT(Text(SummaryTable(job, TableOf("job", 100))), Not(HasSubstr("have a label")));

  state.mutable_labels()->set_topic("verdicts");
  state.mutable_labels()->set_matched(3'990);
  state.mutable_labels()->set_unused(7);
  AddSourceCounts(state, *point.mutable_producer());
  job.Fold(point);
  json = Json::parse(SummaryJson(job, "job", "localhost:9092"));
  EXPECT_EQ(json["source"]["labels"]["topic"], "verdicts");
  EXPECT_EQ(json["source"]["labels"]["matched"], 3'990);
  EXPECT_EQ(json["source"]["labels"]["unused"], 7);
  EXPECT_THAT(Text(SummaryTable(job, TableOf("job", 100))),
              HasSubstr("labels           3,990 rows have a label; 7 labels were of no row"));
}

TEST(Summary, WarnsInBothFormsInTheSameOrder) {
  JobProgress job = FinishedJob();
  MetricPoint evaluation = EvaluationAt(3'100, 10, true);
  evaluation.mutable_evaluation()->set_rows_rejected(7);
  job.Fold(evaluation);
  const Json json = Json::parse(SummaryJson(job, "job", "localhost:9092"));
  ASSERT_EQ(json["warnings"].size(), 4u);
  EXPECT_EQ(json["warnings"][0]["kind"], "rows_rejected");
  EXPECT_EQ(json["warnings"][1]["kind"], "test_rows_rejected");
  EXPECT_EQ(json["warnings"][1]["text"], "7 of 1,007 rows of the --test file cannot be used");
  EXPECT_NE(json["warnings"][1]["remedy"], "");
  EXPECT_EQ(json["warnings"][2]["kind"], "few_steps");
  EXPECT_EQ(json["warnings"][3]["kind"], "duplicates_ignored");
  const std::string text = Text(SummaryTable(job, TableOf("job", 100)));
  EXPECT_THAT(text, HasSubstr("  warnings         1 row rejected\n"
                              "                   7 of 1,007 rows of the --test file cannot be "));
  EXPECT_EQ(Json::parse(StatusJson(job, "job", JobState(), false))["warnings"], json["warnings"]);
}

// Two servers of unlike versions, of which shard 0 has the settings, and a producer with its own.
JobProgress JobWithSetup() {
  JobProgress job;
  MetricPoint producer = ProducerAt(1'100, 100, 100, 4'000, true);
  MetricPoint::Setup& streamed = *producer.mutable_producer()->mutable_setup();
  streamed.set_version("0.1.0 (aaa)");
  auto& rate = *streamed.add_setting();
  rate.set_flag("--rate");
  rate.set_value("500");
  job.Fold(producer);
  MetricPoint point = EndedAt(1'764'134'230'000, 10);
  MetricPoint::ServerProgress& server = *point.mutable_server();
  server.set_shards(2);
  server.mutable_training()->mutable_embedding()->set_seed(7);
  MetricPoint::Setup& setup = *server.mutable_setup();
  setup.set_version("0.1.0 (aaa)");
  setup.set_job_started_ms(1'764'134'152'000);
  setup.set_feature_count(4'098);
  setup.set_class_count(2);
  auto& model = *setup.add_setting();
  model.set_flag("--model");
  model.set_value("fm");
  setup.add_setting()->set_flag("--skip-rows");
  MetricPoint other = point;
  other.mutable_server()->set_shard(1);
  other.mutable_server()->mutable_setup()->Clear();
  other.mutable_server()->mutable_setup()->set_version("0.1.0 (bbb)");
  job.Fold(other);
  job.Fold(point);
  return job;
}

TEST(SummaryJson, TellsTheRunFromOthers) {
  const JobProgress job = JobWithSetup();
  const Json json = Json::parse(SummaryJson(job, "j", "localhost:9092"));
  // By `date -u -d @1764134152`.
  EXPECT_EQ(json["started_at"], "2025-11-26T05:15:52Z");
  EXPECT_EQ(json["ended_at"], "2025-11-26T05:17:10Z");
  const char* const versions =
      R"json({"CsvProducer": ["0.1.0 (aaa)"], "ServerApp": ["0.1.0 (aaa)", "0.1.0 (bbb)"]})json";
  EXPECT_EQ(json["versions"], Json::parse(versions));
  EXPECT_EQ(json["shards"], 2);
  EXPECT_EQ(json["seed"], 7);
  EXPECT_EQ(json["feature_count"], 4'098);
  EXPECT_EQ(json["class_count"], 2);
  const char* const settings = R"({"--model": "fm", "--skip-rows": true, "--rate": "500"})";
  EXPECT_EQ(json["settings"], Json::parse(settings));
  const std::string text = Text(SummaryTable(job, TableOf("j", 80)));
  EXPECT_THAT(text, HasSubstr("began 2025-11-26T05:15:52Z, ended 2025-11-26T05:17:10Z\n"));
  EXPECT_THAT(text, HasSubstr("version          0.1.0 (aaa), 0.1.0 (bbb)\n"));
}

TEST(SummaryJson, HasNullForWhatDoesNotTellTheRun) {
  JobProgress job;
  job.Fold(ServerAt(1'000, 5));
  const Json json = Json::parse(StatusJson(job, "j", {}, false));
  for (const char* name : {"started_at", "ended_at", "feature_count", "class_count", "settings"}) {
    ASSERT_TRUE(json.contains(name)) << name;
    EXPECT_TRUE(json[name].is_null()) << name;
  }
  EXPECT_EQ(json["seed"], 1);
  EXPECT_TRUE(json["versions"].empty());
  EXPECT_THAT(Text(SummaryTable(job, TableOf("j", 80))), Not(HasSubstr("began")));
}

JobProgress RecoveredJob() {
  JobProgress job;
  MetricPoint point = ServerAt(1'000, 5);
  point.mutable_server()->set_shard(1);
  auto& recovery = *point.mutable_server()->mutable_recovery();
  recovery.set_source("replica of b:9000");
  recovery.set_total_s(0.84);
  recovery.set_down_ms(3'240);
  recovery.set_restored_bytes(1 << 20);
  recovery.set_restore_s(0.41);
  recovery.set_parameters_records(1'412);
  recovery.set_parameters_bytes(70'000);
  recovery.set_parameters_s(0.12);
  recovery.set_gradients_records(512);
  recovery.set_gradients_s(0.3);
  job.Fold(ServerAt(1'000, 5));
  job.Fold(point);
  return job;
}

TEST(StatusJson, HasTheStateAndEachProgramsAge) {
  JobProgress job;
  job.Fold(ProducerAt(0, 600, 1'000, 24'000));
  for (int i = 0; i <= 10; ++i) job.Fold(ServerAt(1'000 * i, i));
  JobState state;
  state.kind = JobState::Kind::kRunning;
  state.programs = {{"CsvProducer", 0.25, false}, {"worker 0", 2, true}};
  const std::string text = StatusJson(job, "j", state, false);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << "a line";
  Json json = Json::parse(text);
  EXPECT_EQ(json["state"], "running");
  EXPECT_EQ(json["reason"], "");
  EXPECT_EQ(json["rows_per_second_now"], 400.0);
  EXPECT_GT(json["seconds_left"], 0.0);
  EXPECT_EQ(json["programs"][0]["name"], "CsvProducer");
  EXPECT_EQ(json["programs"][0]["seconds"], 0.25);
  EXPECT_EQ(json["programs"][1]["ended"], true);
  EXPECT_EQ(json["programs"][1]["last_update_s_ago"], 2.0) << "as a server has last seen it";
  EXPECT_FALSE(json["programs"][1].contains("seconds"));
  EXPECT_EQ(json["rounds"], 10) << "and all of the summary";
  state.kind = JobState::Kind::kStalled;
  json = Json::parse(StatusJson(job, "j", state, true));
  EXPECT_EQ(json["rows_per_second_now"], 0);
  EXPECT_TRUE(json["seconds_left"].is_null());
}

TEST(StatusJson, HasEachWorkersClockAndBuffer) {
  JobProgress job;
  EXPECT_TRUE(Json::parse(StatusJson(job, "j", {}, false))["logical_workers"].empty());
  MetricPoint point = ServerAt(1'000, 5);
  auto& workers = *point.mutable_server()->mutable_workers();
  workers.Clear();
  for (uint32_t id = 0; id < 2; ++id) {
    WorkerProgress& worker = *workers.Add();
    worker.set_worker(id);
    worker.set_clock(5 + 3 * id);
    worker.set_buffer_rows(128 + id);
    worker.set_left(id == 1);
  }
  job.Fold(point);
  const Json found = Json::parse(StatusJson(job, "j", {}, false))["logical_workers"];
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0]["worker"], 0);
  EXPECT_EQ(found[0]["clock"], 5);
  EXPECT_EQ(found[0]["left"], false);
  EXPECT_EQ(found[1]["clock"], 8);
  EXPECT_EQ(found[1]["buffer_rows"], 129);
  EXPECT_EQ(found[1]["left"], true);
}

TEST(SummaryJson, SaysHowShardsCameBack) {
  const Json json = Json::parse(SummaryJson(RecoveredJob(), "job", "localhost:9092"));
  ASSERT_EQ(json["recoveries"].size(), 1u) << "shard 0 started empty";
  const Json& recovery = json["recoveries"][0];
  EXPECT_EQ(recovery["shard"], 1);
  EXPECT_EQ(recovery["seconds"], 0.84);
  EXPECT_EQ(recovery["down_seconds"], 3.24);
  EXPECT_EQ(recovery["source"], "replica of b:9000");
  EXPECT_EQ(recovery["restored_bytes"], 1 << 20);
  EXPECT_EQ(recovery["restore_seconds"], 0.41);
  EXPECT_EQ(recovery["parameters_records"], 1'412);
  EXPECT_EQ(recovery["parameters_bytes"], 70'000);
  EXPECT_EQ(recovery["parameters_seconds"], 0.12);
  EXPECT_EQ(recovery["gradients_records"], 512);
  EXPECT_EQ(recovery["gradients_seconds"], 0.3);
  EXPECT_FALSE(
      Json::parse(SummaryJson(FinishedJob(), "job", "localhost:9092")).contains("recoveries"));
}

TEST(SummaryTable, SaysHowShardsCameBackPhaseByPhase) {
  const std::string text = Text(SummaryTable(RecoveredJob(), TableOf("job", 80)));
  EXPECT_THAT(text, AllOf(HasSubstr("shard 1 in 0.84 s after 3.2 s: replica of b:9000\n"),
                          HasSubstr("copy 0.41 s, 1,412 records 0.12 s, 512 gradients 0.30 s\n")));
}

TEST(SummaryJson, LeavesOutWhatThereIsNot) {
  JobProgress job;
  MetricPoint point = ServerAt(1'000, 5);
  point.mutable_server()->mutable_progressive()->set_has_auc(false);
  job.Fold(point);
  const Json json = Json::parse(SummaryJson(job, "digits", "localhost:9092"));
  EXPECT_EQ(json["ended"], false);
  EXPECT_FALSE(json.contains("holdout"));
  EXPECT_FALSE(json.contains("tail"));
  EXPECT_FALSE(json["progressive"].contains("auc"));
}

TEST(Summary, TellsNoSettingsOfAServerThatNobodyHasHeardOf) {
  JobProgress job;
  job.Fold(ProducerAt(500, 600, 1'000, 24'000));
  const Json json = Json::parse(SummaryJson(job, "flights-1", "localhost:9092"));
  for (const char* name : {"consistency", "schedule", "learner"}) {
    EXPECT_TRUE(json.at(name).is_null()) << name;
  }
  const std::string table = Text(SummaryTable(job, TableOf("flights-1", 80)));
  EXPECT_THAT(table, AllOf(HasSubstr("24,001 read"), HasSubstr("no ServerApp has been heard from"),
                           Not(HasSubstr("sequential"))));
}

TEST(SummaryJson, IsJsonBeforeAnythingHasHappenedAndWithoutNumbers) {
  Json nothing = Json::parse(SummaryJson(JobProgress(), "x", "localhost:9092"));
  EXPECT_EQ(nothing["job"], "x");
  EXPECT_EQ(nothing["ended"], false);
  EXPECT_EQ(nothing["reason"], "nothing was received from Kafka at localhost:9092");
  for (const char* name : {"rounds", "rows_read", "rows_trained", "duration_seconds"}) {
    EXPECT_TRUE(nothing.at(name).is_null()) << name;
  }
  JobProgress job;
  MetricPoint point = ServerAt(1'000, 5);
  point.mutable_server()->mutable_progressive()->set_log_loss(INFINITY);
  job.Fold(point);
  EXPECT_TRUE(
      Json::parse(SummaryJson(job, "x", "localhost:9092"))["progressive"]["log_loss"].is_null());
}

TEST(SummaryTable, SaysThatProgressiveFiguresAreOfTheFirstPass) {
  JobProgress job = FinishedJob();
  EXPECT_THAT(SummaryTable(job, TableOf("x", 80)).back(), Not(HasSubstr("first pass")));
  EXPECT_EQ(Json::parse(SummaryJson(job, "x", "localhost:9092"))["epochs"], 1);
  MetricPoint point = ProducerAt(3'100, 200, 200, 8'000, true);
  point.mutable_producer()->set_epochs_of_stream(2);
  job.Fold(point);
  EXPECT_THAT(SummaryTable(job, TableOf("x", 80)).back(), HasSubstr("first pass"));
  EXPECT_EQ(Json::parse(SummaryJson(job, "x", "localhost:9092"))["epochs"], 2);
}

TEST(Summary, OfAJobThatWasTooShortTellsNoRates) {
  JobProgress job;
  job.Fold(ServerAt(1'000, 5));
  job.Fold(EndedAt(1'500, 10));
  const Json json = Json::parse(SummaryJson(job, "x", "localhost:9092"));
  EXPECT_TRUE(json.at("rows_per_second").is_null());
  EXPECT_TRUE(json.at("rounds_per_second").is_null());
  EXPECT_EQ(json["duration_seconds"], 0.5);
  EXPECT_THAT(Text(SummaryTable(job, TableOf("x", 80))), HasSubstr("- rows/s, - rounds/s"));
}

TEST(Summary, HasNoFewerRowsReadThanTrainedOn) {
  JobProgress job;
  job.Fold(ProducerAt(900, 50, 100, 3'000));
  job.Fold(ServerAt(1'000, 10));
  EXPECT_EQ(Json::parse(SummaryJson(job, "x", "localhost:9092"))["rows_read"], 4'001);
  EXPECT_THAT(Text(SummaryTable(job, TableOf("x", 80))),
              HasSubstr("4,001 read, 1 rejected, 4,000 trained on"));
}

TEST(Summary, SaysAtTheEndWhatTheSlidingBuffersReplaced) {
  JobProgress job;
  job.Fold(ProducerAt(900, 100, 100, 10'000, true));
  MetricPoint point = ServerAt(1'000, 9);
  point.mutable_server()->mutable_training()->set_schedule(Training::BUFFER);
  job.Fold(point);
  EXPECT_THAT(Text(SummaryTable(job, TableOf("x", 80))), Not(HasSubstr("replaced")));
  point = EndedAt(3'000, 10);
  point.mutable_server()->mutable_training()->set_schedule(Training::BUFFER);
  job.Fold(point);
  EXPECT_THAT(
      Text(SummaryTable(job, TableOf("x", 80))),
      HasSubstr("6,000 rows were replaced in the sliding buffers before an update used them"));
  EXPECT_EQ(Json::parse(SummaryJson(job, "x", "localhost:9092"))["rows_replaced"], 6'000);
  EXPECT_FALSE(
      Json::parse(SummaryJson(FinishedJob(), "x", "localhost:9092")).contains("rows_replaced"));
}

TEST(SummaryTable, SaysThatNothingWasReceivedInsteadOfNoughts) {
  EXPECT_EQ(Text(SummaryTable(JobProgress(), TableOf("x", 80))),
            "Millrace  x: nothing was received from Kafka at localhost:9092\n");
}

TEST(SummaryTable, SaysThatTheServersWereStopped) {
  JobProgress job;
  MetricPoint point = ServerAt(1'000, 10);
  point.mutable_server()->set_stopped(true);
  job.Fold(point);
  EXPECT_THAT(SummaryTable(job, TableOf("x", 80))[0], HasSubstr("stopped before its end"));
}

TEST(SummaryTable, IsNotCutWhereNobodysColumnsEnd) {
  SummaryOptions options = TableOf(std::string(200, 'x'), 80);
  EXPECT_EQ(ColumnsOf(SummaryTable(FinishedJob(), options)[0]), 80u);
  options.cut = false;
  EXPECT_GT(ColumnsOf(SummaryTable(FinishedJob(), options)[0]), 200u);
}

TEST(SummaryTable, TellsTheRunAndFits) {
  std::string text;
  for (const std::string& line : SummaryTable(FinishedJob(), TableOf("flights-1", 80))) {
    EXPECT_LE(ColumnsOf(line), 80u);
    text += line + "\n";
  }
  for (const char* part :
       {"flights-1: the job has ended", "4,001 read", "4,000 trained on",
        "10 of 4 workers, one-pass, sequential", "2.0 s between the first and the last report",
        "2,000 rows/s, 5.0 rounds/s in this time", "3 duplicates ignored", "progressive",
        "held-out", "tail"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  for (const std::string& line : SummaryTable(FinishedJob(), TableOf("flights-1", 20))) {
    EXPECT_LE(ColumnsOf(line), 20u);
  }
}

}  // namespace
}  // namespace millrace
