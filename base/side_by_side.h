// A few jobs at the same time, for a thread that waits for them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace millrace {

// Used by one thread, the caller. Its other threads begin when there are jobs for them. They are
// left asleep when jobs are short, as those of the run before were: to wake a thread takes the
// processor time of a small step of training.
class SideBySide {
 public:
  // At most so many jobs run at the same time. 0: as many as the machine has processors.
  explicit SideBySide(size_t most = 0);
  // No job runs.
  ~SideBySide();
  SideBySide(const SideBySide&) = delete;
  SideBySide& operator=(const SideBySide&) = delete;

  // Calls job(0) .. job(count - 1), each once, in no order, on the caller's thread and perhaps
  // others. Returns when all have returned; the caller then sees everything that they have written.
  // Jobs do not throw. `after_own` (may be empty) is called on the caller's thread after each job
  // there.
  void Run(size_t count, const std::function<void(size_t)>& job,
           const std::function<void()>& after_own = nullptr);

 private:
  void Help();
  // Takes the next job. False: there is none.
  bool RunOne();

  const size_t most_;
  std::optional<std::chrono::steady_clock::duration> took_;  // a job of the last run, on average
  std::mutex mutex_;
  std::condition_variable work_;  // for the other threads
  std::condition_variable done_;  // for the caller
  // Guarded by mutex_.
  const std::function<void(size_t)>* job_ = nullptr;
  size_t next_ = 0;
  size_t count_ = 0;
  size_t running_ = 0;
  bool ending_ = false;

  std::vector<std::thread> threads_;  // last: they use all of the above
};

}  // namespace millrace
