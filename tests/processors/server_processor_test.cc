#include "processors/server_processor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/processors/server_fixture.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;

// ---- which updates count ----

TEST(ServerProcessorTest, TakesAnUpdateOnlyOfExactlyTheShardsClock) {
  for (Clock clock : {Clock{0}, Clock{2}, Clock{1000}}) {
    TestServer server(SmallServer(kEventual));
    server.SendNext(0);
    const std::vector<float> before = server.weights();
    const ServerOutput output = server.Send(Update(0, clock, Same(7), kRange));
    EXPECT_EQ(server.weights(), before);
    EXPECT_EQ(server.processor().clocks().clock(0), 1u);
    EXPECT_EQ(server.processor().counters().gradients_accepted(), 1u);
    EXPECT_EQ(server.processor().counters().duplicates_ignored(), 1u);
    EXPECT_THAT(output.answers, ElementsAreArray<WorkerId>({0}))
        << "what is dropped must be answered";
    EXPECT_THAT(output.dead_letters, IsEmpty());
  }
}

TEST(ServerProcessorTest, TheAnswerToARepeatedUpdateIsThePresentOne) {
  TestServer server(SmallServer(kEventual));
  server.SendNext(0);
  server.SendNext(1);
  server.Send(Update(0, 0, Same(1), kRange));
  const Weights answer = server.Answer(0);
  EXPECT_EQ(answer.clock(), 1u);
  EXPECT_TRUE(answer.released());
  EXPECT_EQ(std::vector<float>(answer.slice().dense().begin(), answer.slice().dense().end()),
            server.weights());
}

TEST(ServerProcessorTest, ARepeatOfWhatIsHeldForTheRoundIsCountedAndAnsweredByTheRound) {
  TestServer server(SmallServer(kSequential));
  EXPECT_THAT(server.SendNext(0).answers, IsEmpty());
  EXPECT_THAT(server.Send(Update(0, 0, Same(100), kRange)).answers, IsEmpty());
  EXPECT_EQ(server.processor().counters().duplicates_ignored(), 1u);
  server.SendNext(1);
  EXPECT_THAT(server.SendNext(2).answers, UnorderedElementsAreArray<WorkerId>({0, 1, 2}));
  EXPECT_EQ(server.weights(), Same(-0.5f)) << "the first version counts";
}

TEST(ServerProcessorTest, RepeatsOfAllRoundsChangeNothingButTheirCount) {
  for (const ConsistencyPolicy& policy : AllPolicies()) {
    TestServer once(SmallServer(policy));
    TestServer often(SmallServer(policy));
    uint64_t repeats = 0;
    for (Clock clock = 0; clock < 20; ++clock) {
      for (const WorkerId worker : std::vector<WorkerId>{2, 0, 1}) {
        const Gradient update = WithProgressive(
            Update(worker, clock, Same(static_cast<float>(uint64_t{worker} + uint64_t{clock})),
                   kRange),
            3);
        once.Send(update);
        for (int i = 0; i < 3; ++i) often.Send(update);
        repeats += 2;
      }
    }
    EXPECT_EQ(once.weights(), often.weights());
    EXPECT_EQ(once.processor().progressive(), often.processor().progressive());
    EXPECT_EQ(once.processor().rows_trained(), 180u);
    EXPECT_EQ(often.processor().rows_trained(), 180u);
    EXPECT_EQ(often.processor().counters().duplicates_ignored(), repeats);
    EXPECT_EQ(once.processor().counters().duplicates_ignored(), 0u);
  }
}

// ---- sequential ----

TEST(ServerProcessorTest, ASequentialRoundIsOneStepAlongTheMeanOverAllItsRows) {
  TestServer server(SmallServer(kSequential));
  server.Send(Update(0, 0, Same(3), kRange, 1));
  server.Send(Update(1, 0, Same(6), kRange, 2));
  EXPECT_EQ(server.weights(), Same(0)) << "nothing moves before the last has come";
  server.Send(Update(2, 0, Same(9), kRange, 5));
  EXPECT_EQ(server.weights(), Same(-0.5f * (3 + 6 + 9) / 8));
  EXPECT_EQ(server.processor().steps(), 1u);
}

