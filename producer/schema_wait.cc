#include "producer/schema_wait.h"

#include <thread>

#include "absl/strings/str_cat.h"
#include "base/backoff.h"
#include "base/error_marks.h"

namespace millrace {

Status SchemaWait::Run(const std::function<Status()>& decode,
                       const std::function<Status()>& meanwhile) {
  Status decoded = decode();
  bool was_away = false;
  Backoff backoff(slice_, 50 * slice_);
  while (absl::IsUnavailable(decoded)) {
    const bool is_away = !IsPending(decoded);
    if (is_away) backoff.Failed(std::chrono::steady_clock::now());
    if (is_away && !std::exchange(was_away, true)) {
      say_(absl::StrCat(decoded.message(), "; records wait until it does"));
    }
    do {
      if (stop_) return absl::CancelledError("stopped while a schema registry was waited for");
      MILLRACE_RETURN_IF_ERROR(meanwhile());
      std::this_thread::sleep_for(is_away ? slice_ : kPendingSlice);
    } while (is_away && !backoff.Ready(std::chrono::steady_clock::now()));
    decoded = decode();
  }
  if (was_away && (decoded.ok() || absl::IsInvalidArgument(decoded))) {
    say_("the schema registry answers again");
  }
  return decoded;
}

}  // namespace millrace
