// Predictor: predicts by an exported model: a file, or over HTTP.

#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>

#include "apps/program.h"
#include "apps/version.h"
#include "base/atomic_file.h"
#include "base/host_and_port.h"
#include "base/whole_file.h"
#include "features/csv_format.h"
#include "formats/reject_file.h"
#include "job/stop_signal.h"
#include "predictor/http_server.h"
#include "predictor/model_folder.h"
#include "predictor/prediction_service.h"
#include "predictor/score_file.h"
#include "producer/progress_display.h"
#include "topics/figures_codec.h"
#include "watch/figures_json.h"

namespace millrace {
namespace {

constexpr char kDescription[] =
    "Millrace Predictor: predicts by the model of a job, which ServerApp has exported (--export, "
    "or\n"
    "the folder model of a snapshot): over HTTP, or of the rows of a CSV. It needs no Kafka.";

constexpr char kFooter[] =
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

// Groups of flags.
constexpr char kFile[] = "A file";
constexpr char kHttp[] = "HTTP";

struct Flags {
  std::string model;
  // A file.
  std::string input;
  std::string output;
  std::string reject_file;
  std::string figures;
  std::string delimiter;
  std::string encoding = "utf8";
  bool quiet = false;
  // HTTP.
  std::string token_file;
  std::string tls_cert;
  std::string tls_key;
  std::string tls_ca;
  uint32_t timeout_s = 30;
  HttpServerOptions http;
};

// Bar and lines of CsvProducer: the rows that are scored take the place of those that are sent.
class Progress {
 public:
  explicit Progress(bool quiet) : display_(quiet) {}

  void Show(const CsvFile& file, const FileScores& so_far) {
    ProducerProgress progress;
    progress.set_bytes_read(file.bytes_read());
    progress.set_bytes_total(file.total_bytes().value_or(0));
    progress.set_rows_read(so_far.rows + so_far.rejected);
    progress.set_rows_sent(so_far.rows);
    progress.set_rows_rejected(so_far.rejected);
    display_.Show(std::chrono::steady_clock::now(), progress, false);
  }
  ProgressDisplay& display() { return display_; }

 private:
  ProgressDisplay display_;
};

Status SayFigures(const ModelDescription& model, const FileScores& scores, const std::string& path,
                  ProgressDisplay& display) {
  if (scores.labelled.rows == 0) {
    if (path.empty()) return absl::OkStatus();
    return absl::FailedPreconditionError("--figures: no row has a label");
  }
  Figures figures;
  ToProto(ComputeFigures(scores.labelled, model.shape().classes()), figures);
  const nlohmann::ordered_json json = FiguresJson(figures, model.features().classes());
  nlohmann::ordered_json brief = nlohmann::ordered_json::object();
  for (const auto& [name, value] : json.items()) {
    if (value.is_number()) brief[name] = value;
  }
  display.Say("of the rows with a label: " + brief.dump());
  return path.empty() ? absl::OkStatus() : WriteAtomicFile(path, json.dump(2) + "\n");
}

// "1 row is", "12 rows are"
std::string Counted(uint64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? " is" : "s are");
}

bool IsSameFile(const std::string& a, const std::string& b) {
  std::error_code unknown;  // then they are none
  if (std::filesystem::equivalent(a, b, unknown)) {
    return std::filesystem::is_regular_file(a, unknown);
  }
  const auto whole = [&](const std::string& path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, unknown), unknown);
  };
  return whole(a) == whole(b);
}

// None may be written over another one.
Status CheckFiles(const Flags& flags, const std::string& rejects) {
  const std::pair<const char*, std::string> files[] = {{"--input", flags.input},
                                                       {"--output", flags.output},
                                                       {"--reject-file", rejects},
                                                       {"--figures", flags.figures}};
  for (size_t i = 0; i < std::size(files); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const std::string& a = files[i].second;
      const std::string& b = files[j].second;
      if (a.empty() || b.empty() || a == "-" || b == "-" || !IsSameFile(a, b)) continue;
      return absl::InvalidArgumentError(std::string(files[i].first) + " is the same file as " +
                                        files[j].first + ": " + a);
    }
  }
  return absl::OkStatus();
}

Status Score(const Flags& flags, const ModelFolder& folder, const std::atomic<bool>& stop) {
  CsvFormat format;
  if (!flags.delimiter.empty()) format.set_delimiter(flags.delimiter);
  format.set_encoding(flags.encoding == "latin1" ? CsvFormat::LATIN1 : CsvFormat::UTF8);
  CsvFile::Options options;
  MILLRACE_RETURN_IF_ERROR(ApplyCsvFormat(format, &options));
  options.stop = &stop;
  const std::string path =
      flags.reject_file.empty() ? DefaultRejectPath(flags.input) : flags.reject_file;
  MILLRACE_RETURN_IF_ERROR(CheckFiles(flags, path));
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<RejectFile> rejects,
                            RejectFile::Create(path, flags.input));
  MILLRACE_RETURN_IF_ERROR(rejects->Accept());
  Progress progress(flags.quiet);
  const std::shared_ptr<const ModelScorer> model = folder.model();
  const StatusOr<FileScores> scored = ScoreFile(
      model, flags.input, options, flags.output, *rejects,
      [&](const CsvFile& file, const FileScores& so_far) { progress.Show(file, so_far); });
  MILLRACE_RETURN_IF_ERROR(NotOfUsage(scored.status()));
  const FileScores& scores = *scored;
  ProgressDisplay& display = progress.display();
  if (scores.rejected > 0) {
    display.Warn(Counted(scores.rejected, "row") + " not scored but in " + path +
                 "; the first: " + scores.first_reject);
  }
  if (scores.rows == 0) display.Warn(flags.input + " has no rows");
  if (scores.unknown_labels > 0) {
    display.Warn(Counted(scores.unknown_labels, "label") +
                 " not known, and in no figure; the first: " + scores.first_unknown_label);
  }
  display.Say(Counted(scores.rows, "row") +
              " scored: " + (flags.output == "-" ? "standard output" : flags.output));
  return SayFigures(model->model().description, scores, flags.figures, display);
}

