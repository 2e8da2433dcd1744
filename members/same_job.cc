#include "members/same_job.h"

#include <algorithm>

#include "base/check.h"
#include "base/printable.h"

namespace millrace {

Status CheckSameJob(std::span<const std::string> about, uint32_t self) {
  MILLRACE_CHECK(self < about.size());
  const auto having = [about](const std::string& each) { return std::ranges::count(about, each); };
  const std::string& most = *std::ranges::max_element(about, {}, having);
  if (about[self] != most) {
    return absl::FailedPreconditionError(
        "this WorkerApp belongs to " + about[self] +
        ", but most of the WorkerApps that have joined MasterApp at its --master-address belong "
        "to " +
        Printable(most) +
        ". Start it with the job file, the version and the --master-address of one job");
  }
  const auto other = std::ranges::find_if(about, [&](const auto& each) { return each != most; });
  if (other == about.end()) return absl::OkStatus();
  return absl::UnavailableError("member " + std::to_string(other - about.begin()) + " belongs to " +
                                Printable(*other) + ", not to " + most +
                                ": it ends with an error, and the others go on without it");
}

}  // namespace millrace
