// CsvProducer: streams a CSV into a job's topic of rows.

#include <CLI/CLI.hpp>
#include <atomic>
#include <memory>
#include <string>

#include "apps/config_checks.h"
#include "apps/job_flags.h"
#include "apps/program.h"
#include "apps/run_setup.h"
#include "base/interruptible_output.h"
#include "durability/snapshots/snapshot_files.h"
#include "job/stop_signal.h"
#include "producer/job_draft.h"
#include "producer/producer_run.h"
#include "tasks/task_options.h"

namespace millrace {
namespace {

constexpr char kDescription[] =
    "Millrace CsvProducer: streams a CSV file into a job. It turns each row into features, and\n"
    "publishes how it does so in the job's topics, so that all programs compute the same ones.\n"
    "It deals the rows to the logical workers in turns. At the end of the file it ends the stream.";

constexpr char kFooter[] =
    "Examples\n"
    "  As fast as Kafka takes it; the classes are found by a first scan:\n"
    "    CsvProducer --job flights --input flights.csv --label late \\\n"
    "        --numeric distance,temp --categorical carrier,dest,carrier*dest\n"
    "  Numbers as categories by their bins, too, and one of them in a cross:\n"
    "    CsvProducer --job flights --input flights.csv --label late \\\n"
    "        --numeric distance,temp --bins all --categorical carrier,carrier*distance\n"
    "  500 rows a second, three times over:\n"
    "    CsvProducer --job digits --input digits.csv --label digit --numeric p0,p1,p2 \\\n"
    "        --rate 500 --epochs 3\n"
    "  An hour of recorded time in a minute:\n"
    "    CsvProducer --job reviews --input reviews.csv --label Score --text Text \\\n"
    "        --time-column Time --speedup 60\n"
    "  From a pipe, which can be read only once, so the classes must be given:\n"
    "    some-program | CsvProducer --job reviews --input - --label Score --text Text \\\n"
    "        --classes 1,2,3,4,5\n"
    "  A file that nobody has described yet:\n"
    "    CsvProducer --describe my.csv.gz > my.textproto\n"
    "    CsvProducer --config my.textproto --label late\n"
    "\n"
    "The file is CSV as in RFC 4180 with a header line, in UTF-8 or with --encoding latin1. Its\n"
    "delimiter is found in the header, and gzip and zstd by their first bytes. In a list of\n"
    "columns a name that holds a comma or a star stands in double quotes: 'age,\"a,b\"'.\n"
    "Malformed rows (a wrong number of fields, a number or time that is none, an unknown label,\n"
    "invalid UTF-8) are left out and written, with line and reason, to the reject file, a CSV\n"
    "with the columns line,reason,row.\n"
    "\n"
    "Columns of --time-column and --time-features hold seconds, milliseconds (from 1e11 on), ISO\n"
    "8601 such as 2013-01-31, 2013-01-31 10:00 or 2013-01-31T10:00:00Z, or 31.01.2013 10:00. Only\n"
    "the pace follows --time-column: to Kafka and to the workers a row's time is its arrival's.\n"
    "\n"
    "Stop it by Ctrl-C or SIGTERM, or kill it: started again with the same flags it continues "
    "after\n"
    "the last row that Kafka has; nothing is sent twice or left out. A pipe cannot be continued.\n"
    "\n"
    "Exit codes: 0 the whole stream is in Kafka (or was already); 1 an error of the input, of "
    "Kafka\n"
    "or caused by another program; 2 wrong usage, also a column that the file does not have; 130\n"
    "stopped by Ctrl-C or SIGTERM.";

// A job that starts from a snapshot has its features, of another stream, too.
Status TakeBinEdges(const std::string& snapshot, FeatureSpec& spec) {
  MILLRACE_ASSIGN_OR_RETURN(const SnapshotManifest manifest, ReadManifest(snapshot));
  if (manifest.features().spec().bin_edges().empty()) {
    return absl::FailedPreconditionError(snapshot + " (--bins-of) is of a job without --bins");
  }
  *spec.mutable_bin_edges() = manifest.features().spec().bin_edges();
  return absl::OkStatus();
}

Status Describe(const std::string& path, const JobConfig& config) {
  const std::atomic<bool>& stop = StopOnSignals();
  const StatusOr<std::string> draft = DraftJob(path, config, stop);
  MILLRACE_RETURN_IF_ERROR(NotOfUsage(draft.status()));
  return InterruptibleOutput::OfStdout(stop).Write(*draft);
}

struct Flags {
  std::string bins_of;
  std::string describe;
  ProducerRun::Options options;
};

Status Run(const JobFlags& job_flags, const Flags& flags) {
  MILLRACE_ASSIGN_OR_RETURN(JobConfig config, job_flags.Load());
  if (!flags.describe.empty()) return Describe(flags.describe, config);
  MILLRACE_RETURN_IF_ERROR(CheckReadsRows(config, "CsvProducer"));
  const std::string& bins_of = flags.bins_of;
  ProducerRun::Options options = flags.options;
  if (!bins_of.empty()) {
    MILLRACE_RETURN_IF_ERROR(TakeBinEdges(bins_of, *config.mutable_features()));
  }
  options.set_default_buckets = [&config](FeatureSpec& spec) {
    SetDefaultBuckets(config.has_training() ? &config.training() : nullptr, spec);
  };
  options.setup = ProducerSetup(config);
  options.stop = &StopOnSignals();
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<ProducerRun> run,
                            ProducerRun::Create(config, options));
  return run->Run();
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  CLI::App app(millrace::kDescription, "CsvProducer");
  app.footer(millrace::kFooter);
  millrace::JobFlags flags(app);
  flags.AddFeatures();
  flags.AddProducer();
  millrace::Flags own;
  app.add_option("--bins-of", own.bins_of,
                 "The edges of --bins are those of this snapshot, not of the first\n"
                 "rows: for a job that starts from it with another stream (ServerApp\n"
                 "--from-snapshot, --new-stream)")
      ->type_name("FOLDER")
      ->group("Features");
  app.add_option("--describe", own.describe,
                 "Print a job file for this CSV to standard output, and end: by its first\n"
                 "100,000 rows a type for each column, with the reasons. It is complete\n"
                 "once the label is named; with --label it is. (docs/files.md has the rules)")
      ->type_name("FILE")
      ->group("Stream");
  app.add_flag("--quiet,-q", own.options.quiet, "Print warnings and errors only, no progress")
      ->group("Stream");
  app.add_flag("--features-only", own.options.features_only,
               "Publish the job's features and end without sending a row: servers and\n"
               "workers can join before the stream begins. Its rows are dealt in turns of\n"
               "one, since they may come slowly, unless --rows-per-turn is given")
      ->group("Stream");
  return millrace::RunProgram(app, "CsvProducer", argc, argv,
                              [&] { return millrace::Run(flags, own); });
}
