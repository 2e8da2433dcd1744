#include "base/side_by_side.h"

#include <algorithm>

namespace millrace {
namespace {

using std::chrono::steady_clock;

// Some times what it takes to wake a thread and to be woken by it.
constexpr std::chrono::microseconds kWorthWaking(100);

}  // namespace

SideBySide::SideBySide(size_t most)
    : most_(most > 0 ? most : std::max<size_t>(1, std::thread::hardware_concurrency())) {}

SideBySide::~SideBySide() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void SideBySide::Run(size_t count, const std::function<void(size_t)>& job,
                     const std::function<void()>& after_own) {
  if (count == 0) return;
  const bool is_short = took_ && (count - 1) * *took_ < kWorthWaking;
  const size_t wanted = is_short ? 1 : std::min(count, most_);
  while (threads_.size() + 1 < wanted) threads_.emplace_back([this] { Help(); });
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    job_ = &job;
    next_ = 0;
    count_ = count;
  }
  if (wanted > 1) work_.notify_all();
  size_t own = 0;
  steady_clock::duration spent{};
  for (steady_clock::time_point begun = steady_clock::now(); RunOne();) {
    spent += steady_clock::now() - begun;
    ++own;
    if (after_own) after_own();
    begun = steady_clock::now();
  }
  if (own > 0) took_ = spent / own;
  std::unique_lock<std::mutex> lock(mutex_);
  done_.wait(lock, [this] { return running_ == 0; });
  job_ = nullptr;
  next_ = 0;
  count_ = 0;
}

bool SideBySide::RunOne() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (next_ >= count_) return false;
  const size_t mine = next_++;
  const std::function<void(size_t)>& job = *job_;
  ++running_;
  lock.unlock();
  job(mine);
  lock.lock();
  if (--running_ == 0) done_.notify_one();
  return true;
}

void SideBySide::Help() {
  while (true) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      work_.wait(lock, [this] { return ending_ || next_ < count_; });
      if (ending_) return;
    }
    while (RunOne()) {
    }
  }
}

}  // namespace millrace
