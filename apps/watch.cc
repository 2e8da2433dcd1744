// Watch: shows a job while it runs.

#include "watch/watch.h"

#include <CLI/CLI.hpp>
#include <string>

#include "apps/job_flags.h"
#include "apps/program.h"
#include "job/kafka_options.h"
#include "job/stop_signal.h"

namespace millrace {
namespace {

constexpr char kDescription[] =
    "Millrace Watch: shows a job while it runs: how far the stream is, rows and training rounds "
    "per\n"
    "second, each worker's clock and buffer, the staleness, and how good the model is on rows it "
    "has\n"
    "not yet trained on, compared with what the class frequencies alone would give. It only\n"
    "reads the job's metrics topic: start it whenever and as often as you like.";

constexpr char kFooter[] =
    "Examples\n"
    "  Watch --brokers localhost:9092 --job flights\n"
    "  Watch --job flights --once                                  the present state, then exit\n"
    "  Watch --job flights --once --json | jq .state                 the same for programs\n"
    "  Watch --job flights --summary summary.json --evaluation-csv evaluation.csv | tee run.log\n"
    "\n"
    "In a terminal it draws four times a second, in colour unless NO_COLOR is set; else it prints "
    "a\n"
    "line every two seconds. It ends when the job has ended, with a summary.\n"
    "\n"
    "The figures: progressive means that each row was tested before it was trained on, from the\n"
    "stream's start; last window is the same for the newest rows only (a twentieth of all, 1,000 "
    "to\n"
    "100,000); tail for the rows from --tail-after on; held-out is the server's --test file. The\n"
    "class prior answers with the frequencies of the classes in the same rows: a model is worth\n"
    "something if its log loss is lower than that. If it is not, after 1,000 rows, a warning says "
    "so\n"
    "(--json: worse_than_prior). ECE is the expected calibration error. The summary ends with\n"
    "precision, recall and F1 of each class. docs/figures.md has all definitions, and the columns "
    "of\n"
    "--evaluation-csv.\n"
    "\n"
    "A job is running (its servers answer, and its figures move), waiting (for a program that is\n"
    "named, or for Kafka), stalled (none of its programs has been heard from for 5 seconds),\n"
    "stopped (its servers were stopped cleanly, and none has started again), or ended.\n"
    "\n"
    "--json has the fields of the summary, state and reason (see above), rows_per_second_now,\n"
    "seconds_left, and programs, each with name, ended, and seconds since it was heard from; a\n"
    "worker has last_update_s_ago instead: then a server has last accepted an update of it.\n"
    "logical_workers has for each its number (worker), clock, buffer_rows (rows in its sliding\n"
    "buffer) and left. The summary's warnings each have kind, text and remedy (empty: none is\n"
    "needed). Null is what is not known, as are rates when first and last report are less than a\n"
    "second apart.\n"
    "\n"
    "Exit codes: 0 the job has ended; 1 an error; 2 wrong usage; 130 stopped by Ctrl-C or SIGTERM\n"
    "before the job's end, with the summary written. With --once: 0 running, 3 ended, 4 waiting,\n"
    "5 stalled or stopped (state in --json tells which).";

int OnceExitCode(JobState::Kind state) {
  switch (state) {
    case JobState::Kind::kRunning:
      return kExitOk;
    case JobState::Kind::kEnded:
      return 3;
    case JobState::Kind::kWaiting:
      return 4;
    case JobState::Kind::kStalled:
    case JobState::Kind::kStopped:
      return 5;
  }
  return kExitError;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  CLI::App app(millrace::kDescription, "Watch");
  app.footer(millrace::kFooter);
  millrace::JobFlags flags(app);
  flags.Hide({"--workers", "--replication-factor", "--job-epoch"});
  millrace::WatchOptions options;
  app.add_option("--summary", options.summary_file, "Write the summary here at the end, as JSON")
      ->type_name("FILE")
      ->group("Display");
  app.add_option("--evaluation-csv", options.evaluation_csv,
                 "Write every figure here as it arrives: "
                 "timestamp;partition;vectorClock;loss;fMeasure;accuracy;kind;rows;...")
      ->type_name("FILE")
      ->group("Display");
  app.add_flag("--once", options.once,
               "Show the present state and exit; see Exit codes. Waits 5 s for a broker, or "
               "--broker-timeout seconds")
      ->group("Display");
  app.add_flag("--json", options.json,
               "With --once: the state as a JSON object; else one on a line every two seconds")
      ->group("Display");
  millrace::JobState::Kind state = millrace::JobState::Kind::kEnded;
  const int code = millrace::RunProgram(app, "Watch", argc, argv, [&]() -> millrace::Status {
    MILLRACE_ASSIGN_OR_RETURN(const millrace::JobConfig config, flags.Load());
    options.kafka = ToKafkaOptions(config);
    options.job = config.name();
    MILLRACE_ASSIGN_OR_RETURN(state, millrace::RunWatch(options, millrace::StopOnSignals()));
    return absl::OkStatus();
  });
  return code == millrace::kExitOk && options.once ? millrace::OnceExitCode(state) : code;
}
