// What ps-lite's own test programs do with its KVWorker and its default handler, which adds up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/client_fixture.h"

namespace millrace {
namespace {

using testing::Each;

constexpr auto kSequential = Training::Consistency::SEQUENTIAL;
constexpr auto kEventual = Training::Consistency::EVENTUAL;
constexpr uint32_t kWorkers = 3;
constexpr int kRepeat = 50;

class KvAppTest : public ClientTest {
 protected:
  // `worker` for each number, side by side.
  template <typename Worker>
  static void RunWorkers(const Worker& worker) {
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < kWorkers; ++i) threads.emplace_back([&worker, i] { worker(i); });
    for (std::thread& thread : threads) thread.join();
  }
  // A number for each key, without rounding in sums.
  static void Draw(uint32_t seed, Param& param) {
    std::mt19937 random(seed);
    for (float& value : param.grad()) value = static_cast<float>(random() % 1000);
  }
  // All keys are zero, whoever says so first.
  static void PutZeros(ParameterManager& manager, Param& param) {
    std::ranges::fill(param.data(), 0.f);
    ASSERT_WORKS(manager.Put(param));
  }
};

// Pushes, ten of them on their way at most, and one pull at the end.
TEST_F(KvAppTest, EachWorkerPushesKeysOfItsOwnAndPullsTheirSums) {
  NewJob(kWorkers, kEventual);
  StartServer();
  RunWorkers([this](uint32_t worker) {
    const auto manager = Connect(worker);
    std::vector<Param*> keys;
    for (uint32_t i = 0; i < kWorkers; ++i) {
      const std::string name = "of " + std::to_string(i);
      keys.push_back(*manager->Register({.name = name, .shape = {10}, .handler = "add"}));
    }
    Param* const own = keys[worker];
    PutZeros(*manager, *own);
    ASSERT_WORKS(manager->Get(own));
    Draw(worker + 7, *own);
    for (int i = 0; i < kRepeat; ++i) {
      ASSERT_WORKS(manager->Update(*own));
      ASSERT_WORKS(manager->Step());
    }
    ASSERT_WORKS(manager->Collect(own));
    for (size_t i = 0; i < 10; ++i) EXPECT_EQ(own->data()[i], kRepeat * own->grad()[i]);
    ASSERT_WORKS(manager->Leave());
  });
  EXPECT_TRUE(server_->Join().ok());
}

TEST_F(KvAppTest, SeveralWorkersPushTheSameKeys) {
  for (const auto model : {kSequential, kEventual}) {
    NewJob(kWorkers, model);
    StartServer();
    std::vector<std::unique_ptr<ParameterManager>> managers(kWorkers);
    std::vector<Param*> keys(kWorkers);
    RunWorkers([&](uint32_t worker) {
      ParameterManager& manager = *(managers[worker] = Connect(worker));
      Param* const own = keys[worker] =
          *manager.Register({.name = "k", .shape = {1000}, .handler = "add"});
      PutZeros(manager, *own);
      Draw(worker, *own);
      for (int i = 0; i < kRepeat; ++i) {
        ASSERT_WORKS(manager.Get(own));
        ASSERT_WORKS(manager.Update(*own));
        ASSERT_WORKS(manager.Step());
      }
      ASSERT_WORKS(manager.Collect(own));
    });
    // Now all have been pushed, which the answer to a further step shows.
    RunWorkers([&](uint32_t worker) {
      ASSERT_WORKS(managers[worker]->Step());
      ASSERT_WORKS(managers[worker]->Collect(keys[worker]));
    });
    for (size_t i = 0; i < 1000; ++i) {
      const float sum = keys[0]->grad()[i] + keys[1]->grad()[i] + keys[2]->grad()[i];
      for (const Param* own : keys) ASSERT_EQ(own->data()[i], kRepeat * sum) << i;
    }
  }
}

// Values of many lengths under many keys, of which each push has a few others.
TEST_F(KvAppTest, ManyKeysOfManyLengthsAreThereAndOnlyThosePushedChange) {
  constexpr size_t kKeys = 300;
  StartServer();
  const auto manager = Connect(0);
  std::vector<Param*> keys;
  std::vector<float> expected(kKeys);
  for (size_t i = 0; i < kKeys; ++i) {
    const auto length = static_cast<int64_t>(1 + i * i % 97);
    keys.push_back(*manager->Register({std::to_string(i), {length}, "add"}));
    expected[i] = static_cast<float>(i);
    std::ranges::fill(keys[i]->data(), expected[i]);
    ASSERT_WORKS(manager->Put(*keys[i]));
  }
  std::mt19937 random(7);
  for (int push = 0; push < kRepeat; ++push) {
    ASSERT_WORKS(manager->Get(keys[0]));
    for (int i = 0; i < 5; ++i) {
      const size_t key = random() % kKeys;
      SetGrad(keys[key], 2);
      ASSERT_WORKS(manager->Update(*keys[key]));  // the same one twice counts twice
      expected[key] += 2;
    }
    ASSERT_WORKS(manager->Step());
  }
  for (size_t i = 0; i < kKeys; ++i) {
    ASSERT_WORKS(manager->Collect(keys[i]));
    EXPECT_THAT(ValuesOf(keys[i]), Each(expected[i])) << i;
  }
}

// Push and pull in one call, and the servers begin anew between them.
TEST_F(KvAppTest, WhatWasPushedIsThereWhenTheServersStartAgain) {
  StartServer();
  const Trainer trainer = Begin(0, {0, 0, 0, 0, 0}, "add");
  for (int i = 1; i <= 5; ++i) {
    ASSERT_WORKS(trainer.manager->Get(trainer.w));
    SetGrad(trainer.w, 1);
    ASSERT_WORKS(trainer.manager->Update(*trainer.w));
    ASSERT_WORKS(trainer.manager->Step());
    ASSERT_TRUE(server_->Stop().ok());
    StartServer();
    ASSERT_WORKS(trainer.manager->Collect(trainer.w));
    EXPECT_THAT(ValuesOf(trainer.w), Each(static_cast<float>(i)));
  }
}

}  // namespace
}  // namespace millrace
