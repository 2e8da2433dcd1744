// Waits for a schema registry that has not answered yet, or is away.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "base/status.h"

namespace millrace {

// Used by one thread.
class SchemaWait {
 public:
  using Say = std::function<void(const std::string& line)>;

  // `say` gets a line when the registry is away, and one when it is back. `stop` outlives it.
  // `slice`: between two looks at `stop`.
  SchemaWait(Say say, const std::atomic<bool>& stop,
             std::chrono::milliseconds slice = std::chrono::milliseconds(100))
      : say_(std::move(say)), stop_(stop), slice_(slice) {}

  // Calls `decode` until it returns anything but Unavailable, after .1 s, .2 s .. 5 s, and while it
  // is marked as pending every kPendingSlice; in between `meanwhile`, whose error it returns.
  // Cancelled if it is stopped.
  Status Run(const std::function<Status()>& decode, const std::function<Status()>& meanwhile);

  static constexpr std::chrono::milliseconds kPendingSlice{2};

 private:
  const Say say_;
  const std::atomic<bool>& stop_;
  const std::chrono::milliseconds slice_;
};

}  // namespace millrace
