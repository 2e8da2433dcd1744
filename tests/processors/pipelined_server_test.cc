// A shard whose workers have several updates in flight.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/processors/server_fixture.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

ServerOptions PipelinedServer(ConsistencyPolicy policy = kEventual) {
  ServerOptions options = SmallServer(policy);
  options.pipeline = 3;
  return options;
}

// The update of four rows of this clock, all values 1.
Gradient UpdateOf(WorkerId worker, uint64_t clock) {
  Gradient message = Update(worker, Clock(clock), Same(1), kRange);
  message.mutable_update()->set_rows_begin(4 * clock);
  message.mutable_update()->set_rows_end(4 * clock + 4);
  return message;
}

std::vector<uint64_t> RowsBefore(const Weights& answer) {
  std::vector<uint64_t> ends;
  for (const RowProgress& before : answer.rows_before()) ends.push_back(before.end());
  return ends;
}

TEST(PipelinedServer, AnUpdateAfterOneThatWasLostIsAnsweredAndSaidAgain) {
  TestServer server(PipelinedServer());
  server.Send(UpdateOf(0, 0));
  const ServerOutput early = server.Send(UpdateOf(0, 2));
  EXPECT_THAT(early.answers, ElementsAre(WorkerId(0)));
  ASSERT_TRUE(early.reply);
  EXPECT_EQ(server.processor().clocks().clock(0), 1u);
  server.Send(UpdateOf(0, 1));
  server.Send(UpdateOf(0, 2));
  EXPECT_EQ(server.processor().clocks().clock(0), 3u);
  EXPECT_EQ(server.Answer(0).rows().end(), 12u);
  EXPECT_THAT(RowsBefore(server.Answer(0)), ElementsAre(8, 4, 0));
}

TEST(PipelinedServer, AnUpdateOfRowsThatDoNotFollowIsNotDueInShardZero) {
  for (const ShardId shard : {ShardId(0), ShardId(1)}) {
    ServerOptions options = PipelinedServer();
    options.shards = 2;
    options.shard = shard;
    TestServer server(options);
    Gradient other = UpdateOf(0, 0);
    other.mutable_update()->set_rows_end(3);
    server.Send(other);
    server.Send(UpdateOf(0, 1));
    EXPECT_EQ(server.processor().clocks().clock(0), shard == 0 ? 1u : 2u)
        << "only shard 0 counts rows";
  }
}

TEST(PipelinedServer, TellsTheLowestClockInABoundedJob) {
  TestServer server(PipelinedServer(ConsistencyPolicy::Bounded(2)));
  for (uint64_t clock = 0; clock < 2; ++clock) {
    for (WorkerId worker = 0; worker < 3; ++worker) {
      if (clock == 0 || worker != 1) server.Send(UpdateOf(worker, clock));
    }
  }
  EXPECT_EQ(server.Answer(0).clock(), 2u);
  EXPECT_EQ(server.Answer(0).min_clock(), 1u);
  server.Send(Message(Gradient::kLeave, 1, 1));
  EXPECT_EQ(server.Answer(0).min_clock(), 2u) << "who has left is not waited for";
}

// All that is in flight is held at the cut, in order, and saved with it.
TEST(PipelinedServer, HoldsWhatIsInFlightAtACut) {
  TestServer server(PipelinedServer());
  Gradient request;
  request.set_epoch(1);
  request.set_worker(kNoWorker);
  request.mutable_request_snapshot()->set_number(1);
  server.Send(request);
  EXPECT_EQ(server.Answer(0).mark().cut(), 4u) << "one update after those that may be in flight";
  for (uint64_t clock = 0; clock < 7; ++clock) server.Send(UpdateOf(0, clock));
  EXPECT_EQ(server.processor().clocks().clock(0), 4u);
  EXPECT_THAT(server.Send(UpdateOf(0, 5)).answers, IsEmpty()) << "it is held";
  EXPECT_FALSE(server.Send(UpdateOf(0, 7)).answers.empty()) << "more cannot be in flight";
  ShardState state;
  server.processor().SaveState(state);
  EXPECT_EQ(state.members(0).pending_size(), 3);
  TestServer loaded(server.options());
  ASSERT_TRUE(loaded.processor().LoadState(state).ok());
  for (TestServer* each : {&server, &loaded}) {
    for (WorkerId worker = 1; worker < 3; ++worker) {
      for (uint64_t clock = 0; clock < 4; ++clock) each->Send(UpdateOf(worker, clock));
    }
    ASSERT_TRUE(each->processor().at_cut());
    ServerOutput output;
    ASSERT_TRUE(each->processor().LeaveCut(output).ok());
    EXPECT_EQ(each->processor().clocks().clock(0), 7u);
    EXPECT_EQ(each->Answer(0).rows().end(), 28u);
    request.mutable_request_snapshot()->set_number(2);
    each->Send(request);
    EXPECT_EQ(each->processor().open_snapshot(), 2u);
    EXPECT_EQ(each->Answer(0).mark().snapshot(), 1u) << "some shard may not have come to the cut";
    request.mutable_request_snapshot()->set_number(3);
    each->Send(request);
    EXPECT_EQ(each->processor().snapshot_given_up(), 3u);
    Gradient here = request;
    here.mutable_cut_here()->set_snapshot(2);
    EXPECT_EQ(each->Send(here).snapshot, 2u) << "where it is";
    EXPECT_FALSE(each->processor().open_snapshot());
  }
}

