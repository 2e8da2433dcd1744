#include "job/same_settings.h"

#include <google/protobuf/util/message_differencer.h>

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/error_marks.h"

namespace millrace {
namespace {

// Which fields differ, as "path: a -> b" lines joined by "; ".
template <typename Message>
Status CheckEqual(const Message& published, const Message& ours, std::string_view what) {
  google::protobuf::util::MessageDifferencer differencer;
  // A default that is written down is no difference.
  differencer.set_message_field_comparison(google::protobuf::util::MessageDifferencer::EQUIVALENT);
  std::string differences;
  differencer.ReportDifferencesToString(&differences);
  if (differencer.Compare(published, ours)) return absl::OkStatus();
  for (char& c : differences) {
    if (c == '\n') c = ';';
  }
  return absl::FailedPreconditionError(
      "this job was started with another " + std::string(what) + " (published -> given): " +
      differences + " give the same settings, or start a new job (another --job)");
}

// A job learns from rows, or has parameters of trainers of its own.
Status CheckSameTrainers(const JobFeatures& published, const JobFeatures& ours) {
  if (published.parameters().empty() == ours.parameters().empty()) return absl::OkStatus();
  const std::string what =
      published.parameters().empty()
          ? "CsvProducer or TopicSource has published features in this job, so it learns from rows"
          : "trainers of one's own have published their parameters in this job (ServerApp --model "
            "external), so it learns from no rows";
  return absl::FailedPreconditionError(what + ": start a new job (another --job)");
}

}  // namespace

Status CheckSameFeatures(const JobFeatures& published, const JobFeatures& given) {
  MILLRACE_RETURN_IF_ERROR(CheckSameTrainers(published, given));
  return CheckEqual(published, given, "set of features");
}

Status CheckSameTraining(const JobTraining& published, const JobTraining& given) {
  Status same = CheckEqual(published, given, "set of training settings");
  if (same.ok() || published.shards() == given.shards()) return same;
  return WithText(same,
                  std::string(same.message()) +
                      ". (--shards is what the job began with, also after MasterApp reshard)");
}

Status CheckSameWorkers(const JobFeatures& published, const JobConfig& given) {
  if (published.workers() == given.workers()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the job ", given.name(), " was started with --workers ", published.workers(), ", here are ",
      given.workers(), ": give the same number, or start a new job (another --job)"));
}

Status CheckSameSharding(const JobConfig& config, Training::Sharding begun,
                         Training::Sharding given) {
  if (begun == given) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the job ", config.name(), " was begun with --sharding ",
                   begun == Training::DYNAMIC ? "dynamic" : "static",
                   ", which cannot be changed: give that, or start a new job (another --job)"));
}

}  // namespace millrace
