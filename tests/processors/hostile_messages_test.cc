// Messages and saved states that are well formed, and that nobody honest would write.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/big_endian.h"
#include "tests/processors/random_log.h"
#include "tests/processors/server_fixture.h"
#include "topics/figures_codec.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kHourMs = 3'600'000;

Gradient SnapshotRequest(uint64_t number) {
  Gradient request;
  request.set_epoch(1);
  request.set_worker(kNoWorker);
  request.mutable_request_snapshot()->set_number(number);
  return request;
}

ServerOptions ServerOfRows(ConsistencyPolicy policy = ConsistencyPolicy::Sequential()) {
  ServerOptions options = SmallServer(policy);
  options.shards = 2;
  options.embeddings = {.seed = 3, .initial_limit = {0, 0.5f, 0.5f}};
  return options;
}

TEST(ServerProcessor, TheFirstSnapshotMayHaveAnyNumber) {
  TestServer server(SmallServer());
  server.Send(SnapshotRequest(1));
  EXPECT_EQ(server.processor().open_snapshot(), 1u);
}

TEST(ServerProcessor, ARequestFromAClockInTheFutureDoesNotEndSnapshots) {
  TestServer server(SmallServer());
  const uint64_t future = 9'000'000'000'000;
  server.Send(SnapshotRequest(future));
  EXPECT_EQ(server.processor().open_snapshot(), future);
  for (int round = 0; round < 3; ++round) {
    for (WorkerId worker = 0; worker < 3; ++worker) {
      if (server.SendNext(worker).snapshot) {
        ServerOutput output;
        ASSERT_TRUE(server.processor().LeaveCut(output).ok());
      }
    }
  }
  EXPECT_EQ(server.processor().open_snapshot(), std::nullopt);
  server.Send(SnapshotRequest(1'700'000'000'000));
  EXPECT_EQ(server.processor().open_snapshot(), future + 1);
  EXPECT_EQ(server.processor().snapshot_request(), 1'700'000'000'000u);
  EXPECT_EQ(server.processor().snapshot_given_up(), 0u);
  server.Send(SnapshotRequest(1'700'000'000'000));
  EXPECT_EQ(server.processor().open_snapshot(), future + 1) << "the same request said again";
}

TEST(ServerProcessor, ACancellationOfTheLastNumbersLeavesRoomForSnapshotsToCome) {
  TestServer server(SmallServer(ConsistencyPolicy::Eventual()));
  const auto cancel = [&](uint64_t id) {
    Gradient message;
    message.set_epoch(1);
    message.set_worker(kNoWorker);
    message.mutable_cancel_snapshot()->set_snapshot(id);
    server.Send(message);
  };
  cancel(kMostSnapshot);
  EXPECT_EQ(server.processor().counters().refused(), 1u);
  cancel(kMostCancelled);
  server.Send(SnapshotRequest(1));
  EXPECT_EQ(server.processor().open_snapshot(), kMostCancelled + 1);
  ShardState state;
  server.processor().SaveState(state);
  TestServer copy(SmallServer(ConsistencyPolicy::Eventual()));
  EXPECT_TRUE(copy.processor().LoadState(state).ok());
}

TEST(ServerProcessor, AWorkerCannotTellShardZeroOfASnapshotOrAnotherCut) {
  TestServer server(SmallServer(ConsistencyPolicy::Eventual()));
  Gradient forged = Update(0, 0, std::vector<float>(6, 1), {0, 6});
  forged.mutable_update()->mutable_mark()->set_snapshot(77);
  forged.mutable_update()->mutable_mark()->set_cut(1);
  server.Send(forged);
  EXPECT_EQ(server.processor().open_snapshot(), std::nullopt);
  EXPECT_EQ(server.processor().newest_snapshot(), 0u);
}

