// Tables of embedding rows on a real broker: what trainers read and change by ids.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/client_fixture.h"

namespace millrace {
namespace {

using client::Table;
using client::TableSpec;
using testing::Each;
using testing::ElementsAre;

constexpr auto kSequential = Training::Consistency::SEQUENTIAL;
constexpr auto kEventual = Training::Consistency::EVENTUAL;
constexpr uint64_t kLargestId = (uint64_t{1} << 56) - 1;

std::vector<float> RowsOf(const Table* table) {
  return {table->rows().begin(), table->rows().end()};
}

class TablesTest : public ClientTest {
 protected:
  struct WithTables {
    std::unique_ptr<ParameterManager> manager;
    Table* users = nullptr;  // of two numbers
    Table* items = nullptr;  // of three, drawn
  };
  // No parameters beside them.
  WithTables BeginTables(uint32_t trainer, const std::string& handler = "sgd") {
    WithTables begun{.manager = Connect(trainer)};
    begun.users = *begun.manager->RegisterTable({.name = "users", .width = 2, .handler = handler});
    begun.items = *begun.manager->RegisterTable(
        {.name = "items", .width = 3, .handler = handler, .initial_scale = 0.5});
    EXPECT_TRUE(begun.manager->Steps().ok());
    return begun;
  }
  // A step by which each number of the rows gets this gradient.
  static void Change(WithTables& trainer, Table* table, const std::vector<uint64_t>& ids,
                     float gradient) {
    ASSERT_WORKS(trainer.manager->GetRows(table, ids));
    std::ranges::fill(table->grad(), gradient);
    ASSERT_WORKS(trainer.manager->UpdateRows(*table));
    ASSERT_WORKS(trainer.manager->Step());
  }
};

TEST_F(TablesTest, RowsBeginAsTheyAreDrawnAndStepByTheirTablesHandler) {
  StartServer();
  WithTables trainer = BeginTables(0);
  const std::vector<uint64_t> ids = {7, 0, kLargestId, 7};
  ASSERT_WORKS(trainer.manager->GetRows(trainer.items, ids));
  const std::vector<float> born = RowsOf(trainer.items);
  ASSERT_EQ(born.size(), 12u);
  for (const float value : born) EXPECT_LE(std::abs(value), 0.5f);
  EXPECT_EQ(std::vector<float>(born.begin(), born.begin() + 3),
            std::vector<float>(born.begin() + 9, born.end()));
  EXPECT_NE(born[0], born[3]);
  EXPECT_THAT(trainer.items->grad(), Each(0));
  Change(trainer, trainer.users, {1, 2}, 2);
  ASSERT_WORKS(trainer.manager->GetRows(trainer.users, std::vector<uint64_t>{1, 2, 3}));
  const auto step = static_cast<float>(-2 * Training::Optimizer().learning_rate());
  EXPECT_THAT(RowsOf(trainer.users), ElementsAre(step, step, step, step, 0, 0));
  ASSERT_WORKS(trainer.manager->GetRows(trainer.items, ids));
  EXPECT_EQ(RowsOf(trainer.items), born) << "no step has named them";
  ASSERT_WORKS(trainer.manager->Leave());
  EXPECT_TRUE(server_->Join().ok());
}

TEST_F(TablesTest, GradientsOfAnIdThatStandsThereTwiceAreSummed) {
  StartServer();
  WithTables trainer = BeginTables(0, "add");
  Change(trainer, trainer.users, {5, 6, 5}, 1);
  ASSERT_WORKS(trainer.manager->GetRows(trainer.users, std::vector<uint64_t>{5, 6}));
  EXPECT_THAT(RowsOf(trainer.users), ElementsAre(2, 2, 1, 1));
  ASSERT_WORKS(trainer.manager->UpdateRows(*trainer.users));
  std::ranges::fill(trainer.users->grad(), 1.f);
  ASSERT_WORKS(trainer.manager->UpdateRows(*trainer.users));
  ASSERT_WORKS(trainer.manager->UpdateRows(*trainer.users));
  ASSERT_WORKS(trainer.manager->Step());
  ASSERT_WORKS(trainer.manager->GetRows(trainer.users, std::vector<uint64_t>{6, 5}));
  EXPECT_THAT(RowsOf(trainer.users), ElementsAre(3, 3, 4, 4));
}

// Whether the next rows were named or not, and are all that were named or not, is of no account.
TEST_F(TablesTest, ASequentialJobHasTheSameBytesHoweverItAsksForRowsAndWhoeverStartsAgain) {
  const auto train = [&](bool wants, bool disturbed, std::vector<float>& end) {
    NewJob(2, kSequential);
    StartServer();
    std::vector<WithTables> trainers(2);
    std::vector<std::vector<float>> ends(2);
    const auto work = [&](uint32_t number, uint64_t begin, uint64_t until) {
      WithTables& trainer = trainers[number];
      for (uint64_t step = begin; step < until; ++step) {
        const std::vector<uint64_t> ids = {step % 3, 10 + number, 20};
        if (wants && step % 3 > 0) {
          ASSERT_WORKS(trainer.manager->WantRows(*trainer.items, std::vector<uint64_t>{20, 11}));
        }
        ASSERT_WORKS(trainer.manager->GetRows(trainer.items, ids));
        for (size_t i = 0; i < trainer.items->grad().size(); ++i) {
          trainer.items->grad()[i] = 0.1f * trainer.items->rows()[i] + static_cast<float>(number);
        }
        ASSERT_WORKS(trainer.manager->UpdateRows(*trainer.items));
        ASSERT_WORKS(trainer.manager->Step());
      }
    };
    for (uint64_t begin = 0; begin < 9; begin += 3) {
      if (disturbed && begin > 0) {
        ASSERT_TRUE(server_->Stop().ok());
        StartServer();
      }
      std::vector<std::thread> threads;
      for (uint32_t number = 0; number < 2; ++number) {
        threads.emplace_back([&, number] {
          if (disturbed || trainers[number].manager == nullptr) {
            trainers[number].manager.reset();  // as if it were killed: nothing is sent any more
            trainers[number] = BeginTables(number, "adam");
          }
          ASSERT_NO_FATAL_FAILURE(work(number, *trainers[number].manager->Steps(), begin + 3));
          ASSERT_WORKS(trainers[number].manager->GetRows(
              trainers[number].items, std::vector<uint64_t>{0, 1, 2, 10, 11, 20}));
          ends[number] = RowsOf(trainers[number].items);
        });
      }
      for (std::thread& thread : threads) thread.join();
    }
    EXPECT_EQ(ends[0], ends[1]);
    end = ends[0];
  };
  std::vector<float> calm;
  std::vector<float> other;
  train(false, false, calm);
  ASSERT_EQ(calm.size(), 18u);
  train(true, false, other);
  EXPECT_EQ(other, calm);
  train(true, true, other);
  EXPECT_EQ(other, calm);
}

// ps-lite's workers push and pull a few of very many keys, with a default handler that adds up.
TEST_F(TablesTest, WorkersOfAnEventualJobPushAndPullAFewOfVeryManyKeys) {
  constexpr uint32_t kWorkers = 3;
  NewJob(kWorkers, kEventual);
  StartServer();
  std::vector<std::thread> threads;
  for (uint32_t worker = 0; worker < kWorkers; ++worker) {
    threads.emplace_back([this, worker] {
      WithTables trainer = BeginTables(worker, "add");
      std::vector<uint64_t> ids;
      for (uint64_t i = 0; i < 100; ++i) ids.push_back(kLargestId / 100 * i + worker);
      for (int push = 0; push < 20; ++push) {
        ASSERT_WORKS(trainer.manager->WantRows(*trainer.users, ids));
        Change(trainer, trainer.users, ids, static_cast<float>(push));
      }
      ASSERT_WORKS(trainer.manager->CollectRows(trainer.users, ids));
      EXPECT_THAT(RowsOf(trainer.users), Each(190));
      ASSERT_WORKS(trainer.manager->Leave());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(server_->Join().ok());
}

TEST_F(TablesTest, TablesThatNoJobHasAreRefused) {
  const auto manager = Connect(0);
  const auto refused = [&](const TableSpec& spec, const char* words) {
    EXPECT_FAILS(manager->RegisterTable(spec), Code::kInvalidArgument, words);
  };
  refused({.name = ""}, "without a name");
  refused({.name = "t", .width = 0}, "a width of 1 to 65536");
  refused({.name = "t", .width = 65'537}, "a width of 1 to 65536");
  refused({.name = "t", .handler = "mine.clipped"}, "no handlers of one's own");
  refused({.name = "t", .handler = "momentun"}, "there is no handler momentun");
  refused({.name = "t", .initial_scale = -1}, "a scale from 0");
  refused({.name = "t", .handler = "ftrl", .initial_scale = 0.1}, "give its rows the scale 0");
  refused({.name = "t", .initial_scale = std::nan("")}, "a scale from 0");
  ASSERT_WORKS(manager->Register({.name = "w"}));
  refused({.name = "w"}, "is there twice");
  for (int i = 0; i < 256; ++i) ASSERT_WORKS(manager->RegisterTable({std::to_string(i)}));
  refused({.name = "t"}, "tables; give 256 at most");
}

TEST_F(TablesTest, ATrainerWithOtherTablesIsRefusedAndTheOthersGoOn) {
  NewJob(2, kEventual);
  StartServer();
  WithTables first = BeginTables(0);
  const auto other = [&](const std::vector<TableSpec>& tables) {
    const auto manager = Connect(1);
    for (const TableSpec& table : tables) ASSERT_WORKS(manager->RegisterTable(table));
    EXPECT_FAILS(manager->Steps(), Code::kFailedPrecondition, "");
  };
  const TableSpec users = {.name = "users", .width = 2, .handler = "sgd"};
  const TableSpec items = {.name = "items", .width = 3, .handler = "sgd", .initial_scale = 0.5};
  TableSpec wide = users;
  wide.width = 4;
  TableSpec drawn = items;
  drawn.initial_scale = 1;
  other({users});
  other({items, users});
  other({wide, items});
  other({users, drawn});
  Change(first, first.users, {1}, 1);
  WithTables second = BeginTables(1);
  Change(second, second.users, {1}, 1);
}

TEST_F(TablesTest, WhatIsNoRowOrNoGradientIsRefusedAndNothingIsLost) {
  StartServer();
  WithTables trainer = BeginTables(0, "add");
  ParameterManager& manager = *trainer.manager;
  const std::vector<uint64_t> one = {1};
  EXPECT_FAILS(manager.GetRows(nullptr, one), Code::kInvalidArgument, "no table");
  const auto other = Connect(0);
  Table* const foreign = *other->RegisterTable({.name = "users", .width = 2});
  EXPECT_FAILS(manager.GetRows(foreign, one), Code::kInvalidArgument, "no table");
  EXPECT_FAILS(manager.UpdateRows(*foreign), Code::kInvalidArgument, "no table");
  EXPECT_FAILS(manager.WantRows(*foreign, one), Code::kInvalidArgument, "no table");
  const std::vector<uint64_t> beyond = {1, kLargestId + 1};
  EXPECT_FAILS(manager.GetRows(trainer.users, beyond), Code::kInvalidArgument, "below 2^56");
  EXPECT_FAILS(manager.WantRows(*trainer.users, beyond), Code::kInvalidArgument, "below 2^56");
  const std::vector<uint64_t> many(20'000'000);
  EXPECT_FAILS(manager.GetRows(trainer.users, many), Code::kInvalidArgument, "go into one message");
  EXPECT_FAILS(manager.UpdateRows(*trainer.users), Code::kFailedPrecondition, "call GetRows first");
  EXPECT_FAILS(manager.Shard(trainer.users->id()), Code::kInvalidArgument, "hash");

  ASSERT_WORKS(manager.GetRows(trainer.users, one));
  std::ranges::fill(trainer.users->grad(), 3.f);
  ASSERT_WORKS(manager.UpdateRows(*trainer.users));
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), 2e18f}) {
    trainer.users->grad()[1] = bad;
    EXPECT_FAILS(manager.UpdateRows(*trainer.users), Code::kInvalidArgument, "a NaN");
  }
  trainer.users->grad()[1] = 1e18f;
  trainer.users->grad()[0] = 0;
  ASSERT_WORKS(manager.UpdateRows(*trainer.users));
  EXPECT_FAILS(manager.UpdateRows(*trainer.users), Code::kInvalidArgument, "sum of the step's");
  trainer.users->grad()[1] = -1e18f;
  ASSERT_WORKS(manager.UpdateRows(*trainer.users));
  ASSERT_WORKS(manager.Step());
  EXPECT_FAILS(manager.UpdateRows(*trainer.users), Code::kFailedPrecondition,
               "not read for this step");
  ASSERT_WORKS(manager.GetRows(trainer.users, one));
  EXPECT_EQ(trainer.users->rows()[0], 3);
  ASSERT_WORKS(manager.GetRows(trainer.users, {}));
  EXPECT_TRUE(trainer.users->rows().empty());
  ASSERT_WORKS(manager.Leave());
  EXPECT_FAILS(manager.GetRows(trainer.users, one), Code::kFailedPrecondition, "has left");
  EXPECT_FAILS(manager.WantRows(*trainer.users, one), Code::kFailedPrecondition, "has left");
}

}  // namespace
}  // namespace millrace
