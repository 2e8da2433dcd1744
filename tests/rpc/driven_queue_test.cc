// Who drives a queue, and what ends a wait on it.
#include "rpc/driven_queue.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "kafka/wakeup.h"

namespace millrace {
namespace {

using grpc_internal::DrivenQueue;
using grpc_internal::Operation;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

// A wait that nothing but what is tested may end in time.
constexpr milliseconds kLong(60'000);
constexpr seconds kShort(30);

class DrivenQueueTest : public testing::Test {
 protected:
  // An operation that ends after `time`; its reaction notes who called it.
  void Begin(milliseconds time = milliseconds(0)) {
    Operation& operation = *operations_.emplace_back(std::make_unique<Operation>());
    operation.react = [this](bool) {
      const std::lock_guard<std::mutex> lock(mutex_);
      by_.push_back(std::this_thread::get_id());
      changed_.notify_all();
    };
    alarms_.push_back(std::make_unique<grpc::Alarm>());
    alarms_.back()->Set(queue_->get(), std::chrono::system_clock::now() + time, &operation);
  }

  bool WaitForReactions(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, kShort, [&] { return by_.size() >= count; });
  }

  std::vector<std::thread::id> by() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return by_;
  }

  // Whether a Sleep, or what calls it, has returned long before its time.
  static bool ReturnsSoon(const std::function<void()>& sleep) {
    const auto began = steady_clock::now();
    sleep();
    return steady_clock::now() - began < kShort;
  }

  // The thread then drives only when the queue is left to it.
  void HavePatience() { queue_.emplace(std::make_unique<grpc::CompletionQueue>(), kLong); }
  // Until the owner has not driven for so long that the thread does.
  static void DoSomethingElse() { std::this_thread::sleep_for(milliseconds(300)); }

  const std::thread::id owner_ = std::this_thread::get_id();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::thread::id> by_;
  std::vector<std::unique_ptr<Operation>> operations_;
  std::vector<std::unique_ptr<grpc::Alarm>> alarms_;
  std::optional<DrivenQueue> queue_{std::make_unique<grpc::CompletionQueue>()};
};

TEST_F(DrivenQueueTest, IsDrivenByItsThreadWhileTheOwnerDoesSomethingElse) {
  Begin();
  ASSERT_TRUE(WaitForReactions(1));
  EXPECT_NE(by()[0], owner_);
  queue_->RunDue();
  DoSomethingElse();
  Begin();
  ASSERT_TRUE(WaitForReactions(2));
  EXPECT_NE(by()[1], owner_);
}

TEST_F(DrivenQueueTest, IsDrivenByTheOwnerWhoSleepsInIt) {
  HavePatience();
  queue_->Sleep(milliseconds(1));
  for (size_t i = 1; i <= 20; ++i) {
    Begin(milliseconds(i));
    while (by().size() < i) queue_->Sleep(kLong);
    EXPECT_EQ(by()[i - 1], owner_);
  }
}

TEST_F(DrivenQueueTest, IsDrivenByTheOwnerAgainAfterThePauseInWhichTheThreadHas) {
  HavePatience();
  DoSomethingElse();  // (it has never been driven by the owner)
  queue_->Sleep(milliseconds(1));
  Begin();
  while (by().empty()) queue_->Sleep(kLong);
  EXPECT_EQ(by()[0], owner_);
}

TEST_F(DrivenQueueTest, CallsWhatIsDueInTheOwnersThreadWithoutWaiting) {
  HavePatience();
  queue_->Sleep(milliseconds(1));
  Begin();
  Begin();
  EXPECT_TRUE(ReturnsSoon([&] {
    while (by().size() < 2) queue_->RunDue();
  }));
  EXPECT_EQ(by(), std::vector({owner_, owner_}));
  EXPECT_TRUE(ReturnsSoon([&] { queue_->RunDue(); }));
}

TEST_F(DrivenQueueTest, IsDrivenByItsThreadAtOnceWhenItIsLeftToIt) {
  HavePatience();
  queue_->Sleep(milliseconds(1));
  queue_->LeaveToThread(true);
  Begin();
  ASSERT_TRUE(WaitForReactions(1));
  EXPECT_NE(by()[0], owner_);
}

TEST_F(DrivenQueueTest, SleepEndsWhenItIsInterruptedByAnotherThread) {
  for (int i = 0; i < 50; ++i) {
    Wakeup wakeup;
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(20 * i));
      wakeup.Notify();
    });
    EXPECT_TRUE(ReturnsSoon([&] { wakeup.WaitFor(kLong, *queue_); }));
    other.join();
  }
}

TEST_F(DrivenQueueTest, SleepEndsWhenItIsInterruptedWhileItTakesOverFromTheThread) {
  for (int i = 0; i < 5; ++i) {
    DoSomethingElse();
    Wakeup wakeup;
    std::thread other([&] { wakeup.Notify(); });
    EXPECT_TRUE(ReturnsSoon([&] { wakeup.WaitFor(kLong, *queue_); }));
    other.join();
  }
}

TEST_F(DrivenQueueTest, ANotificationBeforeTheWaitIsNotLost) {
  Wakeup wakeup;
  wakeup.Notify();
  EXPECT_TRUE(ReturnsSoon([&] { wakeup.WaitFor(kLong, *queue_); }));
}

TEST_F(DrivenQueueTest, AReactionOfTheSleepingOwnerThatNotifiesDoesNotEndTheNextWait) {
  HavePatience();
  queue_->Sleep(milliseconds(1));
  Wakeup wakeup;
  Operation operation{.react = [&](bool) { wakeup.Notify(); }};
  grpc::Alarm alarm;
  alarm.Set(queue_->get(), std::chrono::system_clock::now() + milliseconds(50), &operation);
  wakeup.WaitFor(kLong, *queue_);
  const auto began = steady_clock::now();
  wakeup.WaitFor(milliseconds(100), *queue_);
  EXPECT_GE(steady_clock::now() - began, milliseconds(100));
}

TEST_F(DrivenQueueTest, ItsEndWaitsForWhatWasBegun) {
  Begin(milliseconds(200));
  Begin();
  queue_->Sleep(milliseconds(1));
  queue_.reset();
  EXPECT_EQ(by().size(), 2);
}

}  // namespace
}  // namespace millrace
