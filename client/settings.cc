#include "client/settings.h"

#include <cmath>
#include <string>

#include "topics/most_workers.h"
#include "topics/names.h"

namespace millrace::client {
namespace {

Code CodeOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return Code::kOk;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kOutOfRange:
      return Code::kInvalidArgument;
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
      return Code::kFailedPrecondition;
    case absl::StatusCode::kDeadlineExceeded:
      return Code::kDeadlineExceeded;
    case absl::StatusCode::kCancelled:
      return Code::kCancelled;
    case absl::StatusCode::kUnavailable:
      return Code::kUnavailable;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return Code::kPermissionDenied;
    case absl::StatusCode::kDataLoss:
      return Code::kDataLoss;
    default:
      return Code::kInternal;
  }
}

}  // namespace

Status ToPublic(const absl::Status& status) {
  if (status.ok()) return {};
  return {CodeOf(status.code()), std::string(status.message())};
}

JobConfig ConfigOf(const Settings& settings) {
  JobConfig config;
  config.set_name(settings.job);
  config.set_epoch(settings.epoch);
  config.set_brokers(settings.brokers);
  config.set_workers(settings.trainers);
  config.set_broker_timeout_s(settings.timeout_s);
  Answers& answers = *config.mutable_answers();
  answers.set_tls_cert(settings.answers_tls_cert);
  answers.set_tls_key(settings.answers_tls_key);
  answers.set_tls_ca(settings.answers_tls_ca);
  answers.set_insecure(settings.answers_insecure);
  for (const auto& [key, value] : settings.kafka) {
    KafkaSetting& setting = *config.add_kafka();
    setting.set_key(key);
    setting.set_value(value);
  }
  return config;
}

absl::Status CheckSettings(const Settings& settings) {
  MILLRACE_RETURN_IF_ERROR(CheckJobName("Settings.job", settings.job));
  if (settings.trainers < 1 || settings.trainers > kMostWorkers) {
    return absl::InvalidArgumentError("Settings.trainers: give 1 to " +
                                      std::to_string(kMostWorkers));
  }
  if (settings.trainer >= settings.trainers) {
    return absl::InvalidArgumentError("Settings.trainer: " + std::to_string(settings.trainer) +
                                      " is not one of 0 to " +
                                      std::to_string(settings.trainers - 1));
  }
  if (std::isfinite(settings.timeout_s) && settings.timeout_s >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError("Settings.timeout_s: give 0 or more seconds");
}

}  // namespace millrace::client
