#include "tasks/parameter_options.h"

#include <memory>
#include <string>

#include "base/check.h"
#include "models/parameter_handler.h"
#include "topics/parameter_layout.h"

namespace millrace {
namespace {

// Of FTRL, whose formula divides by the rate and has no decay.
Status CheckHandler(const NamedParameter& parameter, const Training& training) {
  const Training::Optimizer& optimizer = training.optimizer();
  const bool is_ftrl =
      parameter.handler() == "ftrl" ||
      (parameter.handler().empty() && optimizer.kind() == Training::Optimizer::FTRL);
  if (!is_ftrl) return absl::OkStatus();
  const auto wrong = [&parameter](const std::string& what) {
    return absl::InvalidArgumentError((parameter.has_table() ? "the table " : "the parameter ") +
                                      parameter.name() + ": the handler ftrl " + what);
  };
  if (parameter.table().scale() > 0) {
    return wrong("makes values of its sums, which begin at zero: give its rows the scale 0");
  }
  if (optimizer.decay() > 0) return wrong("does not go together with --decay: leave it out");
  const double rate = optimizer.learning_rate() * parameter.learning_rate_multiplier();
  if (rate >= 1e-6 && rate <= 1e6) return absl::OkStatus();
  return wrong("needs a learning rate, times the parameter's multiplier, of 1e-6 to 1e6");
}

}  // namespace

Status CheckExternalSettings(const Training& training) {
  const auto wrong = [](const std::string& what) {
    return absl::InvalidArgumentError("--model external: " + what);
  };
  if (training.update().kind() != Training::Update::GRADIENT) {
    return wrong("trainers send gradients, or what a handler takes: leave out --update");
  }
  if (training.compression().values() != Training::Compression::FLOAT32 ||
      training.compression().top_k() < 1) {
    return wrong("updates are not compressed: leave out --compress and --top-k");
  }
  if (training.schedule() == Training::BUFFER) {
    return wrong("there are no rows that could be kept: leave out --schedule");
  }
  if (training.sharding() == Training::DYNAMIC) {
    return wrong("no rows are leased: leave out --sharding");
  }
  if (training.distribution_strategy() != Training::PARAMETER_SERVER) {
    return wrong("the parameters are on servers: leave out --distribution-strategy");
  }
  return absl::OkStatus();
}

Status CheckParameters(const JobFeatures& features, const Training& training) {
  if (!IsExternal(training)) {
    if (features.parameters().empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "a trainer has registered parameters of its own in this job: start ServerApp with --model "
        "external, or use another --job");
  }
  MILLRACE_RETURN_IF_ERROR(CheckExternalSettings(training));
  MILLRACE_RETURN_IF_ERROR(LayOutParameters(features).status());
  if (features.parameters().empty()) {
    return absl::InvalidArgumentError(
        "--model external: this job has no parameters. A trainer registers them "
        "(docs/parameter-manager.md); CsvProducer, which has published features here, is for the "
        "other models. Use another --job");
  }
  if (features.feature_count() > 0 || features.spec().classes_size() > 0) {
    return absl::InvalidArgumentError("--model external: parameters beside features of rows");
  }
  for (const NamedParameter& parameter : features.parameters()) {
    MILLRACE_RETURN_IF_ERROR(CheckHandler(parameter, training));
  }
  return absl::OkStatus();
}

Status CheckHandlers(const JobFeatures& features) {
  for (const NamedParameter& parameter : features.parameters()) {
    if (IsParameterHandler(parameter.handler())) continue;
    return absl::FailedPreconditionError(
        "the parameter " + parameter.name() + ": this server program has no handler " +
        parameter.handler() + "; it has " + ParameterHandlerNames() +
        ". Start the one that has it; or let the trainers name one of these, with another --job");
  }
  return absl::OkStatus();
}

Status CheckLearnsRows(const JobFeatures& features) {
  if (features.parameters().empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the job's parameters are those of a trainer of its own (ServerApp --model external), so "
      "there are no rows to learn from: start its trainers, or use another --job");
}

Status CheckHasModel(const JobFeatures& features) {
  if (features.parameters().empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the job's parameters are those of a trainer of its own (ServerApp --model external), and "
      "only that knows how to predict by them: read the numbers from the job's snapshots, or from "
      "its --weights-file (docs/parameter-manager.md)");
}

std::vector<ServedParameter> ServedParametersOf(const JobFeatures& features,
                                                const Training& training,
                                                const OptimizerOptions& optimizer) {
  std::vector<ServedParameter> served;
  if (!IsExternal(training)) return served;
  const StatusOr<std::vector<KeyRange>> keys = LayOutParameters(features);
  MILLRACE_CHECK(keys.ok());
  for (size_t i = 0; i < keys->size(); ++i) {
    const NamedParameter& parameter = features.parameters(static_cast<int>(i));
    const HandlerSettings settings = {
        .optimizer = optimizer,
        .l2 = training.l2(),
        .learning_rate_multiplier = parameter.learning_rate_multiplier(),
        .decay_multiplier = parameter.decay_multiplier()};
    served.push_back({.keys = (*keys)[i],
                      .handler = MakeParameterHandler(parameter.handler(), settings),
                      .row_width = parameter.has_table() ? size_t{parameter.shape(0)} : 0,
                      .row_scale = static_cast<float>(parameter.table().scale())});
    MILLRACE_CHECK(served.back().handler != nullptr);
  }
  return served;
}

}  // namespace millrace
