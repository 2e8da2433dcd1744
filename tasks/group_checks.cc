#include "tasks/group_checks.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "models/parameter_handler.h"
#include "tasks/parameter_options.h"
#include "tasks/task_options.h"

namespace millrace {
namespace {

Status CannotExchange(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(
      "several groups of servers cannot train this job together (docs/topologies.md): ", what));
}

}  // namespace

Status CheckTrainsInGroups(const Training& training) {
  if (training.optimizer().kind() == Training::Optimizer::FTRL) {
    return CannotExchange(
        "the weights of --optimizer ftrl follow from its own sums, so that what is added to "
        "them is lost: give another optimizer");
  }
  if (training.on_drift() == Training::FORGET) {
    return CannotExchange(
        "--on-drift forget has each group forget at another moment: leave it out");
  }
  if (training.sharding() == Training::DYNAMIC) {
    return CannotExchange(
        "--sharding dynamic leases rows to the workers of one group: leave it out");
  }
  return absl::OkStatus();
}

Status CheckModelInGroups(const JobFeatures& features, const Training& training) {
  MILLRACE_RETURN_IF_ERROR(CheckTrainsInGroups(training));
  for (const NamedParameter& parameter : features.parameters()) {
    if (parameter.has_table()) {
      return CannotExchange(absl::StrCat("they do not exchange the rows of the table ",
                                         parameter.name(), ": make it a parameter"));
    }
    if (parameter.handler() == "ftrl") {
      return CannotExchange(absl::StrCat("the values of the parameter ", parameter.name(),
                                         " follow from the sums of its handler ftrl, so that what "
                                         "is added to them is lost: give it another handler"));
    }
    const std::unique_ptr<ParameterHandler> handler = MakeParameterHandler(parameter.handler(), {});
    if (handler == nullptr || handler->combination() == ParameterHandler::Combination::kSum) {
      continue;
    }
    return CannotExchange(absl::StrCat("the handler of the parameter ", parameter.name(),
                                       " takes the last update, and not their sum: give it another "
                                       "handler"));
  }
  if (IsExternal(training) || MakeModel(features, training)->row_width() == 0) {
    return absl::OkStatus();
  }
  return CannotExchange(
      "it has embedding rows, which they do not exchange. For a model of dense weights leave out "
      "--ids and --model fm and deepfm, and give fewer buckets (CsvProducer --categorical-buckets, "
      "--text-buckets), or a higher --wide-above");
}

}  // namespace millrace
