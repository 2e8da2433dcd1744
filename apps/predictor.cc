// Predictor: predicts by an exported model: a file, a topic, or over HTTP.

#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "apps/predict_file.h"
#include "apps/predict_topic.h"
#include "apps/predictor_flags.h"
#include "apps/program.h"
#include "base/host_and_port.h"
#include "base/whole_file.h"
#include "job/stop_signal.h"
#include "predictor/http_server.h"
#include "predictor/model_folder.h"
#include "predictor/prediction_service.h"

namespace millrace {
namespace {

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

StatusOr<HttpServerOptions> ServerOptionsOf(const PredictorFlags& flags) {
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

Status Serve(const PredictorFlags& flags, ModelFolder& folder, const std::atomic<bool>& stop) {
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

Status Run(const PredictorFlags& flags, const CLI::App& app) {
  MILLRACE_RETURN_IF_ERROR(CheckPredictorFlags(flags, app));
  const std::atomic<bool>& stop = StopOnSignals();
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFolder> folder,
                            ModelFolder::Open(flags.model));
  const ModelDescription& model = folder->model()->model().description;
  if (!flags.quiet) {
    spdlog::info("model {}: job {}, {} rows, label {}", flags.model, model.job(), model.rows(),
                 model.features().label());
  }
  if (!flags.input.empty()) return PredictFile(flags, *folder, stop);
  if (flags.topics.input.empty()) return Serve(flags, *folder, stop);
  std::atomic<bool> ended = false;
  std::thread follower([&] { Follow(*folder, ended); });
  Status scored = PredictTopic(flags, *folder, stop);
  ended = true;
  follower.join();
  return scored;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  CLI::App app(millrace::kPredictorDescription, "Predictor");
  app.footer(millrace::kPredictorFooter);
  millrace::PredictorFlags flags;
  millrace::AddPredictorFlags(app, flags);
  return millrace::RunProgram(app, "Predictor", argc, argv,
                              [&] { return millrace::Run(flags, app); });
}
