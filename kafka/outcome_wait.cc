#include "kafka/outcome_wait.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace millrace {
namespace {

using std::chrono::duration;
using std::chrono::steady_clock;

constexpr char kRemedy[] =
    "check the brokers, above all the one that coordinates transactions (the leader of "
    "__transaction_state)";

}  // namespace

Status OutcomeWait::Run(const std::function<Status()>& call) const {
  const auto begin = steady_clock::now();
  steady_clock::duration pause = options_.first;
  auto next = begin + pause;
  bool has_warned = false;
  const auto waited = [begin] { return duration<double>(steady_clock::now() - begin).count(); };
  Status done = retry_.Run([&] {
    Status answer = call();
    if (!IsAway(answer) || steady_clock::now() < next) return answer;
    options_.warn(absl::StrFormat(
        "Kafka has not said for %.0f s whether a transaction of %s was written (%s). %s asks again "
        "%s; %s",
        waited(), options_.topic, answer.message(), options_.program,
        options_.timeout_s > 0 ? absl::StrCat("until --broker-timeout, ", options_.timeout_s, " s,")
                               : "without limit (--broker-timeout sets one)",
        kRemedy));
    has_warned = true;
    pause = std::min<steady_clock::duration>(2 * pause, kMost);
    next = steady_clock::now() + pause;
    return answer;
  });
  if (IsAway(done)) {
    return Status(done.code(),
                  absl::StrFormat("%s; whether a transaction of %s was written is not known after "
                                  "%.0f s, and --broker-timeout is %s s. %s; then start %s again: "
                                  "it finds out, and continues there",
                                  done.message(), options_.topic, waited(),
                                  absl::StrCat(options_.timeout_s), kRemedy, options_.program));
  }
  if (has_warned && !absl::IsCancelled(done)) {
    options_.warn(absl::StrFormat("Kafka answers again, after %.0f s", waited()));
  }
  return done;
}

}  // namespace millrace
