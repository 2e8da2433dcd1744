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
        "this process is of " + about[self] + ", but most that MasterApp at its --master-address " +
        "lets train together are of " + Printable(most) +
        ". Give it the job file, the version and the --master-address of its own job");
  }
  const auto other = std::ranges::find_if(about, [&](const auto& each) { return each != most; });
  if (other == about.end()) return absl::OkStatus();
  return absl::UnavailableError("member " + std::to_string(other - about.begin()) + " is of " +
                                Printable(*other) + ", and not of " + most +
                                ": it will end itself");
}

}  // namespace millrace