StatusOr<std::string> ReadSmallFile(const std::string& path) {
  constexpr size_t kMostBytes = size_t{1} << 20;
  StatusOr<std::string> text = ReadWholeFile(path, kMostBytes);
  if (!text.ok()) {
    return Status(text.status().code(),
                  "cannot read " + path + ": " + std::string(text.status().message()));
  }
  if (text->empty()) return absl::FailedPreconditionError(path + " is empty");
  return text;
}

StatusOr<std::string> ReadToken(const std::string& path) {
  if (path.empty()) return std::string();
  constexpr size_t kMostBytes = 4096;  // headers are no longer than some of these
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path));
  const std::string token = text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
  const auto is_visible = [](char c) { return c > ' ' && c < '\x7f'; };
  if (!token.empty() && token.size() <= kMostBytes && std::ranges::all_of(token, is_visible)) {
    return token;
  }
  return absl::FailedPreconditionError(
      path + " (--token-file) must be one line of visible ASCII characters, 4,096 at most");
}

StatusOr<HttpServerOptions> ServerOptionsOf(const Flags& flags) {
  HttpServerOptions options = flags.http;
  options.timeout = std::chrono::seconds(flags.timeout_s);
  const auto read = [](const std::string& path, std::string* text) -> Status {
    if (path.empty()) return absl::OkStatus();
    MILLRACE_ASSIGN_OR_RETURN(*text, ReadSmallFile(path));
    return absl::OkStatus();
  };
  MILLRACE_RETURN_IF_ERROR(read(flags.tls_cert, &options.certificate));
  MILLRACE_RETURN_IF_ERROR(read(flags.tls_key, &options.key));
  MILLRACE_RETURN_IF_ERROR(read(flags.tls_ca, &options.client_ca));
  return options;
}

// Reads newer models until `stop`.
void Follow(ModelFolder& folder, const std::atomic<bool>& stop) {
  using Now = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kLook(100);
  constexpr std::chrono::seconds kAgain(1);  // what cannot be read is large, perhaps
  Now::time_point next = Now::now();
  std::string said;
  while (!stop) {
    std::this_thread::sleep_for(kLook);
    if (Now::now() < next) continue;
    const StatusOr<bool> is_new = folder.Refresh();
    const std::string wrong(is_new.status().message());
    if (!is_new.ok()) next = Now::now() + kAgain;
    if (!wrong.empty() && wrong != said) spdlog::warn("the last model is kept: {}", wrong);
    said = wrong;
    if (is_new.ok() && *is_new) {
      const ModelDescription& model = folder.model()->model().description;
      spdlog::info("a newer model: job {}, {} rows", model.job(), model.rows());
    }
  }
}

Status Serve(const Flags& flags, ModelFolder& folder, const std::atomic<bool>& stop) {
  MILLRACE_ASSIGN_OR_RETURN(const HttpServerOptions options, ServerOptionsOf(flags));
  MILLRACE_ASSIGN_OR_RETURN(const std::string token, ReadToken(flags.token_file));
  const bool is_open = token.empty() && options.client_ca.empty();
  if (is_open && !IsLoopback(options.address)) {
    spdlog::warn("whoever reaches {} gets predictions; give --token-file or --tls-ca",
                 options.address);
  }
  const PredictionService service(folder, {.token = token});
  MILLRACE_ASSIGN_OR_RETURN(
      const std::unique_ptr<HttpServer> server,
      HttpServer::Start(
          options, [&](const HttpRequest& request) { return service.Answer(request); },
          [&](const HttpRequest& head) { return service.Refuse(head); }));
  const std::string host = options.address.substr(0, options.address.rfind(':'));
  spdlog::info("listening on {}:{}", host, server->port());
  Follow(folder, stop);
  return absl::CancelledError("stopped");
}

Status CheckFlags(const Flags& flags, const CLI::App& app) {
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

Status Run(const Flags& flags, const CLI::App& app) {
  MILLRACE_RETURN_IF_ERROR(CheckFlags(flags, app));
  const std::atomic<bool>& stop = StopOnSignals();
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFolder> folder,
                            ModelFolder::Open(flags.model));
  const ModelDescription& model = folder->model()->model().description;
  if (!flags.quiet) {
    spdlog::info("model {}: job {}, {} rows, label {}", flags.model, model.job(), model.rows(),
                 model.features().label());
  }
  return flags.input.empty() ? Serve(flags, *folder, stop) : Score(flags, *folder, stop);
}

void AddFlags(CLI::App& app, Flags& flags) {
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

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  CLI::App app(millrace::kDescription, "Predictor");
  app.footer(millrace::kFooter);
  millrace::Flags flags;
  millrace::AddFlags(app, flags);
  return millrace::RunProgram(app, "Predictor", argc, argv,
                              [&] { return millrace::Run(flags, app); });
}