// Shard 0, which has been told to cut the first where it is, may have begun the second long before.
TEST(PipelinedServer, ACutThatHeldUpdatesHaveComeToIsReachedByTheNextOne) {
  ServerOptions options = PipelinedServer();
  options.shards = 2;
  options.shard = 1;
  TestServer server(options);
  const auto marked = [](uint64_t clock, uint64_t snapshot, uint64_t cut) {
    Gradient message = UpdateOf(0, clock);
    message.mutable_update()->mutable_mark()->set_snapshot(snapshot);
    message.mutable_update()->mutable_mark()->set_cut(cut);
    return message;
  };
  server.Send(marked(0, 1, 1));
  server.Send(marked(1, 2, 2));
  EXPECT_EQ(server.processor().clocks().clock(0), 1u) << "it is held at the cut of the first";
  server.Send(Message(Gradient::kLeave, 1, 0));
  EXPECT_EQ(server.Send(Message(Gradient::kLeave, 2, 0)).snapshot, 1u);
  ServerOutput output;
  ASSERT_TRUE(server.processor().LeaveCut(output).ok());
  EXPECT_EQ(server.processor().clocks().clock(0), 2u);
  EXPECT_EQ(server.processor().open_snapshot(), 2u);
  EXPECT_EQ(server.Send(marked(2, 2, 2)).snapshot, 2u);
  ASSERT_TRUE(server.processor().at_cut());
  ASSERT_TRUE(server.processor().LeaveCut(output).ok());
  EXPECT_EQ(server.processor().clocks().clock(0), 3u) << "it would be held for ever";
}

TEST(PipelinedServer, AStateOfMoreUpdatesThanCanBeInFlightIsRefused) {
  TestServer server(PipelinedServer());
  ShardState state;
  server.processor().SaveState(state);
  for (uint64_t clock = 0; clock < 4; ++clock) {
    *state.mutable_members(0)->add_pending() = UpdateOf(0, clock).update();
  }
  EXPECT_TRUE(absl::IsDataLoss(TestServer(server.options()).processor().LoadState(state)));
}

ServerOptions ServerWithRows() {
  ServerOptions options = PipelinedServer();
  options.embeddings = {.seed = 3, .initial_limit = {0, 0.5f}};
  return options;
}

TEST(PipelinedServer, AnswersWithTheRowsOfAsManyRequestsAsTheReceiverHasNotBeenServed) {
  TestServer server(ServerWithRows());
  for (uint64_t clock = 0; clock < 2; ++clock) {
    Gradient update = UpdateOf(0, clock);
    for (const uint64_t id : {5 + clock, 7 + clock}) update.mutable_update()->add_wanted(id);
    server.Send(update);
  }
  const auto ids_of = [&](size_t requests) {
    Weights answer;
    EXPECT_TRUE(
        answer.ParseFromString(server.processor().Answer(0, {.requests = requests})->Joined()));
    return std::vector<EmbeddingId>(answer.embeddings().id().begin(),
                                    answer.embeddings().id().end());
  };
  EXPECT_THAT(ids_of(1), ElementsAre(6, 8));
  EXPECT_THAT(ids_of(2), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(ids_of(9), ElementsAre(5, 6, 7, 8));
  Gradient ask = Message(Gradient::kAsk, 0, 1);  // the update after it has been taken meanwhile
  ask.mutable_ask()->add_wanted(4);
  server.Send(ask);
  EXPECT_THAT(ids_of(1), ElementsAre(4));
}

}  // namespace
}  // namespace millrace
