#include "apps/predictor_flags.h"

#include <cstddef>

#include "apps/version.h"
#include "base/host_and_port.h"

namespace millrace {

const char kPredictorDescription[] =
    "Millrace Predictor: predicts by the model of a job, which ServerApp has exported (--export, "
    "or\n"
    "the folder model of a snapshot): over HTTP, or of the rows of a CSV. It needs no Kafka.";

const char kPredictorFooter[] =
    "Examples\n"
    "  Score a file:\n"
    "    Predictor --model model --input new.csv --output scored.csv\n"
    "  Answer over HTTP, on this machine:\n"
    "    Predictor --model model\n"
    "    curl localhost:8080/predict -d '{\"carrier\": \"UA\", \"distance\": 1400}'\n"
    "  To other machines, over TLS, to whoever has the token:\n"
    "    Predictor --model model --listen 0.0.0.0:8443 --tls-cert cert.pem --tls-key key.pem \\\n"
    "        --token-file token\n"
    "\n"
    "A file gets a column predicted_LABEL and for each class a column probability_CLASS. Rows "
    "that\n"
    "cannot be used are left out, and written with line and reason to the reject file. If the "
    "file\n"
    "has the label, the figures of these rows are printed, too.\n"
    "\n"
    "Over HTTP: POST /predict takes a row as a JSON object, {\"column\": value, ...}, or an array "
    "of\n"
    "them, or NDJSON (Content-Type: application/x-ndjson). GET /model tells of the model, GET\n"
    "/healthz and /readyz whether it runs. When another model is put into the folder, it is read\n"
    "within a second; until then, and if it cannot be read, the last one answers.\n"
    "\n"
    "Exit codes: 0 the file is scored; 1 an error of the model, the input or the network; 2 wrong\n"
    "usage; 130 stopped by Ctrl-C or SIGTERM.";

namespace {

// Groups of flags.
constexpr char kFile[] = "A file";
constexpr char kHttp[] = "HTTP";

}  // namespace

void AddPredictorFlags(CLI::App& app, PredictorFlags& flags) {
  const auto in = [&app](const char* group) {
    return [&app, group](const char* name, auto& value, const char* type, const char* help) {
      return app.add_option(name, value, help)->type_name(type)->group(group);
    };
  };
  app.add_option("--model", flags.model, "The folder of the model")->type_name("FOLDER");
  const auto file = in(kFile);
  file("--input", flags.input, "FILE", "A CSV, also compressed by gzip or zstd; \"-\": a pipe");
  file("--output", flags.output, "FILE",
       "The scored CSV, which appears when it is complete; \"-\": a pipe");
  file("--reject-file", flags.reject_file, "FILE",
       "Rows that cannot be used [the input's name and .rejects.csv,\nin the current folder]");
  file("--figures", flags.figures, "FILE",
       "Write the figures of the rows with a label here, as JSON");
  file("--delimiter", flags.delimiter, "CHARACTER",
       "Separates the fields: comma, semicolon, tab, pipe, space, or an\nASCII character [found in "
       "the header]");
  file("--encoding", flags.encoding, "NAME", "utf8 or latin1 [utf8]")
      ->check(CLI::IsMember({"utf8", "latin1"}).description(""));
  const auto http = in(kHttp);
  http("--listen", flags.http.address, "HOST:PORT",
       "Where to answer; port 0: a free one [127.0.0.1:8080]");
  http("--threads", flags.http.threads, "N", "Requests that are answered at once, 1 to 256 [2]")
      ->check(CLI::Range(1, 256).description(""));
  http("--max-request-bytes", flags.http.most_body_bytes, "BYTES",
       "Larger requests are refused; up to 256 MiB [16777216]")
      ->check(CLI::Range(size_t{1}, size_t{256} << 20).description(""));
  http("--timeout", flags.timeout_s, "SECONDS",
       "A request must have come, and an idle connection is closed, after\nso long, 1 to 3600 [30]")
      ->check(CLI::Range(1, 3600).description(""));
  http("--token-file", flags.token_file, "FILE",
       "Its one line is what requests must show:\nAuthorization: Bearer TOKEN");
  http("--tls-cert", flags.tls_cert, "FILE", "PEM file of the server's certificate [no TLS]");
  http("--tls-key", flags.tls_key, "FILE", "Its private key, PEM");
  http("--tls-ca", flags.tls_ca, "FILE",
       "PEM file of the authority whose certificates clients must show\n(mutual TLS)");
  app.add_flag("--quiet,-q", flags.quiet, "Print warnings and errors only");
  app.set_version_flag("--version", std::string("Millrace ") + MillraceVersion());
}

Status CheckPredictorFlags(const PredictorFlags& flags, const CLI::App& app) {
  const auto wrong = [](const std::string& what) { return absl::InvalidArgumentError(what); };
  if (flags.model.empty()) return wrong("give the folder of a model: --model FOLDER");
  if (flags.input.empty() != flags.output.empty()) {
    return wrong("a file is scored with both --input FILE and --output FILE (\"-\": a pipe)");
  }
  const bool is_file = !flags.input.empty();
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0 || option->get_group() != (is_file ? kHttp : kFile)) continue;
    return wrong(option->get_name() + (is_file
                                           ? " is for HTTP, and has no effect with --input"
                                           : " is for a file, and has no effect without --input"));
  }
  if (!IsHostAndPort(flags.http.address)) return wrong("--listen must be HOST:PORT");
  if (flags.tls_cert.empty() != flags.tls_key.empty()) {
    return wrong("--tls-cert and --tls-key need each other");
  }
  if (!flags.tls_ca.empty() && flags.tls_cert.empty()) return wrong("--tls-ca needs --tls-cert");
  return absl::OkStatus();
}

}  // namespace millrace