TEST(ServerProcessorTest, SequentialRoundsDoNotDependOnTheArrivalOrderToTheByte) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> exponent(-20, 20);
  for (int trial = 0; trial < 200; ++trial) {
    ServerOptions options = SmallServer(kSequential);
    options.workers = 5;
    options.optimizer.kind = OptimizerOptions::Kind::kAdam;
    options.l2 = 0.01;
    TestServer in_order(options);
    TestServer shuffled(options);
    for (Clock clock = 0; clock < 3; ++clock) {
      // Magnitudes so far apart that any other order of additions gives other bits.
      std::vector<Gradient> round;
      for (WorkerId worker = 0; worker < 5; ++worker) {
        std::vector<float> sum;
        for (size_t i = 0; i < kRange.size(); ++i) sum.push_back(std::exp2(exponent(random)));
        round.push_back(WithMoments(WithProgressive(Update(worker, clock, sum, kRange), worker + 1),
                                    {std::exp2(exponent(random)), 1, 3}));
        round.back().mutable_update()->set_train_loss(exponent(random));
      }
      for (const Gradient& update : round) in_order.Send(update);
      std::shuffle(round.begin(), round.end(), random);
      for (const Gradient& update : round) shuffled.Send(update);
    }
    ASSERT_EQ(in_order.StateBytes(), shuffled.StateBytes());
    for (WorkerId worker = 0; worker < 5; ++worker) {
      ASSERT_EQ(in_order.processor().Answer(worker)->Joined(),
                shuffled.processor().Answer(worker)->Joined());
    }
  }
}

TEST(ServerProcessorTest, ASequentialRoundAnswersEachOfItsWorkersOnce) {
  TestServer server(SmallServer(kSequential));
  EXPECT_THAT(server.SendNext(2).answers, IsEmpty());
  EXPECT_THAT(server.SendNext(0).answers, IsEmpty());
  EXPECT_THAT(server.SendNext(1).answers, ElementsAreArray<WorkerId>({0, 1, 2}));
  for (WorkerId worker = 0; worker < 3; ++worker) EXPECT_EQ(server.Answer(worker).clock(), 1u);
}

TEST(ServerProcessorTest, SaysWhomASequentialRoundWaitsFor) {
  TestServer server(SmallServer(kSequential));
  EXPECT_THAT(server.processor().WaitedFor(), IsEmpty()) << "nobody waits yet";
  server.SendNext(1);
  EXPECT_THAT(server.processor().WaitedFor(), ElementsAreArray<WorkerId>({0, 2}));
  server.SendNext(0);
  EXPECT_THAT(server.processor().WaitedFor(), ElementsAreArray<WorkerId>({2}));
  server.SendNext(2);
  EXPECT_THAT(server.processor().WaitedFor(), IsEmpty());
  server.SendNext(1);
  server.Send(Message(Gradient::kLeave, 0, 1));
  EXPECT_THAT(server.processor().WaitedFor(), ElementsAreArray<WorkerId>({2}))
      << "nobody waits for who has left";
}

// ---- eventual and bounded ----

TEST(ServerProcessorTest, EventualAppliesAndAnswersEachUpdateAtOnce) {
  TestServer server(SmallServer(kEventual));
  for (int i = 0; i < 50; ++i)
    EXPECT_THAT(server.SendNext(0, 2).answers, ElementsAreArray<WorkerId>({0}));
  EXPECT_EQ(server.weights(), Same(-50));
  EXPECT_EQ(server.processor().clocks().Staleness(), 50u);
}

TEST(ServerProcessorTest, BoundedAppliesAtOnceButHoldsBackTheAnswerOfWhoIsTooFarAhead) {
  TestServer server(SmallServer(ConsistencyPolicy::Bounded(1)));
  EXPECT_THAT(server.SendNext(0, 2).answers, ElementsAreArray<WorkerId>({0}));
  EXPECT_THAT(server.SendNext(0, 2).answers, IsEmpty());
  EXPECT_EQ(server.weights(), Same(-2));
  EXPECT_FALSE(server.Answer(0).released());
  EXPECT_FALSE(server.Answer(0).has_slice());
  EXPECT_EQ(server.Answer(0).clock(), 2u);
  EXPECT_THAT(server.SendNext(1).answers, ElementsAreArray<WorkerId>({1}));
  EXPECT_THAT(server.SendNext(2).answers, UnorderedElementsAreArray<WorkerId>({0, 2}))
      << "the slowest releases it";
  EXPECT_TRUE(server.Answer(0).released());
}

