// TopicSource: copies the rows that somebody else writes to a topic into a job.

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/config_checks.h"
#include "apps/finite_range.h"
#include "apps/job_flags.h"
#include "apps/program.h"
#include "apps/run_setup.h"
#include "job/stop_signal.h"
#include "producer/source_run.h"
#include "tasks/task_options.h"

namespace millrace {
namespace {

constexpr char kDescription[] =
    "Millrace TopicSource: reads rows that other programs write to a Kafka topic, turns each into\n"
    "features, and writes them to the job's input-data, as CsvProducer does with the rows of a\n"
    "file. Each row is counted once, whichever program is killed meanwhile.";

constexpr char kFooter[] =
    "Examples\n"
    "  JSON objects, from the first that the topic has; columns are named as the members are, "
    "those\n"
    "  of an object in an object with a dot. The classes are found in what the topic holds:\n"
    "    TopicSource --job late --topic departures --label late \\\n"
    "        --numeric flight.distance,temp --categorical carrier,flight.to\n"
    "  Avro, whose schemas a schema registry has; --avro-schema FILE reads it without:\n"
    "    TopicSource --job late --topic departures --format avro \\\n"
    "        --schema-registry http://localhost:8081 --label late --numeric flight.distance\n"
    "  Only what comes from now on, so the classes must be given:\n"
    "    TopicSource --job clicks --topic impressions --from now --label clicked \\\n"
    "        --classes false,true --ids user,item\n"
    "  Lines of CSV, whose fields have no names there; since a time; a number to be estimated:\n"
    "    TopicSource --job fares --topic rides --format csv --columns at,km,fare \\\n"
    "        --from 2013-01-31T10:00:00Z --label fare --regression --numeric km\n"
    "  What the topic holds now, and then the end of the stream, so that the job ends:\n"
    "    TopicSource --job late --topic departures --until-end --label late --numeric temp\n"
    "  Labels that come later, as clicks do after what was shown, at most half an hour; what has "
    "no\n"
    "  click by then was not clicked:\n"
    "    TopicSource --job clicks --topic impressions --labels-from clicks --join-key impression "
    "\\\n"
    "        --join-window 1800 --unmatched-label false --label clicked --classes false,true \\\n"
    "        --ids user,item\n"
    "\n"
    "A record is a row: a JSON object, an Avro record, or a line of CSV. Fields of Avro are named\n"
    "as those of JSON, of a map by its keys; dates and timestamps are read as ISO 8601. A schema\n"
    "registry's header before a JSON object is passed over. While a registry that is needed does\n"
    "not answer, records wait. Key and headers are not looked at. A record without a value (a\n"
    "tombstone) is left out and counted. A member that is not there is an empty cell, as null is.\n"
    "A record that cannot be used (no JSON, a number that is none, an unknown label or schema) "
    "goes\n"
    "to the job's dead-letter with the reason. Records of transactions are read when these are\n"
    "committed. Partitions that are added to the topic are read from their beginning.\n"
    "\n"
    "With --labels-from the label of a row is in a record of another topic of the same cluster, "
    "of\n"
    "the same format, that has the same value in the column --join-key: the first one whose time "
    "is\n"
    "that of the row or later, by --join-window at most (times of the records, not of a column). "
    "A\n"
    "row waits for it, and those after it in its partition wait, too. Without one it is left out\n"
    "and counted, or gets --unmatched-label. A restart waits for the same labels.\n"
    "\n"
    "The stream has no end, unless --until-end is given. Stop it by Ctrl-C or SIGTERM, or kill\n"
    "it: the job waits, and with the same flags it continues after the last row that the job has;\n"
    "then --from is not looked at. A second TopicSource of a job ends at once, unless the first "
    "one\n"
    "hangs, which it replaces. Rows are dealt to the logical workers in turns, in the order in\n"
    "which they are read: those of one partition in their order.\n"
    "\n"
    "Exit codes: 0 the stream was ended; 1 an error of the topic, of Kafka or caused by another\n"
    "program; 2 wrong usage; 4 another TopicSource runs; 130 stopped by Ctrl-C or SIGTERM.";

struct Flags {
  std::string format = "json";
  std::string from = "beginning";
  std::string on_data_loss = "stop";
  std::optional<std::string> delimiter;
  std::optional<uint32_t> rows_per_turn;
  double interval_s = 0.1;
  SourceRun::Options options;
};

Status Run(const JobFlags& job_flags, const Flags& flags) {
  MILLRACE_ASSIGN_OR_RETURN(JobConfig config, job_flags.Load());
  MILLRACE_RETURN_IF_ERROR(CheckReadsRows(config, "TopicSource"));
  if (flags.delimiter) config.mutable_csv()->set_delimiter(*flags.delimiter);
  if (flags.rows_per_turn) config.mutable_producer()->set_rows_per_turn(*flags.rows_per_turn);
  SourceRun::Options options = flags.options;
  MILLRACE_ASSIGN_OR_RETURN(options.start, ParseStartPoint(flags.from));
  options.format.kind = flags.format == "csv"    ? SourceFormat::Kind::kCsv
                        : flags.format == "avro" ? SourceFormat::Kind::kAvro
                                                 : SourceFormat::Kind::kJson;
  options.continue_on_data_loss = flags.on_data_loss == "continue";
  options.linger = std::chrono::milliseconds(static_cast<int64_t>(1000 * flags.interval_s));
  options.set_default_buckets = [&config](FeatureSpec& spec) {
    SetDefaultBuckets(config.has_training() ? &config.training() : nullptr, spec);
  };
  options.setup = ProducerSetup(config);
  options.stop = &StopOnSignals();
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<SourceRun> run,
                            SourceRun::Create(config, options));
  return run->Run();
}

constexpr char kGroup[] = "Source";
constexpr char kLabelGroup[] = "Labels that come later";

void AddLabels(CLI::App& app, LateLabelOptions& labels) {
  app.add_option("--labels-from", labels.topic,
                 "The topic that has the labels of the rows; its records come later")
      ->type_name("TOPIC")
      ->group(kLabelGroup);
  app.add_option("--join-key", labels.key,
                 "The column, of rows and of labels, that says which label is a row's")
      ->type_name("COLUMN")
      ->group(kLabelGroup);
  app.add_option("--join-window", labels.window_s,
                 "A label comes so many seconds after its row, at most")
      ->check(FiniteRange(0, 31'622'400))
      ->type_name("SECONDS")
      ->group(kLabelGroup);
  app.add_option("--unmatched-label", labels.unmatched_label,
                 "The label of rows that have none by then [these rows are left out]")
      ->type_name("LABEL")
      ->group(kLabelGroup);
  app.add_option("--label-columns", labels.columns,
                 "With --format csv: the names of the fields of a line of labels [the\n"
                 "--join-key, the --label]")
      ->delimiter(',')
      ->type_name("A,B,...")
      ->group(kLabelGroup);
  app.add_option("--join-memory", labels.memory_mb,
                 "MiB that rows which wait, and labels, may take; more is an error [512]")
      ->check(CLI::Range(16, 1 << 20).description(""))
      ->type_name("MIB")
      ->group(kLabelGroup);
}

void AddFormat(CLI::App& app, Flags& flags) {
  SourceFormat::Options& format = flags.options.format;
  app.add_option(
         "--format", flags.format,
         "What a record's value is: a JSON object, an Avro record, or a line of\nCSV [json]")
      ->check(CLI::IsMember({"json", "avro", "csv"}).description(""))
      ->type_name("json|avro|csv")
      ->group(kGroup);
  app.add_option("--schema-registry", format.registry.url,
                 "With --format avro: the URL of the schema registry whose header records\nhave")
      ->type_name("URL")
      ->group(kGroup);
  app.add_option("--schema-registry-user-file", format.registry.user_file,
                 "Its one line is the login of the registry: USER:PASSWORD")
      ->type_name("FILE")
      ->group(kGroup);
  app.add_option("--schema-registry-ca", format.registry.ca_file,
                 "PEM file of those who may have signed the registry's certificate [the\n"
                 "system's]")
      ->type_name("FILE")
      ->group(kGroup);
  app.add_option("--avro-schema", format.avro_schema_file,
                 "With --format avro: the schema of records that have no registry's header")
      ->type_name("FILE")
      ->group(kGroup);
  app.add_option("--columns", format.columns, "With --format csv: the names of a line's fields")
      ->delimiter(',')
      ->type_name("A,B,...")
      ->group(kGroup);
  app.add_option("--delimiter", flags.delimiter,
                 "With --format csv: what separates the fields: one character, or comma,\n"
                 "semicolon, tab, pipe or space [comma]")
      ->group(kGroup);
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  CLI::App app(millrace::kDescription, "TopicSource");
  app.footer(millrace::kFooter);
  millrace::JobFlags flags(app);
  flags.AddFeatures();
  millrace::Flags own;
  millrace::SourceRun::Options& options = own.options;
  using millrace::kGroup;
  app.add_option("--topic", options.topic, "The topic whose records are rows")->group(kGroup);
  app.add_option("--source-brokers", options.brokers,
                 "HOST:PORT[,HOST:PORT...] of the cluster that has the topic; --kafka\n"
                 "settings are the same for both [--brokers]")
      ->group(kGroup);
  millrace::AddFormat(app, own);
  millrace::AddLabels(app, options.labels);
  app.add_option("--from", own.from,
                 "Where a new job begins: beginning, now, or a time (of the records'\n"
                 "timestamps, ISO 8601 or seconds since 1970) [beginning]")
      ->type_name("WHERE")
      ->group(kGroup);
  app.add_flag("--until-end", options.until_end,
               "Read what the topic holds at the start, then end the stream")
      ->group(kGroup);
  app.add_option("--on-data-loss", own.on_data_loss,
                 "When records were deleted before they were read: stop with an error, or\n"
                 "count them, say so and continue after them [stop]")
      ->check(CLI::IsMember({"stop", "continue"}).description(""))
      ->type_name("stop|continue")
      ->group(kGroup);
  app.add_option("--transaction-interval", own.interval_s,
                 "Seconds between transactions, at least: a row waits for so long at most\n[0.1]")
      ->check(millrace::FiniteRange(0.005, 60))
      ->type_name("SECONDS")
      ->group(kGroup);
  app.add_option("--rows-per-turn", own.rows_per_turn,
                 "So many consecutive rows go to one logical worker, then as many to the\n"
                 "next [1; if the level of the first 20,000 labels moves\n"
                 "(docs/learning.md), worker 0 gets all rows]")
      ->check(CLI::Range(1, 65536).description(""))
      ->type_name("UINT")
      ->group(kGroup);
  app.add_flag("--dead-letter-reasons-only", options.reasons_only,
               "Dead letters have partition, offset and reason, and nothing of the record")
      ->group(kGroup);
  app.add_flag("--quiet,-q", options.quiet, "Print warnings and errors only, no progress")
      ->group(kGroup);
  return millrace::RunProgram(app, "TopicSource", argc, argv,
                              [&] { return millrace::Run(flags, own); });
}
