// The state of a shard, saved and loaded at any point of its log.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/processors/random_log.h"
#include "tests/processors/server_fixture.h"

namespace millrace {
namespace {

// Another processor with the same state, by way of bytes.
TestServer Reborn(const TestServer& server) {
  ShardState state;
  server.processor().SaveState(state);
  ShardState read;
  EXPECT_TRUE(read.ParseFromString(state.SerializeAsString()));
  TestServer reborn(server.options());
  EXPECT_TRUE(reborn.processor().LoadState(read).ok());
  const ParameterShard& shard = server.processor().shard();
  for (size_t block = 0; block < shard.block_count(); ++block) {
    const ParameterShard::Encoded bytes = shard.EncodeBlock(block);
    EXPECT_TRUE(reborn.processor().mutable_shard().LoadBlock(bytes.key, bytes.value).ok());
  }
  reborn.set_next_offset(server.next_offset());
  return reborn;
}

void ExpectSameOutput(const ServerOutput& a, const ServerOutput& b) {
  ASSERT_EQ(a.answers, b.answers);
  ASSERT_EQ(a.previous_answers, b.previous_answers);
  ASSERT_EQ(a.dead_letters.size(), b.dead_letters.size());
  for (size_t i = 0; i < a.dead_letters.size(); ++i) {
    ASSERT_EQ(a.dead_letters[i].SerializeAsString(), b.dead_letters[i].SerializeAsString());
  }
}

class ServerStateTest : public ::testing::TestWithParam<std::string> {
 protected:
  ServerOptions RandomOptions(std::mt19937& random) const {
    using Kind = OptimizerOptions::Kind;
    ServerOptions options = SmallServer(*ConsistencyPolicy::Parse(GetParam()));
    options.workers = static_cast<uint32_t>(1 + random() % 5);
    options.shards = static_cast<uint32_t>(1 + random() % 2);
    options.numeric_columns = random() % 3;
    const Kind kinds[] = {Kind::kSgd, Kind::kMomentum, Kind::kAdaGrad, Kind::kAdam};
    options.optimizer.kind = kinds[random() % 4];
    options.optimizer.decay = 0.01;
    if (random() % 4 == 0) options.updates = UpdateKind::kAverageChanges;
    options.l2 = 0.01;
    options.fewest_window_rows = 3;
    return options;
  }
};

TEST_P(ServerStateTest, SavedAndLoadedAnywhereItsFutureIsTheSameToTheByte) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 150; ++trial) {
    const ServerOptions options = RandomOptions(random);
    const std::vector<LogRecord> log = RandomLog(random, options, 60);
    const size_t cut = random() % log.size();
    TestServer live(options);
    for (size_t i = 0; i < cut; ++i) live.Send(log[i]);
    TestServer reborn = Reborn(live);
    ASSERT_EQ(reborn.StateBytes(), live.StateBytes());
    for (size_t i = cut; i < log.size(); ++i) {
      const ServerOutput output = live.Send(log[i]);
      ExpectSameOutput(output, reborn.Send(log[i]));
      for (const ServerOutput::PreviousReceiver& receiver : output.previous_answers) {
        ASSERT_EQ(live.processor().PreviousAnswer(receiver)->Joined(),
                  reborn.processor().PreviousAnswer(receiver)->Joined());
      }
      ASSERT_EQ(live.processor().WaitedFor(), reborn.processor().WaitedFor());
      for (WorkerId worker = 0; worker < options.workers; ++worker) {
        ASSERT_EQ(live.processor().Answer(worker)->Joined(),
                  reborn.processor().Answer(worker)->Joined());
      }
    }
    ASSERT_EQ(reborn.StateBytes(), live.StateBytes());
    ASSERT_TRUE(
        std::ranges::equal(reborn.processor().shard().slots(), live.processor().shard().slots()));
  }
}

