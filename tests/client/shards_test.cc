// The number of a job's shards changes while its trainers are in the middle of their steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/big_endian.h"
#include "job/kafka_options.h"
#include "kafka/producer.h"
#include "messages/records.pb.h"
#include "tests/client/client_fixture.h"
#include "topics/frame.h"
#include "topics/topics.h"

namespace millrace {
namespace {

using testing::Each;

constexpr uint64_t kStepsAfter = 10;  // on the last shards

class ClientShardsTest : public ClientTest {
 protected:
  // What a master says, again and again, until it has come to pass.
  void Order(uint32_t layout, uint32_t shards) {
    const auto producer = KafkaProducer::Create(ToKafkaOptions(config_), {}, nullptr);
    ASSERT_TRUE(producer.ok()) << producer.status();
    Gradient order;
    order.set_epoch(config_.epoch());
    order.set_worker(kNoWorker);
    order.mutable_reshard()->set_layout(layout);
    order.mutable_reshard()->set_shards(shards);
    const std::string topic = TopicName(LayoutName(config_.name(), layout), Topic::kGradients);
    ASSERT_TRUE((*producer)
                    ->Send(topic, 0, EncodeBigEndian32(kNoWorker),
                           MakeFrames(order.SerializeAsString(), 0).front())
                    .ok());
    ASSERT_TRUE((*producer)->Flush(std::chrono::seconds(60)).ok());
  }

  // Adds to each number of `w` and to three rows, and checks all that it reads. The first trainer
  // says after which step both leave: some steps after it has seen three shards, and then one.
  void Train(uint32_t number) {
    const Trainer trainer = Begin(number);
    const std::vector<uint64_t> ids = {1, 2, 3};
    for (uint64_t step = *trainer.manager->Steps(); step < last_step_; ++step) {
      const auto sum = static_cast<float>(11 * step);
      ASSERT_WORKS(trainer.manager->Get(trainer.w));
      ASSERT_THAT(ValuesOf(trainer.w), Each(10 + sum)) << "step " << step;
      ASSERT_WORKS(trainer.manager->GetRows(trainer.rows, ids));
      ASSERT_THAT(trainer.rows->rows(), Each(sum)) << "step " << step;
      if (number == 0) LookForChange(trainer.manager->Shard(trainer.w->id())->size(), step);
      const float add = number == 0 ? 1.f : 10.f;
      SetGrad(trainer.w, add);
      std::ranges::fill(trainer.rows->grad(), add);
      ASSERT_WORKS(trainer.manager->Update(*trainer.w));
      ASSERT_WORKS(trainer.manager->UpdateRows(*trainer.rows));
      ASSERT_WORKS(trainer.manager->WantRows(*trainer.rows, ids));
      ASSERT_WORKS(trainer.manager->Step());
      ++steps_made_;
    }
    ASSERT_WORKS(trainer.manager->Leave());
  }

  void LookForChange(size_t shards, uint64_t step) {
    if (changes_seen_ == 0 && shards == 3) ++changes_seen_;
    if (changes_seen_ == 1 && shards == 1) {
      ++changes_seen_;
      last_step_ = step + kStepsAfter;
    }
  }

  struct Trainer {
    std::unique_ptr<ParameterManager> manager;
    Param* w = nullptr;
    client::Table* rows = nullptr;
  };
  Trainer Begin(uint32_t number) {
    Trainer begun{.manager = Connect(number)};
    begun.w = *begun.manager->Register({.name = "w", .shape = {5}, .handler = "add"});
    begun.rows = *begun.manager->RegisterTable({.name = "rows", .width = 2, .handler = "add"});
    std::ranges::fill(begun.w->data(), 10.f);
    EXPECT_TRUE(begun.manager->Put(*begun.w).ok());
    return begun;
  }

  static void WaitFor(const std::function<bool()>& happened,
                      const std::function<void()>& ask = {}) {
    while (!happened() && !testing::Test::HasFailure()) {
      if (ask) ask();
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
  }

  std::atomic<size_t> changes_seen_ = 0;
  std::atomic<uint64_t> steps_made_ = 0;
  std::atomic<uint64_t> last_step_ = std::numeric_limits<uint64_t>::max();
};

TEST_F(ClientShardsTest, TrainersGoOverToOtherShardsWithWhatTheyHaveSaid) {
  NewJob(2, Training::Consistency::SEQUENTIAL);
  StartServer();
  std::thread first([this] { Train(0); });
  std::thread second([this] { Train(1); });
  WaitFor([this] { return steps_made_ > 20; });
  WaitFor([this] { return changes_seen_ == 1; }, [this] { Order(0, 3); });
  EXPECT_TRUE(server_->Stop().ok());
  StartServer();
  const uint64_t made = steps_made_;
  WaitFor([&] { return steps_made_ > made + 20; });
  WaitFor([this] { return changes_seen_ == 2; }, [this] { Order(1, 1); });
  first.join();
  second.join();
  EXPECT_EQ(changes_seen_, 2u);
  EXPECT_TRUE(server_->Join().ok());
}

TEST_F(ClientShardsTest, ATrainerThatComesLaterJoinsOnTheShardsThatAreThere) {
  StartServer();
  uint64_t steps = 0;
  {
    const Trainer trainer = Begin(0);
    ASSERT_WORKS(trainer.manager->Get(trainer.w));
    while (trainer.manager->Shard(trainer.w->id())->size() != 4) {
      if (steps % 100 == 0) Order(0, 4);
      ASSERT_WORKS(trainer.manager->Get(trainer.w));
      ASSERT_THAT(ValuesOf(trainer.w), Each(10 + static_cast<float>(steps)));
      SetGrad(trainer.w, 1);
      ASSERT_WORKS(trainer.manager->Update(*trainer.w));
      ASSERT_WORKS(trainer.manager->Step());
      ++steps;
    }
  }
  const Trainer again = Begin(0);
  EXPECT_EQ(again.manager->Shard(again.w->id())->size(), 4u);
  ASSERT_WORKS(again.manager->Get(again.w));
  EXPECT_THAT(ValuesOf(again.w), Each(10 + static_cast<float>(*again.manager->Steps())));
  EXPECT_THAT(*again.manager->Steps(), testing::AnyOf(steps, steps - 1)) << "the last may be lost";
  ASSERT_WORKS(again.manager->Leave());
  EXPECT_TRUE(server_->Join().ok());
}

}  // namespace
}  // namespace millrace
