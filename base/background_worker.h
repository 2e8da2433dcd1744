// A thread that runs jobs one after the other, in the background of the thread that adds them.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace millrace {

// Thread-safe, except that it is destroyed by one thread when nobody else uses it.
class BackgroundWorker {
 public:
  using Job = std::function<void()>;

  // `on_idle` (may be empty) is called on the worker's thread whenever the last job has run.
  explicit BackgroundWorker(Job on_idle = nullptr);
  // Waits for the job that runs, and drops those that still wait.
  ~BackgroundWorker();
  BackgroundWorker(const BackgroundWorker&) = delete;
  BackgroundWorker& operator=(const BackgroundWorker&) = delete;

  // Queues a job; returns at once. A job of the same key that still waits is replaced in its place:
  // of an evaluation, or of a position to trim, only the newest is worth the work.
  void Post(std::string key, Job job);
  // No job runs or waits. A caller that gets true sees everything that the jobs have written.
  bool idle() const;
  // Returns when no job runs or waits.
  void WaitUntilIdle();

 private:
  void Run();

  const Job on_idle_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<std::string, Job>> jobs_;  // guarded by mutex_
  bool running_ = false;                          // guarded by mutex_
  bool ending_ = false;                           // guarded by mutex_
  std::thread thread_;                            // last: it uses all of the above
};

}  // namespace millrace
