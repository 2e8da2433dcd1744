#include "base/background_worker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace millrace {
namespace {

TEST(BackgroundWorker, RunsJobsInTheOrderInWhichTheyWerePosted) {
  BackgroundWorker worker;
  std::string order;
  for (const char name : {'a', 'b', 'c', 'd'}) {
    worker.Post(std::string(1, name), [&order, name] { order += name; });
  }
  worker.WaitUntilIdle();
  EXPECT_EQ(order, "abcd");
  EXPECT_TRUE(worker.idle());
}

TEST(BackgroundWorker, AJobThatWaitsIsReplacedByOneOfItsKeyAndKeepsItsPlace) {
  BackgroundWorker worker;
  std::latch running(1);
  std::latch go_on(1);
  std::string order;
  worker.Post("x", [&] {
    running.count_down();
    go_on.wait();
    order += "x1 ";
  });
  running.wait();
  EXPECT_FALSE(worker.idle());
  worker.Post("x", [&] { order += "x2 "; });  // the first one runs already
  worker.Post("y", [&] { order += "y1 "; });
  worker.Post("x", [&] { order += "x3 "; });
  go_on.count_down();
  worker.WaitUntilIdle();
  EXPECT_EQ(order, "x1 x3 y1 ");
}

TEST(BackgroundWorker, DestructionFinishesTheRunningJobAndDropsThoseThatWait) {
  std::atomic<int> ran = 0;
  auto worker = std::make_unique<BackgroundWorker>();
  std::latch running(1);
  std::latch go_on(1);
  worker->Post("a", [&] {
    running.count_down();
    go_on.wait();
    ++ran;
  });
  worker->Post("b", [&] { ran += 100; });
  running.wait();
  std::thread destroyer([&] { worker.reset(); });
  go_on.count_down();
  destroyer.join();
  // Job b is dropped, unless the worker came to it before the destructor began.
  EXPECT_TRUE(ran == 1 || ran == 101) << ran;
}

TEST(BackgroundWorker, WhoSeesItIdleSeesWhatItsJobsHaveWritten) {
  BackgroundWorker worker;
  for (int round = 1; round <= 200; ++round) {
    int written = 0;  // not atomic: the worker hands it over
    worker.Post("job", [&written, round] { written = round; });
    if (round % 2 == 0) {
      worker.WaitUntilIdle();
    } else {
      while (!worker.idle()) std::this_thread::yield();
    }
    ASSERT_EQ(written, round);
  }
}

TEST(BackgroundWorker, SaysWhenItHasBecomeIdle) {
  std::latch told(1);
  BackgroundWorker worker([&told] { told.count_down(); });
  worker.Post("job", [] {});
  told.wait();
  EXPECT_TRUE(worker.idle());
}

TEST(BackgroundWorker, TakesJobsFromSeveralThreadsAtOnce) {
  BackgroundWorker worker;
  int ran = 0;  // the worker's thread alone writes it
  std::vector<std::thread> posters;
  for (int poster = 0; poster < 4; ++poster) {
    posters.emplace_back([&worker, &ran, poster] {
      for (int i = 0; i < 50; ++i) {
        worker.Post(std::to_string(poster) + "/" + std::to_string(i), [&ran] { ++ran; });
      }
    });
  }
  for (std::thread& poster : posters) poster.join();
  worker.WaitUntilIdle();
  EXPECT_EQ(ran, 200);
}

}  // namespace
}  // namespace millrace
