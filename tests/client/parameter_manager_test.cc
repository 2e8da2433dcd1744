#include "millrace/parameter_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/client/client_fixture.h"

namespace millrace {
namespace {

using testing::Each;
using testing::ElementsAre;

constexpr auto kSequential = Training::Consistency::SEQUENTIAL;
constexpr auto kEventual = Training::Consistency::EVENTUAL;

class ParameterManagerTest : public ClientTest {
 protected:
  // One step by which each number of `w` grows by `value` (of the handler add).
  static void Add(const Trainer& trainer, float value) {
    ASSERT_WORKS(trainer.manager->Get(trainer.w));
    SetGrad(trainer.w, value);
    ASSERT_WORKS(trainer.manager->Update(*trainer.w));
    ASSERT_WORKS(trainer.manager->Step());
  }
};

TEST_F(ParameterManagerTest, TrainersOfASequentialJobStepTogetherFromTheFirstPut) {
  NewJob(2, kSequential);
  StartServer();
  const Trainer first = Begin(0, {1, 2, 3, 4, 5}, "add");
  const Trainer second = Begin(1, {9, 9, 9, 9, 9}, "add");
  ASSERT_WORKS(first.manager->Get(first.w));
  EXPECT_THAT(ValuesOf(first.w), ElementsAre(1, 2, 3, 4, 5)) << "the lower number's put counts";
  EXPECT_EQ(first.w->version(), 0u);
  for (const Trainer* trainer : {&first, &second}) {
    Add(*trainer, trainer == &first ? 10.f : 100.f);
    EXPECT_EQ(*trainer->manager->Steps(), 1u);
  }
  for (const Trainer* trainer : {&first, &second}) {
    ASSERT_WORKS(trainer->manager->Collect(trainer->w));
    EXPECT_THAT(ValuesOf(trainer->w), ElementsAre(111, 112, 113, 114, 115));
    EXPECT_EQ(trainer->w->version(), 1u);
  }
  // Whoever is to leave says so to all, and the servers end.
  ASSERT_WORKS(first.manager->Leave());
  ASSERT_WORKS(second.manager->Leave());
  EXPECT_TRUE(server_->Join().ok());
}

TEST_F(ParameterManagerTest, AParameterLiesOnShardsOneBehindTheOther) {
  const auto manager = Connect(0);
  Param* const a = *manager->Register({.name = "a", .shape = {2, 3}});
  Param* const one = *manager->Register({.name = "one"});
  Param* const b = *manager->Register({.name = "b", .shape = {3}});
  StartServer();
  EXPECT_EQ(a->data().size(), 6u);
  EXPECT_EQ(one->data().size(), 1u);
  const auto ranges = [&](const Param* param) {
    std::vector<std::vector<int64_t>> found;
    const auto shards = manager->Shard(param->id());
    EXPECT_TRUE(shards.ok()) << shards.status().message();
    for (const client::ShardRange& range : *shards) {
      found.push_back({range.shard, range.begin, range.end});
    }
    return found;
  };
  EXPECT_THAT(ranges(a), ElementsAre(ElementsAre(0, 0, 5), ElementsAre(1, 5, 6)));
  EXPECT_THAT(ranges(one), ElementsAre(ElementsAre(1, 0, 1)));
  EXPECT_THAT(ranges(b), ElementsAre(ElementsAre(1, 0, 3)));
}

TEST_F(ParameterManagerTest, ASecondPutCountsForNothingAndALateFirstOneWithItsStep) {
  StartServer();
  const auto manager = Connect(0);
  Param* const early = *manager->Register({.name = "early", .shape = {2}});
  Param* const late = *manager->Register({.name = "late", .shape = {2}, .handler = "add"});
  early->data()[0] = 7;
  ASSERT_WORKS(manager->Put(*early));
  early->data()[0] = 8;
  ASSERT_WORKS(manager->Put(*early));  // in place of the first, which no step has ended
  ASSERT_WORKS(manager->Get(early));
  EXPECT_THAT(ValuesOf(early), ElementsAre(8, 0));
  EXPECT_FAILS(manager->Get(late), Code::kFailedPrecondition, "late: no trainer has put it");
  early->data()[0] = 9;
  ASSERT_WORKS(manager->Put(*early));
  late->data()[1] = 3;
  SetGrad(late, 1);
  ASSERT_WORKS(manager->Put(*late));
  ASSERT_WORKS(manager->Update(*late));  // of what was put
  ASSERT_WORKS(manager->Step());
  ASSERT_WORKS(manager->Collect(early));
  ASSERT_WORKS(manager->Get(late));
  EXPECT_THAT(ValuesOf(early), ElementsAre(8, 0));
  EXPECT_THAT(ValuesOf(late), ElementsAre(1, 4));
}

TEST_F(ParameterManagerTest, UpdatesOfAStepAreAddedAndDividedByItsWeight) {
  config_.mutable_training()->mutable_optimizer()->set_learning_rate(1);
  StartServer();
  const Trainer trainer = Begin(0, {8, 8, 8, 8, 8}, "sgd");
  ASSERT_WORKS(trainer.manager->Get(trainer.w));
  SetGrad(trainer.w, 2);
  ASSERT_WORKS(trainer.manager->Update(*trainer.w));
  SetGrad(trainer.w, 4);
  ASSERT_WORKS(trainer.manager->Update(*trainer.w));
  ASSERT_WORKS(trainer.manager->Step(3));
  ASSERT_WORKS(trainer.manager->Collect(trainer.w));
  EXPECT_THAT(ValuesOf(trainer.w), Each(6));
  // A step without updates changes nothing, and is one.
  EXPECT_EQ(*trainer.manager->Step(), 2u);
  ASSERT_WORKS(trainer.manager->Collect(trainer.w));
  EXPECT_THAT(ValuesOf(trainer.w), Each(6));
}

TEST_F(ParameterManagerTest, AStepWhoseAnswerNeverCameCountsOnceWhenTheServersAreBack) {
  NewJob(1, kSequential);
  StartServer();
  Settings settings = SettingsOf(0);
  settings.timeout_s = 0.5;
  Trainer trainer = Begin(0, {0, 0, 0, 0, 0}, "add");
  ASSERT_WORKS(trainer.manager->Get(trainer.w));
  EXPECT_EQ(server_->Stop(), absl::OkStatus());
  trainer.manager.reset();
  trainer.manager = std::move(*ParameterManager::Connect(settings));
  trainer.w = *trainer.manager->Register({.name = "w", .shape = {5}, .handler = "add"});
  EXPECT_FAILS(trainer.manager->Get(trainer.w), Code::kDeadlineExceeded, "do their servers run?");
  StartServer();
  while (!trainer.manager->Get(trainer.w).ok()) {
  }
  EXPECT_EQ(server_->Stop(), absl::OkStatus());
  SetGrad(trainer.w, 1);
  ASSERT_WORKS(trainer.manager->Update(*trainer.w));
  ASSERT_WORKS(trainer.manager->Step());  // waits for nobody
  EXPECT_FAILS(trainer.manager->Collect(trainer.w), Code::kDeadlineExceeded, "no answer");
  EXPECT_FAILS(trainer.manager->Collect(trainer.w), Code::kDeadlineExceeded, "no answer");
  StartServer();
  while (!trainer.manager->Collect(trainer.w).ok()) {
  }
  EXPECT_THAT(ValuesOf(trainer.w), Each(1));
  EXPECT_EQ(*trainer.manager->Steps(), 1u);
}

TEST_F(ParameterManagerTest, ATrainerThatStartsAgainGoesOnBehindItsLastStep) {
  StartServer();
  for (const float steps : {0.f, 1.f, 2.f}) {
    const Trainer trainer = Begin(0, {5 + steps, 5, 5, 5, 5}, "add");
    EXPECT_EQ(*trainer.manager->Steps(), static_cast<uint64_t>(steps));
    ASSERT_WORKS(trainer.manager->Get(trainer.w));
    EXPECT_THAT(ValuesOf(trainer.w), Each(5 + steps)) << "what the first has put, and the steps";
    Add(trainer, 1);
    ASSERT_WORKS(trainer.manager->Collect(trainer.w));
    SetGrad(trainer.w, 100);
    ASSERT_WORKS(trainer.manager->Update(*trainer.w));  // which no Step ends
  }
}

TEST_F(ParameterManagerTest, AnEventualJobWaitsForAPutAndForNoAnswers) {
  NewJob(2, kEventual);
  StartServer();
  const Trainer first = Begin(0, {}, "add");
  const Trainer second = Begin(1, {}, "add");
  std::atomic<bool> has_got = false;
  std::thread waits([&] {
    ASSERT_WORKS(first.manager->Get(first.w));
    has_got = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_FALSE(has_got) << "nobody has put it";
  std::ranges::fill(second.w->data(), 2.f);
  ASSERT_WORKS(second.manager->Put(*second.w));
  ASSERT_WORKS(second.manager->Step());
  ASSERT_WORKS(second.manager->Collect(second.w));
  waits.join();
  EXPECT_THAT(ValuesOf(first.w), Each(2));
  // Without an answer between them, and without the other one.
  SetGrad(first.w, 1);
  for (int i = 0; i < 10; ++i) {
    ASSERT_WORKS(first.manager->Update(*first.w));
    ASSERT_WORKS(first.manager->Step());
  }
  ASSERT_WORKS(first.manager->Collect(first.w));
  EXPECT_THAT(ValuesOf(first.w), Each(12));
}

TEST_F(ParameterManagerTest, StepsOfAnotherProcessOfTheSameTrainerAreNotMadeTwice) {
  StartServer();
  const Trainer old = Begin(0, {0, 0, 0, 0, 0}, "add");
  ASSERT_WORKS(old.manager->Get(old.w));
  const Trainer fresh = Begin(0, {}, "add");
  Add(fresh, 1);
  ASSERT_WORKS(fresh.manager->Collect(fresh.w));
  SetGrad(old.w, 50);
  ASSERT_WORKS(old.manager->Update(*old.w));
  ASSERT_WORKS(old.manager->Step());
  ASSERT_WORKS(old.manager->Collect(old.w));
  EXPECT_THAT(ValuesOf(old.w), Each(1)) << "that step has been made";
  EXPECT_EQ(*old.manager->Steps(), 1u);
}

TEST_F(ParameterManagerTest, AStepThatTheProcessBeforeHasMadeIsPassedOverAndIsNotTheNext) {
  NewJob(2, kSequential);
  StartServer();
  const Trainer other = Begin(0, {0, 0, 0, 0, 0}, "add");
  const Trainer before = Begin(1, {}, "add");
  Add(before, 10);
  const Trainer again = Begin(1, {}, "add");
  EXPECT_EQ(*again.manager->Steps(), 0u) << "the round waits for the other trainer";
  Add(other, 1);
  do {  // what it is told next is that this step is over
    ASSERT_WORKS(again.manager->Get(again.w));
  } while (ValuesOf(again.w)[0] != 11);
  SetGrad(again.w, 10);
  ASSERT_WORKS(again.manager->Update(*again.w));
  EXPECT_EQ(*again.manager->Step(), 1u);
  Add(other, 2);
  Add(again, 20);
  ASSERT_WORKS(again.manager->Collect(again.w));
  EXPECT_THAT(ValuesOf(again.w), Each(33));
  EXPECT_EQ(*again.manager->Steps(), 2u);
}

TEST_F(ParameterManagerTest, ALeaveIsFinalForAllProcessesOfATrainer) {
  NewJob(2, kSequential);
  StartServer();
  const Trainer stays = Begin(0, {1, 1, 1, 1, 1}, "add");
  const Trainer leaves = Begin(1, {}, "add");
  Add(stays, 1);
  Add(leaves, 1);
  ASSERT_WORKS(leaves.manager->Leave());
  ASSERT_WORKS(leaves.manager->Leave());
  const Trainer again = Begin(1, {}, "add");
  for (const Trainer* trainer : {&leaves, &again}) {
    SetGrad(trainer->w, 1);
    EXPECT_FAILS(trainer->manager->Get(trainer->w), Code::kFailedPrecondition, "has left the job");
    EXPECT_FAILS(trainer->manager->Collect(trainer->w), Code::kFailedPrecondition, "has left");
    EXPECT_FAILS(trainer->manager->Put(*trainer->w), Code::kFailedPrecondition, "has left");
    EXPECT_FAILS(trainer->manager->Update(*trainer->w), Code::kFailedPrecondition, "has left");
    EXPECT_FAILS(trainer->manager->Step(), Code::kFailedPrecondition, "has left");
    ASSERT_WORKS(trainer->manager->Leave());
  }
  // The other goes on alone.
  Add(stays, 1);
  ASSERT_WORKS(stays.manager->Collect(stays.w));
  EXPECT_THAT(ValuesOf(stays.w), Each(4));
  ASSERT_WORKS(stays.manager->Leave());
  EXPECT_TRUE(server_->Join().ok());
  const auto late = Connect(0);
  ASSERT_WORKS(late->Register({.name = "w", .shape = {5}, .handler = "add"}));
  EXPECT_FAILS(late->Steps(), Code::kFailedPrecondition, "has ended");
}

}  // namespace
}  // namespace millrace
