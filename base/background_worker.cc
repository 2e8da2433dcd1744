#include "base/background_worker.h"

#include <algorithm>

#include "base/check.h"

namespace millrace {

BackgroundWorker::BackgroundWorker(Job on_idle)
    : on_idle_(std::move(on_idle)), thread_([this] { Run(); }) {}

BackgroundWorker::~BackgroundWorker() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
    jobs_.clear();
  }
  changed_.notify_all();
  thread_.join();
}

void BackgroundWorker::Post(std::string key, Job job) {
  MILLRACE_CHECK(job != nullptr);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    MILLRACE_CHECK(!ending_);
    const auto waiting = std::ranges::find(jobs_, key, &std::pair<std::string, Job>::first);
    if (waiting != jobs_.end()) {
      waiting->second = std::move(job);
    } else {
      jobs_.emplace_back(std::move(key), std::move(job));
    }
  }
  changed_.notify_all();
}

bool BackgroundWorker::idle() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return jobs_.empty() && !running_;
}

void BackgroundWorker::WaitUntilIdle() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return jobs_.empty() && !running_; });
}

void BackgroundWorker::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !jobs_.empty(); });
    if (ending_) return;
    {
      const Job job = std::move(jobs_.front().second);
      jobs_.pop_front();
      running_ = true;
      lock.unlock();
      job();
    }  // What the job holds is released before anybody is told that it has run.
    lock.lock();
    running_ = false;
    if (!jobs_.empty()) continue;
    changed_.notify_all();
    if (!on_idle_) continue;
    lock.unlock();
    on_idle_();
    lock.lock();
  }
}

}  // namespace millrace