// An answer is due when the policy releases its worker, and is given then: not earlier, not later,
// not twice. Written down from the definition, beside a random schedule.
TEST(ServerProcessorTest, AnswersEachWorkerExactlyWhenThePolicyReleasesIt) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 300; ++trial) {
    const uint64_t bound = 1 + random() % 3;
    ServerOptions options = SmallServer(ConsistencyPolicy::Bounded(bound));
    options.workers = static_cast<uint32_t>(2 + random() % 4);
    TestServer server(options);
    std::vector<uint64_t> clock(options.workers, 0);
    std::vector<bool> has_left(options.workers, false);
    std::set<WorkerId> waiting;
    for (int step = 0; step < 60; ++step) {
      const auto worker = static_cast<WorkerId>(random() % options.workers);
      if (has_left[worker] || waiting.contains(worker)) continue;
      std::vector<WorkerId> expected;
      ServerOutput output;
      if (random() % 15 == 0) {
        output = server.Send(Message(Gradient::kLeave, worker, Clock(clock[worker])));
        has_left[worker] = true;
        expected.push_back(worker);
      } else {
        output = server.SendNext(worker);
        ++clock[worker];
        waiting.insert(worker);
      }
      uint64_t min = std::numeric_limits<uint64_t>::max();
      for (WorkerId w = 0; w < options.workers; ++w) {
        if (!has_left[w]) min = std::min(min, clock[w]);
      }
      for (WorkerId w = 0; w < options.workers; ++w) {
        if (waiting.contains(w) && clock[w] - min <= bound) expected.push_back(w);
      }
      ASSERT_THAT(output.answers, ::testing::UnorderedElementsAreArray(expected));
      for (WorkerId w : expected) {
        waiting.erase(w);
        ASSERT_TRUE(server.Answer(w).released() || server.Answer(w).left());
      }
      for (WorkerId w : waiting) ASSERT_FALSE(server.Answer(w).released());
    }
  }
}

// ---- asking and leaving ----

TEST(ServerProcessorTest, AnswersWhoeverAsksWhateverTheClock) {
  for (const ConsistencyPolicy& policy : AllPolicies()) {
    TestServer server(SmallServer(policy));
    Gradient ask = Message(Gradient::kAsk, 1, 0);
    ask.clear_clock();
    EXPECT_THAT(server.Send(ask).answers, ElementsAreArray<WorkerId>({1}));
    server.SendNext(1);
    EXPECT_THAT(server.Send(Message(Gradient::kAsk, 1, 77)).answers,
                ElementsAreArray<WorkerId>({1}));
    EXPECT_EQ(server.processor().counters().duplicates_ignored(), 0u);
    EXPECT_EQ(server.processor().counters().gradients_accepted(), 1u);
  }
}

// ---- several shards ----

// Which bytes an update was computed on must not depend on who was killed meanwhile.
TEST(ServerProcessor, ASequentialShardAmongOthersServesTheClockBeforeItsLastRound) {
  ServerOptions options = SmallServer();
  options.shards = 2;
  TestServer server(options);
  for (WorkerId worker = 0; worker < 3; ++worker) server.SendNext(worker);
  Weights before = server.Answer(1);
  for (WorkerId worker = 0; worker < 3; ++worker) {
    Gradient update = Update(worker, 1, std::vector<float>(6, 2.0f), kRange);
    update.mutable_update()->set_rows_end(5);
    Moments moments(1);
    moments.Add({0, {7.0}, {}, {}});
    ToProto(moments, *update.mutable_update()->mutable_moments());
    server.Send(update);
  }
  EXPECT_EQ(server.Answer(1).clock(), 2u);
  const ServerOutput output = server.Send(Message(Gradient::kAsk, 1, 1));
  EXPECT_THAT(output.answers, IsEmpty());
  ASSERT_THAT(output.previous_answers, ElementsAre(ServerOutput::PreviousReceiver{1}));
  const Weights previous_round = server.PreviousAnswer(output.previous_answers.front());
  EXPECT_TRUE(previous_round.previous_round());
  before.set_previous_round(true);
  before.clear_rows_before();
  EXPECT_EQ(previous_round.SerializeAsString(), before.SerializeAsString());
  EXPECT_EQ(server.Answer(1).rows().end(), 5u);
  EXPECT_EQ(server.Answer(1).rows_before(0).end(), 0u);
}