TEST_P(ServerStateTest, TheSameLogGivesTheSameBytesTwice) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 30; ++trial) {
    const ServerOptions options = RandomOptions(random);
    TestServer first(options);
    TestServer second(options);
    for (const LogRecord& record : RandomLog(random, options, 60)) {
      ExpectSameOutput(first.Send(record), second.Send(record));
    }
    ASSERT_EQ(first.StateBytes(), second.StateBytes());
    ASSERT_EQ(first.weights(), second.weights());
  }
}

// Law 3 in numbers: what is accepted is each (worker, clock) once.
TEST_P(ServerStateTest, AcceptsAsManyUpdatesAsItsClocksSay) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 50; ++trial) {
    const ServerOptions options = RandomOptions(random);
    TestServer server(options);
    for (const LogRecord& record : RandomLog(random, options, 100)) server.Send(record);
    ShardState state;
    server.processor().SaveState(state);
    uint64_t accepted = 0;
    for (const ShardState::Member& member : state.members()) {
      accepted += member.clock() + static_cast<uint64_t>(member.pending_size());
    }
    ASSERT_EQ(state.counters().gradients_accepted(), accepted);
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, ServerStateTest,
                         ::testing::Values("sequential", "eventual", "bounded:1", "bounded:3"),
                         [](const auto& mode) {
                           std::string name = mode.param;
                           std::replace(name.begin(), name.end(), ':', '_');
                           return name;
                         });

// Sums of MAE, calibration and windows did not exist once.
TEST(ServerStateOfAnEarlierVersionTest, IsTakenAndItsWindowsBeginWhereItEnds) {
  ServerOptions options = SmallServer(kEventual);
  options.fewest_window_rows = 4;
  TestServer server(options);
  server.Send(WithProgressive(Update(0, 0, Same(1), kRange), 5));
  ShardState state;
  server.processor().SaveState(state);
  state.clear_window();
  state.clear_window_end();
  state.clear_window_open();
  EvaluationSumsMessage& sums = *state.mutable_progressive();
  sums.clear_calibration_bin();
  sums.clear_calibration_rows();
  sums.clear_calibration_correct();
  sums.clear_calibration_confidence();
  TestServer later(options);
  ASSERT_TRUE(later.processor().LoadState(state).ok());
  EXPECT_FALSE(ComputeFigures(later.processor().progressive(), 2).calibration_error);
  later.Send(WithProgressive(Update(1, 0, Same(1), kRange), 3));
  EXPECT_EQ(later.processor().window().last().rows, 0u);
  later.Send(WithProgressive(Update(2, 0, Same(1), kRange), 1));
  EXPECT_EQ(later.processor().window().last().rows, 4u) << "none of the rows before";
  EXPECT_EQ(later.processor().window().last_end(), 9u);
  EXPECT_TRUE(ComputeFigures(later.processor().window().last(), 2).calibration_error);
  ShardState saved;
  later.processor().SaveState(saved);
  EXPECT_TRUE(TestServer(options).processor().LoadState(saved).ok());
}

TEST(ServerStateOfAnotherJobTest, IsRefused) {
  const TestServer server(SmallServer());
  ShardState good;
  server.processor().SaveState(good);
  const auto load = [](const ShardState& state) {
    TestServer other(SmallServer());
    return other.processor().LoadState(state);
  };
  EXPECT_TRUE(load(good).ok());
  ShardState state = good;
  state.set_epoch(2);
  EXPECT_TRUE(absl::IsDataLoss(load(state)));
  EXPECT_THAT(std::string(load(state).message()),
              ::testing::HasSubstr("another job. Give that --job-epoch and --workers"));
  state = good;
  state.set_shard(1);
  EXPECT_TRUE(absl::IsDataLoss(load(state)));
  state = good;
  state.add_members()->set_worker(3);
  EXPECT_TRUE(absl::IsDataLoss(load(state)));
  state = good;
  state.mutable_members(2)->set_worker(3);
  EXPECT_TRUE(absl::IsDataLoss(load(state)));
  state = good;
  ToProto(Moments(2), *state.mutable_moments());
  EXPECT_TRUE(absl::IsDataLoss(load(state)));
  EXPECT_TRUE(absl::IsDataLoss(load(ShardState())));
}

}  // namespace
}  // namespace millrace
