#include "rpc/driven_queue.h"

#include <grpc/support/time.h>

#include <utility>

#include "base/check.h"

namespace millrace::grpc_internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A look at the queue may find only that it was told of something that has been taken since, and
// not come to the sockets. (Of these it takes one at a time; the next one is for the next RunDue.)
constexpr int kIdleLooks = 2;
// Of one RunDue, whatever comes.
constexpr int kMostReactions = 256;

gpr_timespec After(milliseconds timeout) {
  // (A deadline of now is rounded up to one in a millisecond.)
  if (timeout.count() == 0) return gpr_inf_past(GPR_CLOCK_MONOTONIC);
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_millis(timeout.count(), GPR_TIMESPAN));
}

}  // namespace

DrivenQueue::DrivenQueue(std::unique_ptr<grpc::CompletionQueue> queue, milliseconds patience)
    : queue_(std::move(queue)), patience_(patience), thread_([this] { Run(); }) {}

DrivenQueue::~DrivenQueue() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    MILLRACE_CHECK(!owner_drives_);
    is_ending_ = true;
    changed_.notify_all();
  }
  queue_->Shutdown();
  thread_.join();
}

void DrivenQueue::RunDue() {
  {
    // Where that is seldom, it is not worth a change of who drives.
    const std::lock_guard<std::mutex> lock(mutex_);
    const Time before = std::exchange(asked_, steady_clock::now());
    if (is_left_ || (thread_drives_ && asked_ >= before + patience_)) return;
  }
  int reactions = 0;
  for (int idle = 0; idle < kIdleLooks && reactions < kMostReactions;) {
    if (RunOne(milliseconds(0))) {
      idle = 0;
      ++reactions;
    } else {
      ++idle;
    }
  }
}

void DrivenQueue::LeaveToThread(bool is_left) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (std::exchange(is_left_, is_left) == is_left) return;
  if (is_left) changed_.notify_all();
}

void DrivenQueue::Sleep(milliseconds timeout) { RunOne(timeout); }

// (An owner that is about to sleep looks at is_interrupted_ first.)
void DrivenQueue::Interrupt() {
  const std::lock_guard<std::mutex> lock(mutex_);
  is_interrupted_ = true;
  if (owner_sleeps_) SetAlarm();
}

bool DrivenQueue::RunOne(milliseconds timeout) {
  std::unique_lock<std::mutex> lock(mutex_);
  driven_ = steady_clock::now();
  if (thread_drives_) {
    owner_wants_to_ = true;
    SetAlarm();
    changed_.wait(lock, [this] { return !thread_drives_; });
    owner_wants_to_ = false;
  }
  const bool may_wait = timeout.count() > 0;
  if (may_wait && std::exchange(is_interrupted_, false)) return false;
  owner_drives_ = true;
  owner_sleeps_ = may_wait;
  lock.unlock();
  void* tag = nullptr;
  bool ok = false;
  const bool has_ended =
      queue_->AsyncNext(&tag, &ok, After(timeout)) == grpc::CompletionQueue::GOT_EVENT;
  lock.lock();
  driven_ = steady_clock::now();
  owner_sleeps_ = false;
  if (has_ended) TakeTag(tag, ok, lock);
  if (may_wait) is_interrupted_ = false;  // the owner looks at everything now
  owner_drives_ = false;
  if (is_left_) changed_.notify_all();
  return has_ended;
}

void DrivenQueue::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    if (IsOwnersTurn(steady_clock::now())) {
      const bool owner_is_here = owner_drives_ || owner_wants_to_;
      changed_.wait_until(lock, (owner_is_here ? steady_clock::now() : driven_) + patience_);
      continue;
    }
    thread_drives_ = true;
    lock.unlock();
    void* tag = nullptr;
    bool ok = false;
    const bool goes_on = queue_->Next(&tag, &ok);
    lock.lock();
    if (goes_on) TakeTag(tag, ok, lock);
    thread_drives_ = false;
    changed_.notify_all();
    if (!goes_on) return;
  }
}

bool DrivenQueue::IsOwnersTurn(Time now) const {
  if (is_ending_) return false;
  return owner_drives_ || owner_wants_to_ || (!is_left_ && now < driven_ + patience_);
}

void DrivenQueue::SetAlarm() {
  if (std::exchange(is_alarm_set_, true)) return;
  // (One of now would wait for a timer, for up to a millisecond.)
  alarm_.Set(queue_.get(), gpr_inf_past(GPR_CLOCK_MONOTONIC), nullptr);
}

void DrivenQueue::TakeTag(void* tag, bool ok, std::unique_lock<std::mutex>& lock) {
  if (tag == nullptr) {
    is_alarm_set_ = false;
    return;
  }
  lock.unlock();
  static_cast<const Operation*>(tag)->react(ok);
  lock.lock();
}

}  // namespace millrace::grpc_internal