// Two instances of a worker may have sent updates of one clock, on buffers that they had read to
// different rows; this shard took the one that had read further, shard 0 the other.
TEST(ServerProcessor, TheRowsOfAWorkerNeverGoBack) {
  TestServer server(SmallServer(ConsistencyPolicy::Eventual()));
  for (const RowNumber end : std::vector<RowNumber>{20, 15, 25}) {
    Gradient update =
        Update(1, server.processor().clocks().clock(1), std::vector<float>(6), kRange);
    update.mutable_update()->set_rows_end(end);
    server.Send(update);
    EXPECT_EQ(server.Answer(1).rows().end(), std::max<RowNumber>(end, 20));
  }
  EXPECT_EQ(server.Answer(1).rows_before(0).end(), 20u);
}

TEST(ServerProcessor, OnlyTheClockBeforeIsServedBesideThePresentOne) {
  ServerOptions options = SmallServer();
  options.shards = 2;
  TestServer server(options);
  for (int round = 0; round < 3; ++round) {
    for (WorkerId worker = 0; worker < 3; ++worker) server.SendNext(worker);
  }
  for (const Clock clock : std::vector<Clock>{0, 1, 3, 4}) {
    const ServerOutput output = server.Send(Message(Gradient::kAsk, 1, clock));
    EXPECT_THAT(output.answers, ElementsAreArray<WorkerId>({1})) << clock;
    EXPECT_THAT(output.previous_answers, IsEmpty()) << clock;
  }
  EXPECT_THAT(server.Send(Message(Gradient::kAsk, 1, 2)).previous_answers,
              ElementsAre(ServerOutput::PreviousReceiver{1}));
  server.Send(Message(Gradient::kLeave, 1, 3));
  EXPECT_THAT(server.Send(Message(Gradient::kAsk, 1, 2)).answers, ElementsAreArray<WorkerId>({1}))
      << "who has left repeats nothing";
}

TEST(ServerProcessor, AShardThatIsAloneOrDoesNotWaitKeepsNoPreviousRound) {
  ServerOptions options = SmallServer(ConsistencyPolicy::Eventual());
  options.shards = 2;
  for (const ServerOptions& some : {SmallServer(), options}) {
    TestServer server(some);
    for (WorkerId worker = 0; worker < 3; ++worker) server.SendNext(worker);
    const ServerOutput output = server.Send(Message(Gradient::kAsk, 1, 0));
    EXPECT_THAT(output.answers, ElementsAreArray<WorkerId>({1}));
    EXPECT_THAT(output.previous_answers, IsEmpty());
    EXPECT_THAT(server.processor().shard().previous_round(), IsEmpty());
  }
}

TEST(ServerProcessorTest, WhoAsksBeforeTheFirstUpdateGetsClockZeroAndTheWeightsOfBirth) {
  for (const ConsistencyPolicy& policy : AllPolicies()) {
    const TestServer server(SmallServer(policy));
    const Weights answer = server.Answer(2);
    EXPECT_EQ(answer.epoch(), 1u);
    EXPECT_EQ(answer.clock(), 0u);
    EXPECT_TRUE(answer.released());
    EXPECT_FALSE(answer.left());
    EXPECT_EQ(answer.slice().dense_size(), 6);
    EXPECT_EQ(answer.moments().count_size(), 1);
  }
}

TEST(ServerProcessorTest, TheLastMissingWorkersLeaveFinishesTheRoundOfTheOthers) {
  TestServer server(SmallServer(kSequential));
  server.SendNext(0, 2);
  server.SendNext(2, 4);
  const ServerOutput output = server.Send(Message(Gradient::kLeave, 1, 0));
  EXPECT_THAT(output.answers, UnorderedElementsAreArray<WorkerId>({0, 1, 2}));
  EXPECT_EQ(server.weights(), Same(-1.5f));
  EXPECT_TRUE(server.Answer(1).left());
  EXPECT_FALSE(server.Answer(1).has_slice());
  EXPECT_EQ(server.Answer(0).clock(), 1u);
}

