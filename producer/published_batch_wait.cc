#include "producer/published_batch_wait.h"

#include <algorithm>
#include <cmath>

#include "job/job_registry.h"
#include "kafka/timeouts.h"
#include "topics/batch_wait.h"

namespace millrace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

PublishedBatchWait::PublishedBatchWait(const JobConfig& config)
    : thread_([this, config] { Watch(config); }) {}

PublishedBatchWait::~PublishedBatchWait() {
  stop_ = true;
  thread_.join();
}

std::optional<milliseconds> PublishedBatchWait::Get() const {
  const int64_t wait_ms = wait_ms_;
  return wait_ms > 0 ? std::optional(milliseconds(wait_ms)) : std::nullopt;
}

// JobRegistry::WaitForTraining would tell the user that the sender waits, which it does not, and
// would ask the broker all the time.
void PublishedBatchWait::Watch(const JobConfig& config) {
  constexpr std::chrono::seconds kAskEvery(1);
  JobConfig hasty = config;  // it is asked again, so no call waits for a broker for long
  hasty.set_broker_timeout_s(1);
  const StatusOr<std::unique_ptr<JobRegistry>> registry = JobRegistry::Create(hasty, stop_);
  if (!registry.ok()) return;  // nor could the rows be sent with such settings
  while (!stop_) {
    const StatusOr<std::optional<JobTraining>> training = (*registry)->ReadTraining();
    if (training.ok() && *training) {
      const double wait_s = BatchWaitOf((*training)->training());
      // A wait is a millisecond at least, unless there is none.
      wait_ms_ = static_cast<int64_t>(std::ceil(std::min(wait_s, 1e6) * 1000));
      return;
    }
    for (const auto next = steady_clock::now() + kAskEvery; !stop_ && steady_clock::now() < next;) {
      std::this_thread::sleep_for(kPoll);
    }
  }
}

}  // namespace millrace
