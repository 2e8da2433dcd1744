#include "apps/predictor_flags.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "apps/finite_range.h"
#include "base/host_and_port.h"

namespace millrace {

const char kPredictorDescription[] =
    "Millrace Predictor: predicts by the model of a job, over HTTP, of the rows of a CSV, or of "
    "the\n"
    "records of a Kafka topic. The model is a folder that ServerApp has exported (--export, or "
    "the\n"
    "folder model of a snapshot), which needs no Kafka; or, with --follow, the newest weights of "
    "a\n"
    "job that runs.";

const char kPredictorFooter[] =
    "Examples\n"
    "  Score a file:\n"
    "    Predictor --model model --input new.csv --output scored.csv\n"
    "  Answer over HTTP, on this machine:\n"
    "    Predictor --model model\n"
    "    curl localhost:8080/predict -d '{\"carrier\": \"UA\", \"distance\": 1400}'\n"
    "  By the newest weights of a job:\n"
    "    Predictor --follow --brokers localhost:9092 --job flights\n"
    "  To other machines, over TLS, to whoever has the token:\n"
    "    Predictor --model model --listen 0.0.0.0:8443 --tls-cert cert.pem --tls-key key.pem \\\n"
    "        --token-file token\n"
    "  Compare another model with it, by the labels of a file, or by those that come later:\n"
    "    Predictor --model model --challenger other --input old.csv --output scored.csv\n"
    "    Predictor --model model --challenger other --id-column flight\n"
    "    curl localhost:8080/labels -d '{\"flight\": 7, \"late\": \"yes\"}'\n"
    "    curl localhost:8080/challenger\n"
    "  Score the records of a topic, each once, into another topic:\n"
    "    Predictor --model model --brokers localhost:9092 --input-topic departures \\\n"
    "        --output-topic delays\n"
    "\n"
    "A file gets a column predicted_LABEL and for each class a column probability_CLASS. Rows "
    "that\n"
    "cannot be used are left out, and written with line and reason to the reject file. If the "
    "file\n"
    "has the label, the figures of these rows are printed, too. --contributions adds a column "
    "offset_LABEL\n"
    "and for each column that a linear model reads a column contribution_COLUMN.\n"
    "\n"
    "Over HTTP: POST /predict takes a row as a JSON object, {\"column\": value, ...}, or an array "
    "of\n"
    "them, or NDJSON (Content-Type: application/x-ndjson); ?contributions=1 adds what each column "
    "has\n"
    "contributed, if the model is linear. GET /model tells of the model, GET\n"
    "/healthz and /readyz whether it runs. When another model is put into the folder, it is read\n"
    "within a second; until then, and if it cannot be read, the last one answers.\n"
    "\n"
    "--challenger changes no prediction: the other model predicts the same rows, and the figures "
    "of\n"
    "both are told side by side. Over HTTP a row has an id beside its columns (--id-column), by "
    "which\n"
    "its label names it: POST /labels takes labels as POST /predict takes rows, GET /challenger "
    "has\n"
    "the figures.\n"
    "\n"
    "--follow only reads the job's topics. Of the flags of a job it needs --job and --brokers, and "
    "what\n"
    "the connection needs (--kafka). It waits for a job that has not begun (/readyz: 503), and "
    "goes "
    "on\n"
    "with the last weights while Kafka or the servers are away, and when the job has ended.\n"
    "\n"
    "Of a topic, each record gets a record with the same key, headers, timestamp and partition, "
    "whose\n"
    "value is a JSON object: the prediction, and the partition and offset of its source; or error "
    "and\n"
    "source, if it holds no row. A record without a value (a tombstone) gets one without a value.\n"
    "Predictions and positions are committed in one transaction, so each record is scored once,\n"
    "whoever is killed meanwhile, for readers of committed records. Started again with the same\n"
    "flags, Predictor continues after the last record that is scored. A second one of the same\n"
    "group takes over from the first, which ends.\n"
    "\n"
    "Exit codes: 0 the file, or with --until-end the topic, is scored; 1 an error of the model, "
    "the\n"
    "input or the network; 2 wrong usage; 4 another Predictor of the group has taken over; 130\n"
    "stopped by Ctrl-C or SIGTERM.";

namespace {

// Groups of flags.
constexpr char kFile[] = "A file";
constexpr char kHttp[] = "HTTP";
constexpr char kTopics[] = "Topics";
constexpr char kJob[] = "Job and Kafka";  // as in apps/flag_table.cc

// Adds flags of a group, whose type and default are in the help's text.
class Group {
 public:
  Group(CLI::App& app, const char* name) : app_(app), name_(name) {}

  template <typename Value>
  CLI::Option* Add(const char* name, Value& value, const char* type, const char* help) const {
    return app_.add_option(name, value, help)->type_name(type)->group(name_);
  }
  void AddSwitch(const char* name, bool& value, const char* help) const {
    app_.add_flag(name, value, help)->group(name_);
  }

