// How long a job's rows may wait for others of their batch, once the job has published it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>

#include "messages/job.pb.h"

namespace millrace {

// ServerApp publishes the training settings, maybe long after the first row was sent; a thread of
// this class asks the job topic for them once a second. Whoever sends rows asks this. (A broker
// that is away is asked again: the sender of the rows says so.) Thread-safe.
class PublishedBatchWait {
 public:
  explicit PublishedBatchWait(const JobConfig& config);
  // Ends the thread: at once, or within ten seconds while no broker answers.
  ~PublishedBatchWait();
  PublishedBatchWait(const PublishedBatchWait&) = delete;
  PublishedBatchWait& operator=(const PublishedBatchWait&) = delete;

  // Empty: the job has not told yet, or its batches wait until they are full.
  std::optional<std::chrono::milliseconds> Get() const;

 private:
  void Watch(const JobConfig& config);

  std::atomic<bool> stop_ = false;
  std::atomic<int64_t> wait_ms_ = 0;  // 0: see Get
  std::thread thread_;                // last: it uses the others
};

}  // namespace millrace
