#include "watch/screen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/metrics/points.h"
#include "watch/plain_line.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

JobProgress SomeJob(int workers = 4) {
  JobProgress job;
  job.Fold(ProducerAt(0, 600, 1'000, 24'000));
  for (int i = 0; i <= 40; ++i) {
    MetricPoint point = ServerAt(250 * i, i);
    for (int worker = 4; worker < workers; ++worker) {
      WorkerProgress& progress = *point.mutable_server()->add_workers();
      progress.set_worker(static_cast<uint32_t>(worker));
      progress.set_clock(static_cast<uint64_t>(i));
    }
    job.Fold(point);
    if (i % 4 == 0) job.Fold(EvaluationAt(250 * i + 1, i));
  }
  return job;
}

JobProgress JobOfGroups(uint32_t groups) {
  JobProgress job = SomeJob();
  for (uint32_t group = 0; group < groups; ++group) {
    MetricPoint point = ServerAt(10'100, 41 + 1'000 * group);
    MetricPoint::ServerProgress& server = *point.mutable_server();
    server.set_shard(group);
    server.set_shards(groups);
    server.set_groups(groups);
    server.set_group(group);
    server.set_exchanges(group == 0 ? 0 : 10 + group);
    job.Fold(point);
    server.set_updates(server.updates() + 7);
    job.Fold(point);
  }
  return job;
}

JobState Running() {
  JobState state;
  state.kind = JobState::Kind::kRunning;
  return state;
}

ScreenOptions Options(size_t columns, size_t rows = 50) {
  ScreenOptions options;
  options.job = "flights-1";
  options.state = Running();
  options.columns = columns;
  options.rows = rows;
  options.style = {.color = false, .unicode = true};
  return options;
}