 private:
  CLI::App& app_;
  const char* const name_;
};

void AddFileFlags(const Group& file, PredictorFlags& flags) {
  file.Add("--input", flags.input, "FILE", "A CSV, also compressed by gzip or zstd; \"-\": a pipe");
  file.Add("--output", flags.output, "FILE",
           "The scored CSV, which appears when it is complete; \"-\": a pipe");
  file.Add("--reject-file", flags.reject_file, "FILE",
           "Rows that cannot be used [the input's name and .rejects.csv,\nin the current folder]");
  file.Add("--figures", flags.figures, "FILE",
           "Write the figures of the rows with a label here, as JSON");
  file.AddSwitch("--contributions", flags.contributions,
                 "Add what each column has contributed, if the model is linear");
  file.Add("--delimiter", flags.delimiter, "CHARACTER",
           "Separates the fields: comma, semicolon, tab, pipe, space, or an\nASCII character "
           "[found in the header; in topics: comma]");
  file.Add("--encoding", flags.encoding, "NAME", "utf8 or latin1 [utf8]")
      ->check(CLI::IsMember({"utf8", "latin1"}).description(""));
}

void AddHttpFlags(const Group& http, PredictorFlags& flags) {
  http.Add("--listen", flags.http.address, "HOST:PORT",
           "Where to answer; port 0: a free one [127.0.0.1:8080]");
  http.Add("--threads", flags.http.threads, "N", "Requests that are answered at once, 1 to 256 [2]")
      ->check(CLI::Range(1, 256).description(""));
  http.Add("--max-request-bytes", flags.http.most_body_bytes, "BYTES",
           "Larger requests are refused; up to 256 MiB [16777216]")
      ->check(CLI::Range(size_t{1}, size_t{256} << 20).description(""));
  http.Add("--timeout", flags.timeout_s, "SECONDS",
           "A request must have come, and an idle connection is closed, after\nso long, 1 to 3600 "
           "[30]")
      ->check(CLI::Range(1, 3600).description(""));
  http.Add("--token-file", flags.token_file, "FILE",
           "Its one line is what requests must show:\nAuthorization: Bearer TOKEN");
  http.Add("--id-column", flags.id_column, "NAME",
           "With --challenger: the member of a row by whose value a label names it");
  http.Add("--max-waiting-bytes", flags.most_waiting_bytes, "BYTES",
           "With --challenger: what is kept of rows whose label has not come;\nthen the oldest are "
           "forgotten [67108864]")
      ->check(CLI::Range(size_t{1} << 10, size_t{1} << 40).description(""));
  http.Add("--tls-cert", flags.tls_cert, "FILE", "PEM file of the server's certificate [no TLS]");
  http.Add("--tls-key", flags.tls_key, "FILE", "Its private key, PEM");
  http.Add("--tls-ca", flags.tls_ca, "FILE",
           "PEM file of the authority whose certificates clients must show\n(mutual TLS)");
}

void AddTopicFlags(const Group& topics, PredictorFlags& flags) {
  TopicRun::Options& options = flags.topics;
  topics.Add("--input-topic", options.input, "TOPIC", "The topic whose records are rows");
  topics.Add("--output-topic", options.output, "TOPIC",
             "The topic for the predictions, which must exist, on the same\ncluster");
  topics.Add("--error-topic", options.errors, "TOPIC",
             "The topic for the answers to records that hold no row\n[--output-topic]");
  topics.Add("--group", options.group, "NAME",
             "The consumer group whose positions are kept, and the transactional\nid "
             "[predictor.INPUT.OUTPUT]");
  topics
      .Add("--format", flags.format, "json|avro|csv",
           "What a record's value is: a JSON object, an Avro record, or a line of\nCSV [json]")
      ->check(CLI::IsMember({"json", "avro", "csv"}).description(""));
  topics.Add("--schema-registry", options.schemas.registry.url, "URL",
             "With --format avro: the schema registry whose header records have");
  topics.Add("--schema-registry-user-file", options.schemas.registry.user_file, "FILE",
             "Its one line is the login of the registry: USER:PASSWORD");
  topics.Add("--schema-registry-ca", options.schemas.registry.ca_file, "FILE",
             "PEM file of those who may have signed the registry's certificate\n[the system's]");
  topics.Add("--avro-schema", options.schemas.avro_schema_file, "FILE",
             "With --format avro: the schema of records that have no registry's\nheader");
  topics
      .Add("--columns", options.records.columns, "A,B,...",
           "With --format csv: the names of a line's fields")
      ->delimiter(',');
  topics.Add("--from", flags.from, "WHERE",
             "Where a new group begins: beginning, now, or a time (of the records'\ntimestamps, "
             "ISO 8601 or seconds since 1970) [beginning]");
  topics.AddSwitch("--until-end", options.until_end,
                   "Score what the topic holds at the start, and end");
  topics.AddSwitch("--with-row", options.records.with_row,
                   "Predictions have the row beside them, as the member row");
  topics
      .Add("--on-data-loss", flags.on_data_loss, "stop|continue",
           "When records were deleted before they were read: stop with an error,\nor count them, "
           "say so and continue after them [stop]")
      ->check(CLI::IsMember({"stop", "continue"}).description(""));
  topics
      .Add("--transaction-interval", flags.interval_s, "SECONDS",
           "Between transactions, at least: a prediction waits for so long at\nmost, 0.005 to 60 "
           "[0.05]")
      ->check(FiniteRange(0.005, 60));
}

// What Predictor does, by the flags that are given.
struct Mode {
  std::string_view name;
  std::string_view place;  // where flags of another mode are
  std::string_view group;
};
constexpr std::array<Mode, 3> kModes = {{
    {"a file", "with --input", kFile},
    {"topics", "with --input-topic", kTopics},
    {"HTTP", "where neither --input nor --input-topic is given", kHttp},
}};

// Likewise the flags of a challenger.
Status CheckChallenger(const PredictorFlags& flags, bool for_topics, bool for_http,
                       const CLI::App& app) {
  if (flags.challenger.empty()) {
    for (const char* const name : {"--id-column", "--max-waiting-bytes"}) {
      if (app.count(name) == 0) continue;
      return absl::InvalidArgumentError(absl::StrCat(name, " has no effect without --challenger"));
    }
    return absl::OkStatus();
  }
  if (for_topics) {
    return absl::InvalidArgumentError(
        "--challenger is for a file and for HTTP: compare two models by a file of the topic's rows "
        "with their labels (--input)");
  }
  if (for_http && flags.id_column.empty()) {
    return absl::InvalidArgumentError(
        "--challenger needs --id-column NAME over HTTP: the member of a row by whose value its "
        "label names it");
  }
  return absl::OkStatus();
}

// Flags that have no effect in this mode are a mistake.
Status CheckMode(const Mode& mode, const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0 || option->get_group() == mode.group) continue;
    if (option->get_name() == "--delimiter" && mode.group == kTopics) continue;
    for (const Mode& other : kModes) {
      if (option->get_group() != other.group) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(option->get_name(), " is for ", std::string(other.name),
                       ", and has no effect ", std::string(mode.place)));
    }
  }
  return absl::OkStatus();
}

