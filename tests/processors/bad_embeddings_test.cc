// Updates whose embedding rows cannot be used: what becomes of them, and that nothing else is
// harmed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/processors/random_log.h"
#include "tests/processors/server_fixture.h"

namespace millrace {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr size_t kRowWidth = 3;

// The first of two shards.
ServerOptions ServerOfRows(ConsistencyPolicy policy) {
  ServerOptions options = SmallServer(policy);
  options.shards = 2;
  options.embeddings = {.seed = 3, .initial_limit = {0, 0.5f, 0.5f}};
  return options;
}

std::vector<ConsistencyPolicy> Policies() {
  return {ConsistencyPolicy::Sequential(), ConsistencyPolicy::Eventual(),
          ConsistencyPolicy::Bounded(2)};
}

EmbeddingId IdOfTheOtherShard() {
  EmbeddingId id = 0;
  while (ShardOfEmbedding(id, 2) == 0) ++id;
  return id;
}

// Of three rows of this shard, each value 1, beside dense values of 1.
Gradient UpdateOfRows(WorkerId worker, Clock clock) {
  const ServerOptions options = ServerOfRows(ConsistencyPolicy::Eventual());
  Gradient update = Update(worker, clock, std::vector<float>(6, 1), options.range);
  std::vector<EmbeddingId> ids = EmbeddingsOf(options);
  ids.resize(3);
  for (const EmbeddingId id : ids) {
    update.mutable_update()->mutable_embeddings()->add_id(id);
    update.mutable_update()->add_wanted(id);
    for (size_t i = 0; i < kRowWidth; ++i)
      update.mutable_update()->mutable_embeddings()->add_value(1);
  }
  return update;
}

std::vector<float> AllRows(const TestServer& server) {
  const std::vector<EmbeddingId> ids = EmbeddingsOf(server.options());
  std::vector<float> values(ids.size() * kRowWidth);
  EXPECT_TRUE(server.processor().ReadEmbeddings(ids, values).ok());
  return values;
}

// All of the state but these counters.
void ExpectSameButCounted(const TestServer& is, const TestServer& right, uint64_t poisoned,
                          uint64_t refused) {
  EXPECT_EQ(is.processor().counters().non_finite_updates(), poisoned);
  EXPECT_EQ(is.processor().counters().refused(), refused);
  ShardState state;
  is.processor().SaveState(state);
  state.mutable_counters()->clear_non_finite_updates();
  state.mutable_counters()->clear_refused();
  EXPECT_TRUE(state.SerializeAsString() == right.StateBytes()) << "another state";
  EXPECT_EQ(is.weights(), right.weights());
  EXPECT_EQ(AllRows(is), AllRows(right));
}

void ExpectLetterOf(const ServerOutput& output, const LogRecord& record, Offset offset,
                    const std::string& reason) {
  ASSERT_THAT(output.dead_letters, SizeIs(1)) << reason;
  const DeadLetter& letter = output.dead_letters[0];
  EXPECT_THAT(letter.reason(), HasSubstr(reason));
  EXPECT_EQ(letter.topic(), "gradients");
  EXPECT_EQ(letter.partition(), 0);
  EXPECT_EQ(letter.offset(), offset);
  EXPECT_EQ(letter.key(), record.key);
  EXPECT_EQ(letter.value(), record.value);
}

// One gets what is bad, the other what it should count as.
struct Servers {
  explicit Servers(const ServerOptions& options) : is(options), right(options) {}
  void SendBoth(const Gradient& message) {
    is.Send(message);
    right.Send(message);
  }
  void RoundOfAll(Clock clock) {
    for (WorkerId worker = 0; worker < 3; ++worker) SendBoth(UpdateOfRows(worker, clock));
  }