TEST(ServerProcessorTest, ALeaveReleasesWhomTheLeaverHeldBack) {
  TestServer server(SmallServer(ConsistencyPolicy::Bounded(1)));
  for (const WorkerId worker : std::vector<WorkerId>{0, 1, 0}) server.SendNext(worker);
  EXPECT_FALSE(server.Answer(0).released());
  EXPECT_THAT(server.Send(Message(Gradient::kLeave, 2, 0)).answers,
              UnorderedElementsAreArray<WorkerId>({0, 2}));
}

TEST(ServerProcessorTest, ARoundOfNobodyMakesNoStep) {
  for (const ConsistencyPolicy& policy : AllPolicies()) {
    TestServer server(SmallServer(policy));
    for (WorkerId worker = 0; worker < 3; ++worker) {
      EXPECT_FALSE(server.processor().AllLeft());
      server.Send(Message(Gradient::kLeave, worker, 0));
    }
    EXPECT_TRUE(server.processor().AllLeft());
    EXPECT_EQ(server.processor().steps(), 0u);
    EXPECT_EQ(server.weights(), Same(0));
  }
}

TEST(ServerProcessorTest, ARepeatedLeaveIsAnsweredAndDoesNothingElse) {
  for (const ConsistencyPolicy& policy : AllPolicies()) {
    TestServer server(SmallServer(policy));
    const Gradient leave = WithDeadLetter(Message(Gradient::kLeave, 1, 0), "a damaged row");
    EXPECT_EQ(server.Send(leave).dead_letters.size(), 1u);
    const ServerOutput again = server.Send(leave);
    EXPECT_THAT(again.answers, ElementsAreArray<WorkerId>({1}));
    EXPECT_THAT(again.dead_letters, IsEmpty());
    EXPECT_EQ(server.processor().counters().undecodable_rows(), 1u);
  }
}

TEST(ServerProcessorTest, AnUpdateOfWhoHasLeftIsCountedAndAnsweredAsLeft) {
  for (const ConsistencyPolicy& policy : AllPolicies()) {
    TestServer server(SmallServer(policy));
    server.Send(Message(Gradient::kLeave, 1, 0));
    EXPECT_THAT(server.SendNext(1).answers, ElementsAreArray<WorkerId>({1}));
    EXPECT_EQ(server.processor().counters().duplicates_ignored(), 1u);
    EXPECT_EQ(server.processor().counters().gradients_accepted(), 0u);
    EXPECT_TRUE(server.Answer(1).left());
  }
}

TEST(ServerProcessorTest, ALeaveOfAnotherClockIsAnsweredButNotTaken) {
  TestServer server(SmallServer(kEventual));
  server.SendNext(1);
  EXPECT_THAT(server.Send(Message(Gradient::kLeave, 1, 0)).answers,
              ElementsAreArray<WorkerId>({1}));
  EXPECT_FALSE(server.processor().clocks().left(1));
  server.Send(Message(Gradient::kLeave, 1, 1));
  EXPECT_TRUE(server.processor().clocks().left(1));
}

// ---- what is counted once ----

TEST(ServerProcessorTest, KeepsTheLastFullWindowOfWhatItCounts) {
  ServerOptions options = SmallServer(kEventual);
  options.fewest_window_rows = 5;
  TestServer server(options);
  server.Send(WithProgressive(Update(0, 0, Same(1), kRange), 4));
  server.Send(WithProgressive(Update(0, 0, Same(1), kRange), 4));  // not counted again
  EXPECT_EQ(server.processor().window().last().rows, 0u);
  server.Send(WithProgressive(Update(1, 0, Same(1), kRange), 2));
  EXPECT_EQ(server.processor().window().last(), server.processor().progressive());
  EXPECT_EQ(server.processor().window().last_end(), 6u);
  server.Send(WithProgressive(Update(1, 1, Same(1), kRange), 3));
  EXPECT_EQ(server.processor().window().last().rows, 6u) << "the next one is not full";
  EXPECT_EQ(server.processor().window().open().rows, 3u);
}