// The same of the flags of a job that is not followed.
Status CheckJobFlags(bool for_topics, const CLI::App& app) {
  constexpr std::array<std::string_view, 4> kConnection = {"--brokers", "--kafka",
                                                           "--broker-timeout", "--config"};
  for (const CLI::Option* option : app.get_options()) {
    const std::string& name = option->get_name();
    const bool is_of_job = option->get_group() == kJob || name == "--config";
    if (option->count() == 0 || !is_of_job) continue;
    const bool is_of_connection = std::ranges::count(kConnection, name) > 0;
    if (for_topics && is_of_connection) continue;
    return absl::InvalidArgumentError(absl::StrCat(name, " has no effect without --follow",
                                                   is_of_connection ? " or --input-topic" : ""));
  }
  return absl::OkStatus();
}

}  // namespace

void AddPredictorFlags(CLI::App& app, PredictorFlags& flags) {
  app.add_option("--model", flags.model, "The folder of the model")->type_name("FOLDER");
  app.add_flag("--follow", flags.follow, "Predict by the newest weights of a running job (--job)");
  app.add_option("--challenger", flags.challenger,
                 "The folder of another model, whose figures are told beside those\nof --model or "
                 "--follow")
      ->type_name("FOLDER");
  AddFileFlags({app, kFile}, flags);
  AddHttpFlags({app, kHttp}, flags);
  AddTopicFlags({app, kTopics}, flags);
  app.add_flag("--quiet,-q", flags.quiet, "Print warnings and errors only");
}

Status CheckPredictorFlags(const PredictorFlags& flags, const CLI::App& app) {
  const auto wrong = [](const std::string& what) { return absl::InvalidArgumentError(what); };
  if (flags.model.empty() != flags.follow) {
    return wrong(
        "give the folder of a model (--model FOLDER), or follow a job (--follow --job ID)");
  }
  if (flags.input.empty() != flags.output.empty()) {
    return wrong("a file is scored with both --input FILE and --output FILE (\"-\": a pipe)");
  }
  if (flags.topics.input.empty() != flags.topics.output.empty()) {
    return wrong("topics are scored with both --input-topic TOPIC and --output-topic TOPIC");
  }
  const size_t mode = !flags.input.empty() ? 0 : !flags.topics.input.empty() ? 1 : 2;
  MILLRACE_RETURN_IF_ERROR(CheckMode(kModes[mode], app));
  MILLRACE_RETURN_IF_ERROR(CheckChallenger(flags, mode == 1, mode == 2, app));
  if (!flags.follow) {
    MILLRACE_RETURN_IF_ERROR(CheckJobFlags(!flags.topics.input.empty(), app));
  }
  if (!IsHostAndPort(flags.http.address)) return wrong("--listen must be HOST:PORT");
  if (flags.tls_cert.empty() != flags.tls_key.empty()) {
    return wrong("--tls-cert and --tls-key need each other");
  }
  if (!flags.tls_ca.empty() && flags.tls_cert.empty()) return wrong("--tls-ca needs --tls-cert");
  return absl::OkStatus();
}

}  // namespace millrace