  TestServer is;
  TestServer right;
};

TEST(BadEmbeddings, AnUpdateWithAPoisonedRowIsADeadLetterAndCountsAsAnEmptyOne) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const ConsistencyPolicy& policy : Policies()) {
    for (const float poison : {std::nanf(""), infinity, -infinity, 1.1e18f, -1.1e18f}) {
      for (const int place : {0, 4, 8}) {
        Servers servers(ServerOfRows(policy));
        servers.RoundOfAll(0);
        servers.SendBoth(UpdateOfRows(0, 1));
        Gradient bad = UpdateOfRows(1, 1);
        bad.mutable_update()->mutable_embeddings()->set_value(place, poison);
        Gradient empty = Message(Gradient::kUpdate, 1, 1);
        *empty.mutable_update()->mutable_wanted() = bad.update().wanted();
        const Offset offset = servers.is.next_offset();
        const ServerOutput output = servers.is.Send(bad);
        EXPECT_EQ(output.answers, servers.right.Send(empty).answers);
        ExpectLetterOf(output, RecordOf(bad), offset, "a NaN, an infinity or a value beyond 1e18");
        ExpectSameButCounted(servers.is, servers.right, 1, 0);
        servers.SendBoth(UpdateOfRows(2, 1));
        servers.RoundOfAll(2);
        ExpectSameButCounted(servers.is, servers.right, 1, 0);
        EXPECT_EQ(servers.is.processor().clocks().Min(), 3u);
        for (const float value : AllRows(servers.is)) EXPECT_TRUE(std::isfinite(value)) << poison;
      }
    }
  }
}

TEST(BadEmbeddings, PoisonInSixteenBitsIsFoundToo) {
  for (const auto format : {Training::Compression::FP16, Training::Compression::BF16}) {
    ServerOptions options = ServerOfRows(ConsistencyPolicy::Eventual());
    options.values = format;
    Servers servers(options);
    Gradient bad = UpdateOfRows(1, 0);
    bad.mutable_update()->mutable_embeddings()->set_value(8, std::nanf(""));
    PackUpdate(format, 0, *bad.mutable_update());
    Gradient empty = Message(Gradient::kUpdate, 1, 0);
    *empty.mutable_update()->mutable_wanted() = bad.update().wanted();
    const ServerOutput output = servers.is.Send(bad);
    servers.right.Send(empty);
    ExpectLetterOf(output, RecordOf(bad), 0, "a NaN, an infinity or a value beyond 1e18");
    ExpectSameButCounted(servers.is, servers.right, 1, 0);
  }
}

// Divided by a weight that is too small, say.
TEST(BadEmbeddings, RowsWhoseMeanOverflowsMakeNoStep) {
  TestServer server(ServerOfRows(ConsistencyPolicy::Eventual()));
  const std::vector<float> born = AllRows(server);
  Gradient update = UpdateOfRows(0, 0);
  update.mutable_update()->mutable_slice()->clear_dense();
  update.mutable_update()->set_weight_sum(1e-30);
  for (float& value : *update.mutable_update()->mutable_embeddings()->mutable_value())
    value = 1e17f;
  EXPECT_THAT(server.Send(update).answers, ElementsAreArray<WorkerId>({0}));
  EXPECT_EQ(server.processor().counters().non_finite_updates(), 1u);
  EXPECT_EQ(server.processor().steps(), 0u);
  EXPECT_EQ(AllRows(server), born);
}

struct BadRows {
  std::string reason;
  std::function<void(Gradient&)> make;
};