std::string Text(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

TEST(Screen, SaysThatItWaitsBeforeThereIsAnything) {
  ScreenOptions options = Options(80);
  options.waited_seconds = 5;
  EXPECT_THAT(Text(RenderScreen(JobProgress(), options)),
              AllOf(HasSubstr("flights-1"), HasSubstr("waiting"), HasSubstr("0:05")));
}

TEST(Screen, ShowsEverythingOnAnOrdinaryTerminal) {
  const std::string text = Text(RenderScreen(SomeJob(), Options(80, 23)));
  for (const char* part : {"Millrace",
                           "flights-1",
                           "one-pass · sequential · adagrad 0.04",
                           "█",
                           "40 %",
                           "left",
                           "16,000 of about 40,000 rows",
                           "rows/s",
                           "rounds/s",
                           "staleness 0",
                           "unsaved updates 24",
                           "training loss",
                           "worker",
                           "clock",
                           "buffer",
                           "128",
                           "progressive",
                           "held-out",
                           "class prior",
                           "accuracy",
                           "log loss",
                           "AUC",
                           "F1 macro",
                           "0.7800",
                           "0.7600",
                           "1 row rejected",
                           "→"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(Screen, FitsEveryTerminal) {
  for (const int workers : {4, 30}) {
    JobProgress job = workers == 4 ? JobOfGroups(2) : SomeJob(workers);
    MetricPoint rejecting = ProducerAt(10'000, 600, 1'000, 24'000);
    rejecting.mutable_producer()->set_rows_rejected(1'000);
    job.Fold(rejecting);
    for (size_t columns = 1; columns <= 130; columns += 3) {
      for (const size_t rows : {1, 3, 8, 12, 23, 50}) {
        const auto lines = RenderScreen(job, Options(columns, rows));
        ASSERT_LE(lines.size(), rows) << columns;
        for (const std::string& line : lines) ASSERT_LE(ColumnsOf(line), columns) << line;
      }
    }
  }
}

TEST(Screen, LeavesTheLeastTellingColumnsOutOnANarrowTerminal) {
  const std::string text = Text(RenderScreen(SomeJob(), Options(50)));
  EXPECT_THAT(text, AllOf(HasSubstr("accuracy"), HasSubstr("log loss"), HasSubstr("AUC"),
                          Not(HasSubstr("F1 weighted"))));
}

TEST(Screen, ShowsManyWorkersInRowsAndVeryManyAsRanges) {
  EXPECT_THAT(Text(RenderScreen(SomeJob(20), Options(80))), HasSubstr("worker "));
  EXPECT_THAT(Text(RenderScreen(SomeJob(100), Options(80))),
              HasSubstr("100 workers: clock 40, buffer 0 to 128"));
}

TEST(Screen, ShowsTheExchangesOfEachGroupOfServersAndOfVeryManyAsRanges) {
  EXPECT_THAT(Text(RenderScreen(JobOfGroups(3), Options(80))),
              HasSubstr("  group             0         1         2\n"
                        "  rounds           41     1,041     2,041\n"
                        "  exchanges         -        11        12\n"
                        "  unshared          -         7         7\n"));
  EXPECT_THAT(Text(RenderScreen(JobOfGroups(30), Options(80))),
              HasSubstr("30 groups: rounds 41 to 29,041, exchanges 11 to 39, unshared updates 7"));
  EXPECT_THAT(Text(RenderScreen(SomeJob(), Options(80))), Not(HasSubstr("unshared")));
}

TEST(Screen, ShowsWhoHasLeft) {
  JobProgress job = SomeJob();
  job.Fold(EndedAt(10'100, 41));
  EXPECT_THAT(Text(RenderScreen(job, Options(80))), AllOf(HasSubstr("left"), HasSubstr("100 %")));
}

TEST(Screen, AJobThatDoesNotRunHasNoSpeedAndNoTimeLeftButAReason) {
  JobState state;
  state.kind = JobState::Kind::kWaiting;
  state.reason = "for ServerApp, shard 0 (silent for 0:12)";
  state.programs = {{"CsvProducer", 0.4, false},
                    {"ServerApp, shard 0", 12, false},
                    {"worker 0", 13, false},
                    {"worker 1", 15, false}};
  ScreenOptions options = Options(100);
  options.state = state;
  const std::string text = Text(RenderScreen(SomeJob(), options));
  EXPECT_THAT(text, AllOf(HasSubstr("waiting for ServerApp, shard 0 (silent for 0:12)"),
                          HasSubstr("CsvProducer 0:00 ago, ServerApp 0:12 ago, workers' updates "
                                    "0:13 to 0:15 ago"),
                          HasSubstr("rows/s 0.0"), Not(HasSubstr(" left"))));
  EXPECT_THAT(Text(RenderScreen(SomeJob(), Options(100))),
              AllOf(HasSubstr(" left"), Not(HasSubstr("waiting"))));
  const std::string line = PlainLine(SomeJob(), state, 0);
  EXPECT_THAT(line, AllOf(HasSubstr("; waiting for ServerApp, shard 0"), HasSubstr(" 0.0 rows/s"),
                          Not(HasSubstr(" left"))));
}

TEST(Screen, TellsNoSpeedAfterAnOutageUntilItIsKnownAgain) {
  JobProgress job = SomeJob();
  job.Fold(ServerAt(70'000, 41));
  EXPECT_THAT(Text(RenderScreen(job, Options(100))),
              AllOf(HasSubstr("rows/s -"), HasSubstr("rounds/s -"), Not(HasSubstr(" left"))));
  JobState running;
  running.kind = JobState::Kind::kRunning;
  EXPECT_THAT(PlainLine(job, running, 0),
              AllOf(HasSubstr("; - rows/s, - rounds/s"), Not(HasSubstr(" left"))));
}

TEST(Screen, SaysThatItCannotReachKafkaBeforeThereIsAnything) {
  ScreenOptions options = Options(80);
  options.state =
      WithoutKafka(ComputeJobState(JobProgress(), 1'000), "localhost:9092 (--brokers)", 12);
  const char* const reason = "waiting for Kafka at localhost:9092 (--brokers): no answer for 0:12";
  EXPECT_THAT(Text(RenderScreen(JobProgress(), options)),
              AllOf(HasSubstr(reason), Not(HasSubstr("first figures"))));
  EXPECT_EQ(PlainLine(JobProgress(), options.state, 12), reason);
}

TEST(Screen, IsNotCutWhereNobodysColumnsEnd) {
  ScreenOptions options = Options(60);
  options.state.kind = JobState::Kind::kWaiting;
  options.state.reason = "for " + std::string(100, 'x') + " the end";
  EXPECT_THAT(Text(RenderScreen(SomeJob(), options)), Not(HasSubstr("the end")));
  options.cut = false;
  EXPECT_THAT(Text(RenderScreen(SomeJob(), options)), HasSubstr("the end"));
}

TEST(Screen, SaysThatTheJobWasStopped) {
  ScreenOptions options = Options(100);
  options.state.kind = JobState::Kind::kStopped;
  options.state.reason = "stopped cleanly at 13:05:09; everything is in a checkpoint";
  EXPECT_THAT(Text(RenderScreen(SomeJob(), options)),
              AllOf(HasSubstr("  " + options.state.reason), Not(HasSubstr("stopped stopped"))));
  EXPECT_THAT(PlainLine(SomeJob(), options.state, 0), HasSubstr("; " + options.state.reason));
}

TEST(Screen, SaysAtTheEndWhatTheSlidingBuffersReplaced) {
  JobProgress job = SomeJob();
  EXPECT_THAT(Text(RenderScreen(job, Options(100))), Not(HasSubstr("replaced")));
  job.Fold(ProducerAt(10'050, 1'000, 1'000, 24'000, true));
  MetricPoint point = EndedAt(10'100, 41);
  point.mutable_server()->mutable_training()->set_schedule(Training::BUFFER);
  job.Fold(point);
  EXPECT_THAT(Text(RenderScreen(job, Options(100))),
              HasSubstr("7,600 rows were replaced in the sliding buffers"));
}

TEST(Screen, AJobThatWasTooShortHasNoSpeed) {
  JobProgress job;
  job.Fold(EndedAt(1'000, 41));
  EXPECT_THAT(Text(RenderScreen(job, Options(100))), HasSubstr("rows/s -"));
  EXPECT_THAT(PlainLine(job, ComputeJobState(job, 1'000), 0), HasSubstr("; - rows/s"));
}

TEST(Screen, NamesWhatWentWrong) {
  JobProgress job = SomeJob();
  MetricPoint point = ServerAt(10'100, 41);
  point.mutable_server()->set_non_finite_updates(2);
  point.mutable_server()->set_duplicates_ignored(3);
  point.mutable_server()->set_aborted_checkpoints(4);
  point.mutable_server()->set_time_jumps(5);
  job.Fold(point);
  EXPECT_THAT(Text(RenderScreen(job, Options(80))),
              AllOf(HasSubstr("2 non-finite updates"), HasSubstr("3 duplicates ignored"),
                    HasSubstr("4 checkpoints aborted in a row"), HasSubstr("5 timestamp jumps")));
}

// A job of which every hundredth row and more is rejected.
JobProgress RejectingJob() {
  JobProgress job = SomeJob();
  MetricPoint point = ProducerAt(10'000, 600, 1'000, 24'000);
  point.mutable_producer()->set_rows_rejected(1'000);
  point.mutable_producer()->set_rows_read(25'000);
  job.Fold(point);
  return job;
}

TEST(Screen, SaysWhatToDoAboutAWarningWhereThereIsRoom) {
  const std::string text = Text(RenderScreen(RejectingJob(), Options(80)));
  EXPECT_THAT(text, HasSubstr("1,000 of 25,000 rows rejected (4.0 %): CsvProducer's reject file"));
  const std::string low = Text(RenderScreen(RejectingJob(), Options(80, 11)));
  EXPECT_THAT(low, AllOf(HasSubstr("1,000 of 25,000 rows rejected (4.0 %)\n"),
                         Not(HasSubstr("reject file"))));
  EXPECT_THAT(PlainLine(RejectingJob(), Running(), 0),
              HasSubstr("; warnings: 1,000 of 25,000 rows rejected (4.0 %)"));
}

TEST(Screen, SaysInWordsThatAModelIsWorseThanNothing) {
  JobProgress job = SomeJob();
  EXPECT_THAT(Text(RenderScreen(job, Options(80))), Not(HasSubstr("Warning")));
  MetricPoint point = ServerAt(10'100, 41);
  point.mutable_server()->mutable_progressive()->set_log_loss(0.75);
  job.Fold(point);
  const std::string text = Text(RenderScreen(job, Options(80, 24)));
  EXPECT_THAT(text, AllOf(HasSubstr("Warning: after 16400 rows the model is worse than always"),
                          HasSubstr("--learning-rate"), HasSubstr("progressive")));
  EXPECT_THAT(Text(RenderScreen(job, Options(80, 8))), HasSubstr("Warning"));
  EXPECT_THAT(PlainLine(job, Running(), 0),
              AllOf(HasSubstr("; warning: after 16400 rows"), HasSubstr("--learning-rate")));
}

TEST(Screen, ShowsTheLastWindowBesideAllRows) {
  JobProgress job = SomeJob();
  MetricPoint point = ServerAt(10'100, 41);
  *point.mutable_server()->mutable_window() = MakeFigures(1'024, 0.8125, 0.4);
  job.Fold(point);
  EXPECT_THAT(Text(RenderScreen(job, Options(80))),
              AllOf(HasSubstr("last window"), HasSubstr("0.8125"), HasSubstr("1,024")));
  EXPECT_THAT(PlainLine(job, Running(), 0),
              HasSubstr("; last window of 1,024 rows: accuracy 0.8125"));
}

TEST(Screen, SaysThatTheStreamHasChanged) {
  JobProgress job = SomeJob();
  MetricPoint point = ServerAt(10'100, 41);
  Drift& drift = *point.mutable_server()->mutable_drift();
  drift.set_count(1);
  drift.set_row(900);
  drift.set_found_at(1'000);
  job.Fold(point);
  EXPECT_THAT(Text(RenderScreen(job, Options(80))), HasSubstr("Note: the stream has changed:"));
  EXPECT_THAT(PlainLine(job, Running(), 0), HasSubstr("; the stream has changed: the log loss"));
}

TEST(Screen, UsesColoursAndUnicodeOnlyWhereTheyAreWanted) {
  ScreenOptions options = Options(80);
  EXPECT_THAT(Text(RenderScreen(SomeJob(), options)), Not(HasSubstr("\033")));
  options.style = {.color = true, .unicode = false};
  const std::string text = Text(RenderScreen(SomeJob(), options));
  EXPECT_THAT(text, HasSubstr("\033"));
  for (const char c : text) ASSERT_EQ(static_cast<unsigned char>(c) & 0x80, 0);
}

TEST(PlainLine, HasTheStateInOneLineOfAscii) {
  const std::string line = PlainLine(SomeJob(), Running(), 0);
  for (const char* part :
       {"0:10", "40 %", "16,000 rows", "rows/s", "rounds/s", "clocks 40", "staleness 0",
        "progressive: accuracy 0.7800 (prior 0.7600), AUC 0.7000", "held-out: accuracy 0.7900"}) {
    EXPECT_THAT(line, HasSubstr(part));
  }
  for (const char c : line) ASSERT_TRUE(c >= ' ' && c <= '~');
  EXPECT_THAT(PlainLine(JobProgress(), JobState(), 5), HasSubstr("waiting"));
}

}  // namespace
}  // namespace millrace
