#include "producer/schema_wait.h"

#include <thread>

#include "absl/strings/str_cat.h"
#include "base/backoff.h"

namespace millrace {

Status SchemaWait::Run(const std::function<Status()>& decode,
                       const std::function<Status()>& meanwhile) {
  Status decoded = decode();
  if (!absl::IsUnavailable(decoded)) return decoded;
  say_(absl::StrCat(decoded.message(), "; records wait until it does"));
  Backoff backoff(slice_, 50 * slice_);
  while (absl::IsUnavailable(decoded)) {
    backoff.Failed(std::chrono::steady_clock::now());
    while (!backoff.Ready(std::chrono::steady_clock::now())) {
      if (stop_) return absl::CancelledError("stopped while the schema registry was away");
      MILLRACE_RETURN_IF_ERROR(meanwhile());
      std::this_thread::sleep_for(slice_);
    }
    decoded = decode();
  }
  if (decoded.ok() || absl::IsInvalidArgument(decoded)) say_("the schema registry answers again");
  return decoded;
}

}  // namespace millrace