TEST(ServerProcessor, TheLogsTimeNeverGoesBackAndItsJumpsAreCounted) {
  TestServer server(ServerOfRows(ConsistencyPolicy::Eventual()));
  const auto send = [&](int64_t timestamp_ms) {
    const Clock clock = server.processor().clocks().clock(0);
    server.Send(Update(0, clock, std::vector<float>(6, 1), {0, 6}), timestamp_ms);
    ShardState state;
    server.processor().SaveState(state);
    return state.seen_ms();
  };
  EXPECT_EQ(send(1000 * kHourMs), 1000 * kHourMs);
  EXPECT_EQ(send(1001 * kHourMs), 1001 * kHourMs);
  EXPECT_EQ(server.processor().counters().time_jumps(), 0u);
  EXPECT_EQ(send(1000 * kHourMs), 1001 * kHourMs);
  EXPECT_EQ(server.processor().counters().time_jumps(), 0u) << "an hour is no jump";
  EXPECT_EQ(send(1001 * kHourMs + 30 * 24 * kHourMs), 1721 * kHourMs);
  EXPECT_EQ(server.processor().counters().time_jumps(), 1u);
  EXPECT_EQ(send(1002 * kHourMs), 1721 * kHourMs);
  EXPECT_EQ(server.processor().counters().time_jumps(), 2u) << "the way back, too";
  EXPECT_EQ(send(INT64_MIN), 1721 * kHourMs) << "no time at all";
}

TEST(ServerProcessor, ForgetsTheUnfinishedMessagesOfAWorkerThatLeaves) {
  TestServer server(SmallServer(ConsistencyPolicy::Eventual()));
  const Gradient update = Update(0, 0, std::vector<float>(6, 1), {0, 6});
  server.Send({EncodeBigEndian32(0), MakeFrames(update.SerializeAsString(), 1, 40).front()});
  ShardState before;
  server.processor().SaveState(before);
  EXPECT_EQ(before.partial_size(), 1);
  server.Send(Message(Gradient::kLeave, 0, 0));
  ShardState after;
  server.processor().SaveState(after);
  EXPECT_EQ(after.partial_size(), 0);
}

TEST(ServerProcessor, ThousandsOfUnfinishedMessagesTakeNoMoreThanTheBound) {
  ServerOptions options = SmallServer(ConsistencyPolicy::Eventual());
  options.chunks = {.sender_bytes = 2000, .bytes = 3000};
  TestServer server(options);
  const std::string junk(5000, 'x');
  uint64_t refused = 0;
  for (uint64_t message = 0; message < 300; ++message) {
    const std::vector<std::string> frames = MakeFrames(junk, message, 500);
    for (size_t i = 0; i + 1 < frames.size(); ++i) {
      const auto worker = static_cast<WorkerId>(message % 3);
      refused += server.Send({EncodeBigEndian32(worker), frames[i]}).dead_letters.size();
    }
    EXPECT_LT(server.StateBytes().size(), 4000u);
  }
  EXPECT_EQ(refused, 300u) << "and each is said to be too large";
  EXPECT_EQ(server.processor().counters().refused(), refused);
}