TEST(ServerProcessorTest, SumsTravelWithTheUpdateAndAreCountedWhenItIsApplied) {
  TestServer server(SmallServer(kSequential));
  Gradient update = WithMoments(WithProgressive(Update(0, 0, Same(1), kRange), 4), {1, 2, 3, 4});
  EvaluationSums tail;
  tail.Add(0, std::vector<float>{0.5f, 0.5f});
  ToProto(tail, *update.mutable_update()->mutable_tail());
  update.mutable_update()->set_train_loss(0.125);
  server.Send(update);
  EXPECT_EQ(server.processor().progressive().rows, 0u) << "held for the round";
  server.Send(Message(Gradient::kLeave, 1, 0));
  server.Send(Message(Gradient::kLeave, 2, 0));
  EXPECT_EQ(server.processor().progressive().rows, 4u);
  EXPECT_EQ(server.processor().tail(), tail);
  EXPECT_EQ(server.processor().rows_trained(), 4u);
  EXPECT_EQ(server.processor().moments().count, std::vector<double>{4});
  EXPECT_EQ(server.processor().moments().mean, std::vector<double>{2.5});
  EXPECT_EQ(server.processor().train_loss(), 0.125);
  EXPECT_EQ(server.Answer(0).moments().mean(0), 2.5);
}

TEST(ServerProcessorTest, TargetsAreCountedWithoutNumericColumns) {
  ServerOptions options = SmallServer(kEventual);
  options.numeric_columns = 0;
  TestServer server(options);
  Gradient update = WithProgressive(Update(0, 0, Same(1), kRange), 2);
  Moments moments(0);
  for (const float target : {3.0f, 5.0f}) moments.target.Add(target);
  ToProto(moments, *update.mutable_update()->mutable_moments());
  server.Send(update);
  EXPECT_EQ(server.processor().moments().target.mean, 4);
  EXPECT_EQ(server.Answer(0).moments().target_count(), 2);
}

TEST(ServerProcessorTest, RowsOfClassesAreCountedWithTheMomentsAndSentWithThem) {
  TestServer server(SmallServer(kEventual));
  Gradient update = WithMoments(Update(0, 0, Same(1), kRange), {1, 2, 3});
  update.mutable_update()->mutable_moments()->add_class_rows(3);
  server.Send(update);
  // Without scaling there is nothing else in them.
  update = Update(1, 0, Same(1), kRange);
  update.mutable_update()->mutable_moments()->add_class_rows(1);
  update.mutable_update()->mutable_moments()->add_class_rows(4);
  server.Send(update);
  EXPECT_THAT(server.processor().moments().class_rows, ElementsAre(4u, 4u));
  EXPECT_EQ(server.processor().moments().count, std::vector<double>{3});
  EXPECT_THAT(server.Answer(0).moments().class_rows(), ElementsAre(4u, 4u));
  ShardState state;
  server.processor().SaveState(state);
  TestServer other(SmallServer(kEventual));
  ASSERT_TRUE(other.processor().LoadState(state).ok());
  EXPECT_THAT(other.processor().moments().class_rows, ElementsAre(4u, 4u));
}

TEST(ServerProcessorTest, FindsADriftInTheLossesOfUpdatesAndKeepsWhatItHasSeen) {
  ServerOptions options = SmallServer(kEventual);
  options.drift_pace = {.block_rows = 4, .first_blocks = 5};
  TestServer server(options);
  const auto send = [&](double loss) {
    Gradient update =
        WithProgressive(Update(0, server.processor().clocks().clock(0), Same(1), kRange), 4);
    update.mutable_update()->mutable_progressive()->set_log_loss(4 * loss);
    server.Send(update);
  };
  for (int i = 0; i < 20; ++i) send(i % 2 == 0 ? 0.4 : 0.3);
  EXPECT_EQ(server.processor().drift().last().count, 0u);
  send(1.5);
  ShardState state;
  server.processor().SaveState(state);
  TestServer other(options);
  ASSERT_TRUE(other.processor().LoadState(state).ok());
  EXPECT_EQ(other.processor().drift().state(), server.processor().drift().state());
  send(1.5);
  const DriftDetector::Drift& drift = server.processor().drift().last();
  EXPECT_EQ(drift.count, 1u);
  EXPECT_EQ(drift.row, 80u);
  EXPECT_EQ(drift.found_at, 88u);
  EXPECT_EQ(drift.clock, 21u);
  state.mutable_drift()->set_mean(-1);
  TestServer damaged(options);
  EXPECT_TRUE(absl::IsDataLoss(damaged.processor().LoadState(state)));
  state.clear_drift();  // of an older version
  TestServer older(options);
  EXPECT_TRUE(older.processor().LoadState(state).ok());
}

