// A completion queue of gRPC that its owner's thread drives in passing. For those who may include
// gRPC.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "kafka/wakeup.h"

namespace millrace::grpc_internal {

// What may be begun on a queue, whose tag it is then. It lives until it has ended.
struct Operation {
  std::function<void(bool ok)> react;  // `ok` as grpc::CompletionQueue::Next says of its kind
};

// Whoever waits on a queue also moves the bytes of its calls. If that is a thread of its own, it
// has to be woken for each message that is sent or has come, and has to wake the loop that sends
// and uses them (docs/decisions.md has what that costs). So the loop does it: that of a receiver
// while it waits (Sleep), that of a server when it has just sent something (RunDue). But it also
// computes, and waits for Kafka: when it has not driven the queue for a while, or says so, a thread
// of the queue's own does, so that pings are answered and large messages go on. One of them drives
// at a time, and calls the reactions. Interrupt, LeaveToThread and get are for any thread, the
// other calls for the owner's.
class DrivenQueue final : public Wakeup::Sleeper {
 public:
  // `patience`: for so long the thread leaves the queue to an owner that has driven it. (Far below
  // the time after which a silent connection is given up.)
  explicit DrivenQueue(std::unique_ptr<grpc::CompletionQueue> queue,
                       std::chrono::milliseconds patience = std::chrono::milliseconds(100));
  // Waits for all that was begun, and calls its reactions.
  ~DrivenQueue();
  DrivenQueue(const DrivenQueue&) = delete;
  DrivenQueue& operator=(const DrivenQueue&) = delete;

  grpc::CompletionQueue* get() { return queue_.get(); }

  // Reads and writes what the sockets have room for, and calls the reactions that are due: waits
  // for nothing but a reaction of the thread that is running. Does nothing when the queue is left
  // to the thread, or when it drives and this was not called for a while.
  void RunDue();
  // The thread drives from now on, at once, although the owner has just done it; or no more.
  void LeaveToThread(bool is_left);

  // Waits for an operation to end, and calls its reaction.
  void Sleep(std::chrono::milliseconds timeout) override;
  void Interrupt() override;

 private:
  using Time = std::chrono::steady_clock::time_point;

  // Whether something has ended.
  bool RunOne(std::chrono::milliseconds timeout);
  // Of the thread.
  void Run();
  bool IsOwnersTurn(Time now) const;
  // REQUIRES the lock.
  void SetAlarm();
  void TakeTag(void* tag, bool ok, std::unique_lock<std::mutex>& lock);

  const std::unique_ptr<grpc::CompletionQueue> queue_;
  const std::chrono::milliseconds patience_;
  std::mutex mutex_;  // guards the following
  std::condition_variable changed_;
  grpc::Alarm alarm_;  // ends a wait on the queue; its tag is null
  bool is_alarm_set_ = false;
  bool is_interrupted_ = false;
  bool thread_drives_ = false;
  bool owner_drives_ = false;
  bool owner_wants_to_ = false;
  bool owner_sleeps_ = false;
  bool is_left_ = false;
  bool is_ending_ = false;
  Time driven_{};  // by the owner, the last time
  Time asked_{};   // when RunDue was called last
  std::thread thread_;
};

}  // namespace millrace::grpc_internal