// What a checkpoint has may have been written by anybody who may write to `parameters`.
TEST(ServerState, IsCheckedAsMessagesAreOnReceipt) {
  TestServer server(ServerOfRows());
  Gradient held = Update(1, 0, std::vector<float>(6, 1), {0, 6});
  const EmbeddingId id = EmbeddingsOf(server.options()).front();
  held.mutable_update()->add_wanted(id);
  held.mutable_update()->mutable_embeddings()->add_id(id);
  for (int i = 0; i < 3; ++i) held.mutable_update()->mutable_embeddings()->add_value(1);
  server.Send(held);
  ShardState good;
  server.processor().SaveState(good);
  const auto load = [](const ShardState& state) {
    TestServer other(ServerOfRows());
    return other.processor().LoadState(state);
  };
  ASSERT_TRUE(load(good).ok()) << load(good);
  EmbeddingId of_the_other_shard = 0;
  while (ShardOfEmbedding(of_the_other_shard, 2) == 0) ++of_the_other_shard;
  using Change = std::function<void(ShardState&)>;
  const auto pending = [](ShardState& state) {
    return state.mutable_members(1)->mutable_pending(0);
  };
  const std::vector<std::pair<std::string, Change>> changes = {
      {"a sparse index of 400,000,000",
       [&](ShardState& s) {
         Slice& slice = *pending(s)->mutable_slice();
         slice.clear_dense();
         slice.add_sparse_index(400'000'000);
         slice.add_sparse_value(1);
       }},
      {"a slice that is too long",
       [&](ShardState& s) { pending(s)->mutable_slice()->add_dense(1); }},
      {"half an embedding row",
       [&](ShardState& s) { pending(s)->mutable_embeddings()->mutable_value()->RemoveLast(); }},
      {"a row of another shard",
       [&](ShardState& s) { pending(s)->mutable_embeddings()->set_id(0, of_the_other_shard); }},
      {"rows up to the end of all numbers",
       [&](ShardState& s) { pending(s)->set_rows_end(UINT64_MAX); }},
      {"a confusion cell of no class",
       [&](ShardState& s) {
         pending(s)->mutable_progressive()->add_cell(4);
         pending(s)->mutable_progressive()->add_cell_count(1);
       }},
      {"moments of other columns",
       [&](ShardState& s) { ToProto(Moments(2), *pending(s)->mutable_moments()); }},
      {"an update of who has left", [&](ShardState& s) { s.mutable_members(1)->set_left(true); }},
      {"a huge clock", [](ShardState& s) { s.mutable_members(0)->set_clock(UINT64_MAX); }},
      {"clocks of two rounds", [](ShardState& s) { s.mutable_members(0)->set_clock(1); }},
      {"a worker twice", [](ShardState& s) { s.mutable_members(0)->set_worker(1); }},
      {"huge counted rows",
       [](ShardState& s) { s.mutable_members(0)->mutable_rows()->set_end(UINT64_MAX); }},
      {"rows that were counted before they were",
       [](ShardState& s) { s.mutable_members(0)->mutable_rows_before(0)->set_end(1); }},
      {"rows that were repeated before they were counted",
       [](ShardState& s) {
         RowProgress& rows = *s.mutable_members(0)->mutable_rows();
         rows.set_repeated_end(rows.end() + 1);
       }},
      {"rows that were repeated before they were counted, one update before",
       [](ShardState& s) {
         RowProgress& rows = *s.mutable_members(0)->mutable_rows_before(0);
         rows.set_repeated_end(rows.end() + 1);
       }},
      {"an update that repeats rows before they are counted",
       [&](ShardState& s) { pending(s)->set_repeated_end(pending(s)->rows_end() + 1); }},
      {"a wanted row of another shard",
       [&](ShardState& s) { s.mutable_members(0)->add_wanted()->add_id(of_the_other_shard); }},
      {"chunks of nobody",
       [](ShardState& s) {
         ShardState::PartialMessage& partial = *s.add_partial();
         partial.set_worker(3);
         partial.set_count(2);
         partial.add_chunk("x");
       }},
      {"more chunks than the message has",
       [](ShardState& s) {
         ShardState::PartialMessage& partial = *s.add_partial();
         partial.set_count(2);
         for (int i = 0; i < 3; ++i) partial.add_chunk("x");
       }},
      {"previous rows without values",
       [&](ShardState& s) { s.mutable_previous_round()->mutable_embeddings()->add_id(id); }},
      {"previous moments of other columns",
       [](ShardState& s) { ToProto(Moments(2), *s.mutable_previous_round()->mutable_moments()); }},
      {"a previous round that came later",
       [](ShardState& s) { s.mutable_previous_round()->set_step_ms(1); }},
      {"a step in the future", [](ShardState& s) { s.set_step_ms(1); }},
      {"moments that no rows give", [](ShardState& s) { s.mutable_moments()->set_m2(0, -1); }},
      {"unequal sums", [](ShardState& s) { s.mutable_tail()->add_cell(0); }},
      {"unequal sums of a window", [](ShardState& s) { s.mutable_window()->add_cell(0); }},
      {"unequal sums of an open window",
       [](ShardState& s) { s.mutable_window_open()->add_calibration_bin(0); }},
      {"a window that ends before its rows",
       [](ShardState& s) { s.mutable_window()->set_rows(1); }},
      {"a window that ends after all rows", [](ShardState& s) { s.set_window_end(UINT64_MAX); }},
      {"more rows since the window than there are",
       [](ShardState& s) { s.mutable_window_open()->set_rows(UINT64_MAX); }},
      {"a huge snapshot", [](ShardState& s) { s.set_snapshot(UINT64_MAX); }},
      {"a position before the log", [](ShardState& s) { s.set_position(-1); }},
      {"a word of nobody",
       [](ShardState& s) {
         s.set_lost(true);
         Gradient& said = *s.add_restoring();
         said.set_epoch(1);
         said.set_worker(9);
         said.mutable_restore();
       }},
  };
  for (const auto& [what, change] : changes) {
    ShardState state = good;
    change(state);
    const Status status = load(state);
    EXPECT_TRUE(absl::IsDataLoss(status)) << what << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("shard 0")) << what;
  }
}

}  // namespace
}  // namespace millrace