std::vector<BadRows> RowsToRefuse() {
  const auto rows = [](Gradient& message) {
    return message.mutable_update()->mutable_embeddings();
  };
  const EmbeddingId other = IdOfTheOtherShard();
  const std::string of_another = "embedding " + std::to_string(other) + " belongs to another shard";
  return {
      {of_another,
       [=](Gradient& message) {
         // Nothing else is wrong with it.
         rows(message)->mutable_id()->Truncate(1);
         rows(message)->mutable_value()->Truncate(kRowWidth);
         rows(message)->set_id(0, other);
       }},
      {of_another,
       [=](Gradient& message) {
         message.mutable_update()->clear_wanted();
         message.mutable_update()->add_wanted(other);
       }},
      {"8 values of 3 embedding rows, but a row has 3",
       [=](Gradient& message) { rows(message)->mutable_value()->RemoveLast(); }},
      {"10 values of 3 embedding rows, but a row has 3",
       [=](Gradient& message) { rows(message)->add_value(1); }},
      {"6 values of 3 embedding rows, but a row has 3",
       [=](Gradient& message) { rows(message)->mutable_value()->Truncate(6); }},
      {"12 values of 3 embedding rows, but a row has 3",
       [=](Gradient& message) { rows(message)->mutable_value()->Resize(12, 1); }},
      {"0 values of 3 embedding rows, but a row has 3",
       [=](Gradient& message) { rows(message)->clear_value(); }},
      {"9 values of 0 embedding rows, but a row has 3",
       [=](Gradient& message) { rows(message)->clear_id(); }},
      {"out of order", [=](Gradient& message) { rows(message)->mutable_id()->SwapElements(0, 2); }},
      {"out of order", [=](Gradient& message) { rows(message)->set_id(1, rows(message)->id(0)); }},
      {"without training rows",
       [](Gradient& message) { message.mutable_update()->set_row_count(0); }},
  };
}

TEST(BadEmbeddings, RowsOfAnotherShardOrShapeAreADeadLetterThatSaysWhyAndChangeNothing) {
  for (const ConsistencyPolicy& policy : Policies()) {
    for (const BadRows& test : RowsToRefuse()) {
      Servers servers(ServerOfRows(policy));
      servers.RoundOfAll(0);
      servers.SendBoth(UpdateOfRows(0, 1));
      Gradient bad = UpdateOfRows(1, 1);
      test.make(bad);
      const Offset offset = servers.is.next_offset();
      const ServerOutput output = servers.is.Send(bad);
      EXPECT_THAT(output.answers, IsEmpty());
      ExpectLetterOf(output, RecordOf(bad), offset, test.reason);
      ExpectSameButCounted(servers.is, servers.right, 0, 1);
      EXPECT_EQ(servers.is.processor().clocks().clock(1), 1u);
      // The right one is still taken afterwards.
      servers.SendBoth(UpdateOfRows(1, 1));
      servers.SendBoth(UpdateOfRows(2, 1));
      ExpectSameButCounted(servers.is, servers.right, 0, 1);
      EXPECT_EQ(servers.is.processor().clocks().Min(), 2u);
    }
  }
}

TEST(BadEmbeddings, AJobWithoutIdsRefusesRows) {
  ServerOptions options = ServerOfRows(ConsistencyPolicy::Eventual());
  options.embeddings.reset();
  TestServer server(options);
  Gradient asks = UpdateOfRows(0, 0);
  asks.mutable_update()->clear_embeddings();
  for (const Gradient& bad : {UpdateOfRows(0, 0), asks}) {
    const Offset offset = server.next_offset();
    ExpectLetterOf(server.Send(bad), RecordOf(bad), offset, "id columns");
  }
  EXPECT_EQ(server.processor().counters().refused(), 2u);
  EXPECT_EQ(server.weights(), std::vector<float>(6, 0));
}

TEST(BadEmbeddings, NoLogBringsPoisonIntoTheRows) {
  std::mt19937 random(4);
  uint64_t poisoned = 0;
  uint64_t refused = 0;
  for (int trial = 0; trial < 60; ++trial) {
    ServerOptions options = ServerOfRows(Policies()[static_cast<size_t>(trial) % 3]);
    options.shards = static_cast<uint32_t>(1 + trial % 2);
    TestServer server(options);
    for (const LogRecord& record : RandomLog(random, options, 100)) server.Send(record);
    for (const float value : AllRows(server)) ASSERT_TRUE(std::isfinite(value)) << trial;
    for (const float value : server.weights()) ASSERT_TRUE(std::isfinite(value)) << trial;
    poisoned += server.processor().counters().non_finite_updates();
    refused += server.processor().counters().refused();
  }
  EXPECT_GT(poisoned, 100u);
  EXPECT_GT(refused, 100u);
}

}  // namespace
}  // namespace millrace
