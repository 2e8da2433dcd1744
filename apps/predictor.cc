// Predictor: predicts by an exported model, or by that of a running job: a file, a topic, or over
// HTTP.

#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "apps/config_checks.h"
#include "apps/job_flags.h"
#include "apps/model_figures.h"
#include "apps/predict_file.h"
#include "apps/predict_topic.h"
#include "apps/predictor_flags.h"
#include "apps/program.h"
#include "base/host_and_port.h"
#include "base/whole_file.h"
#include "follower/job_follower.h"
#include "job/stop_signal.h"
#include "predictor/challenger.h"
#include "predictor/http_server.h"
#include "predictor/model_folder.h"
#include "predictor/model_source.h"
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
  std::string token = text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
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

// Reads the newer models of a folder on a thread of its own until it is destroyed.
class NewerModels {
 public:
  // `name`: what the log calls such a model.
  NewerModels(ModelFolder& folder, std::string name)
      : folder_(folder), name_(std::move(name)), thread_([this] { Run(); }) {}
  ~NewerModels() {
    ended_ = true;
    thread_.join();
  }
  NewerModels(const NewerModels&) = delete;
  NewerModels& operator=(const NewerModels&) = delete;

 private:
  void Run() {
    using Now = std::chrono::steady_clock;
    constexpr std::chrono::milliseconds kLook(100);
    constexpr std::chrono::seconds kAgain(1);  // what cannot be read is large, perhaps
    Now::time_point next = Now::now();
    std::string said;
    while (!ended_) {
      std::this_thread::sleep_for(kLook);
      if (Now::now() < next) continue;
      const StatusOr<bool> is_new = folder_.Refresh();
      const std::string wrong(is_new.status().message());
      if (!is_new.ok()) next = Now::now() + kAgain;
      if (!wrong.empty() && wrong != said) spdlog::warn("the last {} is kept: {}", name_, wrong);
      said = wrong;
      if (is_new.ok() && *is_new) {
        const ModelDescription& model = folder_.model()->model().description;
        spdlog::info("a newer {}: job {}, {} rows", name_, model.job(), model.rows());
      }
    }
  }

  ModelFolder& folder_;
  const std::string name_;
  std::atomic<bool> ended_ = false;
  std::thread thread_;  // last: it uses all of the above
};

StatusOr<std::unique_ptr<ModelFolder>> OpenFolder(const std::string& path, const char* name,
                                                  const PredictorFlags& flags) {
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<ModelFolder> folder, ModelFolder::Open(path));
  const ModelDescription& model = folder->model()->model().description;
  if (!flags.quiet) {
    spdlog::info("{} {}: job {}, {} rows, label {}", name, path, model.job(), model.rows(),
                 model.features().label());
  }
  return folder;
}

// Answers until `stay` returns; the error is its. `challengers` is null if there is no challenger.
Status Serve(const PredictorFlags& flags, const ModelSource& models, ModelFolder* challengers,
             const std::function<Status()>& stay) {
  MILLRACE_ASSIGN_OR_RETURN(const HttpServerOptions options, ServerOptionsOf(flags));
  MILLRACE_ASSIGN_OR_RETURN(const std::string token, ReadToken(flags.token_file));
  const bool is_open = token.empty() && options.client_ca.empty();
  if (is_open && !IsLoopback(options.address)) {
    spdlog::warn("whoever reaches {} gets predictions; give --token-file or --tls-ca",
                 options.address);
  }
  std::unique_ptr<Challenger> challenger;
  std::optional<NewerModels> newer;
  if (challengers != nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(
        challenger,
        Challenger::Create(models, *challengers,
                           {.id_column = flags.id_column,
                            .most_waiting_bytes = flags.most_waiting_bytes,
                            .figures = [](const EvaluationSums& sums, const FeatureSpec& features) {
                              return ModelFiguresJson(sums, features).dump();
                            }}));
    newer.emplace(*challengers, "challenger");
  }
  const PredictionService service(models, {.token = token, .challenger = challenger.get()});
  MILLRACE_ASSIGN_OR_RETURN(
      const std::unique_ptr<HttpServer> server,
      HttpServer::Start(
          options, [&](const HttpRequest& request) { return service.Answer(request); },
          [&](const HttpRequest& head) { return service.Refuse(head); }));
  const std::string host = options.address.substr(0, options.address.rfind(':'));
  spdlog::info("listening on {}:{}", host, server->port());
  return stay();
}

Status RunByFolder(const PredictorFlags& flags, const JobConfig& config, ModelFolder* challenger,
                   const std::atomic<bool>& stop) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFolder> folder,
                            OpenFolder(flags.model, "model", flags));
  if (!flags.input.empty()) {
    return PredictFile(flags, folder->model(),
                       challenger == nullptr ? nullptr : challenger->model(), stop);
  }
  const NewerModels newer(*folder, "model");
  if (!flags.topics.input.empty()) return PredictTopic(flags, config, *folder, stop);
  return Serve(flags, *folder, challenger, [&] {
    while (!stop) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return absl::CancelledError("stopped");
  });
}

// Until it cannot follow, or `stop`; or, if wanted, until there is a model.
Status Wait(const JobFollower& follower, bool for_model, const std::atomic<bool>& stop) {
  while (!stop) {
    MILLRACE_RETURN_IF_ERROR(NotOfUsage(follower.failed()));
    if (for_model && follower.model() != nullptr) return absl::OkStatus();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return absl::CancelledError("stopped");
}

Status RunByJob(const PredictorFlags& flags, const JobConfig& config, ModelFolder* challenger,
                const std::atomic<bool>& stop) {
  const std::unique_ptr<JobFollower> follower = JobFollower::Start(config, CheckJob);
  const bool is_http = flags.input.empty() && flags.topics.input.empty();
  if (is_http) {
    return Serve(flags, *follower, challenger, [&] { return Wait(*follower, false, stop); });
  }
  MILLRACE_RETURN_IF_ERROR(Wait(*follower, true, stop));
  if (!flags.input.empty()) {
    return PredictFile(flags, follower->model(),
                       challenger == nullptr ? nullptr : challenger->model(), stop);
  }
  return PredictTopic(flags, config, *follower, stop);
}

Status Run(const PredictorFlags& flags, const JobFlags& job_flags, const CLI::App& app) {
  MILLRACE_RETURN_IF_ERROR(CheckPredictorFlags(flags, app));
  MILLRACE_ASSIGN_OR_RETURN(const JobConfig config, job_flags.Load());
  const std::atomic<bool>& stop = StopOnSignals();
  std::unique_ptr<ModelFolder> challenger;
  if (!flags.challenger.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(challenger, OpenFolder(flags.challenger, "challenger", flags));
  }
  return flags.follow ? RunByJob(flags, config, challenger.get(), stop)
                      : RunByFolder(flags, config, challenger.get(), stop);
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  CLI::App app(millrace::kPredictorDescription, "Predictor");
  app.footer(millrace::kPredictorFooter);
  millrace::PredictorFlags flags;
  millrace::AddPredictorFlags(app, flags);
  millrace::JobFlags job_flags(app);
  return millrace::RunProgram(app, "Predictor", argc, argv,
                              [&] { return millrace::Run(flags, job_flags, app); });
}