TEST(ServerProcessorTest, UndecodableRowsGoToTheDeadLettersOnce) {
  for (const ConsistencyPolicy& policy : AllPolicies()) {
    TestServer server(SmallServer(policy));
    const Gradient update = WithDeadLetter(
        WithDeadLetter(Update(1, 0, Same(1), kRange), "damaged row 3"), "damaged row 5");
    std::vector<std::string> reasons;
    const auto send = [&](const Gradient& message) {
      for (const DeadLetter& letter : server.Send(message).dead_letters) {
        reasons.push_back(letter.reason());
      }
    };
    send(update);
    send(update);
    send(Update(0, 0, Same(1), kRange));
    send(Update(2, 0, Same(1), kRange));
    send(update);
    EXPECT_THAT(reasons, ElementsAre("damaged row 3", "damaged row 5"));
    EXPECT_EQ(server.processor().counters().undecodable_rows(), 2u);
  }
}

TEST(ServerProcessorTest, TheAnswerSaysHowFarTheWorkersRowsAreCounted) {
  TestServer server(SmallServer(kEventual));
  const auto send = [&](RowNumber rows_end) {
    Gradient update = Update(1, server.processor().clocks().clock(1), Same(1), kRange);
    update.mutable_update()->set_rows_end(rows_end);
    update.mutable_update()->set_buffer_rows(17);
    update.mutable_update()->set_repeated_end(rows_end - 3);
    server.Send(update);
    return server.Answer(1);
  };
  EXPECT_EQ(send(10).rows().end(), 10u);
  EXPECT_EQ(server.Answer(1).rows().updates_without_rows(), 0u);
  EXPECT_EQ(send(10).rows().updates_without_rows(), 1u);
  EXPECT_EQ(send(10).rows().updates_without_rows(), 2u);
  EXPECT_EQ(send(11).rows().updates_without_rows(), 0u);
  EXPECT_EQ(server.Answer(1).rows().end(), 11u);
  EXPECT_EQ(server.Answer(1).rows().repeated_end(), 8u);
  EXPECT_EQ(server.Answer(0).rows().end(), 0u);
  EXPECT_EQ(server.processor().buffer_rows(1), 17u);
}

TEST(ServerProcessorTest, OnlyShardZeroSendsTheMoments) {
  ServerOptions options = SmallServer(kEventual);
  options.shard = 1;
  options.shards = 2;
  EXPECT_FALSE(TestServer(options).Answer(0).has_moments());
}

// ---- messages in chunks ----

TEST(ServerProcessorTest, AnUpdateInChunksIsTheSameUpdate) {
  TestServer whole(SmallServer(kEventual));
  TestServer split(SmallServer(kEventual));
  const Gradient update = WithProgressive(Update(1, 0, Same(3), kRange), 2);
  whole.Send(update);
  const std::vector<std::string> frames = MakeFrames(update.SerializeAsString(), 5, 40);
  ASSERT_GT(frames.size(), 2u);
  for (size_t i = 0; i < frames.size(); ++i) {
    const ServerOutput output = split.Send(LogRecord{EncodeBigEndian32(1), frames[i]});
    EXPECT_THAT(output.dead_letters, IsEmpty());
    EXPECT_EQ(output.answers.size(), i + 1 == frames.size() ? 1u : 0u);
    // Chunks of another worker between them spoil nothing.
    split.Send(LogRecord{EncodeBigEndian32(2), frames[0]});
  }
  EXPECT_EQ(split.weights(), whole.weights());
  EXPECT_EQ(split.processor().progressive(), whole.processor().progressive());
}

}  // namespace
}  // namespace millrace
