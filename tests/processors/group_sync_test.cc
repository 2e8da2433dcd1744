#include "processors/group_sync.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "models/parameter_handler.h"
#include "tests/processors/parameters_fixture.h"
#include "tests/processors/server_fixture.h"
#include "topics/server_groups.h"

namespace millrace {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr float kInfinite = std::numeric_limits<float>::infinity();

// One shard of each group. Group 0 has worker 0; group g exchanges with group `neighbor` and has
// worker g. (In tests all messages have one job.)
ServerOptions OfGroup(ServerOptions options, uint32_t group, uint32_t groups,
                      std::optional<uint32_t> neighbor, std::vector<uint32_t> sources,
                      uint64_t interval = 2) {
  options.workers = groups;
  options.group = group;
  options.groups = groups;
  options.members = {WorkerId(group)};
  if (neighbor) options.neighbor = {{*neighbor, 0}, interval};
  for (const uint32_t source : sources) options.sources.push_back({source, 0});
  return options;
}

ServerOptions Root(const ServerOptions& options = SmallServer(kEventual)) {
  return OfGroup(options, 0, 2, std::nullopt, {1});
}
ServerOptions Other(const ServerOptions& options = SmallServer(kEventual), uint64_t interval = 2) {
  return OfGroup(options, 1, 2, 0, {}, interval);
}

LogRecord FromGroup(uint32_t group, const StatusOr<std::string>& body) {
  EXPECT_TRUE(body.ok()) << body.status();
  return {EncodeBigEndian32(SenderOfGroup(group)), MakeFrames(*body, 0).front()};
}

Gradient MessageIn(const LogRecord& record) {
  Gradient message;
  EXPECT_TRUE(message.ParseFromString(std::string(ParseFrame(record.value)->body)));
  return message;
}

LogRecord DeltaOf(const TestServer& server) {
  return FromGroup(server.options().group, server.processor().Delta());
}
LogRecord AnswerTo(uint32_t group, const TestServer& server) {
  return FromGroup(server.options().group, server.processor().ValuesFor({group, 0}));
}

bool HasEndedAsSaved(const TestServer& server) {
  ShardState state;
  server.processor().SaveState(state);
  return HasEnded(state);
}

ServerOutput Leave(TestServer& server, WorkerId worker) {
  return server.Send(Message(Gradient::kLeave, worker, server.processor().clocks().clock(worker)));
}

TEST(GroupSync, BeginsAnExchangeAfterSoManyUpdatesAndNoOtherBeforeItIsAnswered) {
  TestServer other(Other());
  EXPECT_FALSE(other.SendNext(1).delta);
  EXPECT_TRUE(other.SendNext(1).delta);
  EXPECT_EQ(other.processor().sync().open(), 1U);
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(other.SendNext(1).delta);
  TestServer root(Root());
  EXPECT_THAT(root.Send(DeltaOf(other)).values_for, ElementsAre(1U));
  EXPECT_TRUE(other.Send(AnswerTo(1, root)).delta) << "more than enough have come meanwhile";
  EXPECT_EQ(other.processor().sync().open(), 2U);
  EXPECT_EQ(other.processor().sync().exchanges(), 1U);
}

TEST(GroupSync, WhatCrossesWithUpdatesIsCountedWhereItStandsInTheLog) {
  TestServer root(Root());
  TestServer other(Other());
  root.SendNext(0, 2);  // -1 by each
  for (int i = 0; i < 2; ++i) other.SendNext(1, 4);
  EXPECT_THAT(other.weights(), Each(-4.0f));
  const LogRecord delta = DeltaOf(other);
  EXPECT_THAT(MessageIn(delta).delta().slice().dense(), Each(-4.0f));
  other.SendNext(1, 6);  // after the delta, before the answer
  root.Send(delta);
  EXPECT_THAT(root.weights(), Each(-5.0f));
  root.SendNext(0, 2);  // after the delta: it is in the answer
  other.Send(AnswerTo(1, root));
  EXPECT_THAT(other.weights(), Each(-9.0f)) << "-6 of the neighbor, and -3 that it has not seen";
  other.SendNext(1, 2);
  EXPECT_THAT(MessageIn(DeltaOf(other)).delta().slice().dense(), Each(-4.0f)) << "-3 and -1";
}

TEST(GroupSync, ADeltaCountsOnceAndIsAnsweredAgainFromThePresentValues) {
  TestServer root(Root());
  TestServer other(Other());
  for (int i = 0; i < 2; ++i) other.SendNext(1, 4);
  const LogRecord delta = DeltaOf(other);
  root.Send(delta);
  root.SendNext(0, 2);
  const ServerOutput again = root.Send(delta);
  EXPECT_THAT(again.values_for, ElementsAre(1U));
  EXPECT_THAT(again.dead_letters, IsEmpty());
  EXPECT_THAT(root.weights(), Each(-5.0f));
  EXPECT_EQ(root.processor().sync().deltas_taken(), 1U);
  const LogRecord answer = AnswerTo(1, root);
  other.Send(answer);
  EXPECT_THAT(other.weights(), Each(-5.0f));
  other.Send(answer);
  EXPECT_THAT(other.weights(), Each(-5.0f)) << "an answer counts once, too";
  EXPECT_EQ(other.processor().counters().duplicates_ignored(), 1U);
}

TEST(GroupSync, ADeltaOfANumberThatIsNotDueCountsForNothing) {
  TestServer root(Root());
  TestServer other(Other());
  for (int i = 0; i < 2; ++i) other.SendNext(1, 4);
  const LogRecord first = DeltaOf(other);
  Gradient message = MessageIn(first);
  message.mutable_delta()->set_number(2);
  const ServerOutput ahead = root.Send(message);
  EXPECT_THAT(ahead.values_for, IsEmpty());
  ASSERT_THAT(ahead.dead_letters, SizeIs(1));
  EXPECT_THAT(ahead.dead_letters[0].reason(), HasSubstr("whose number is not due"));
  root.Send(first);
  root.Send(message);
  EXPECT_THAT(root.weights(), Each(-8.0f));
  EXPECT_THAT(root.Send(first).values_for, IsEmpty()) << "whoever sends it has gone on long ago";
  EXPECT_THAT(root.weights(), Each(-8.0f));
}

TEST(GroupSync, AShardThatIsBornAgainSendsTheSameDeltaAndGoesOnAsIfNothingHadBeen) {
  TestServer root(Root());
  TestServer other(Other());
  for (int i = 0; i < 2; ++i) other.SendNext(1, 4);
  root.Send(DeltaOf(other));
  root.SendNext(0, 2);
  other.Send(AnswerTo(1, root));  // so the last answer is not what it began with
  for (int i = 0; i < 3; ++i) other.SendNext(1, 0.1f);
  TestServer reborn = RebornWithBlocks(other);
  EXPECT_EQ(reborn.StateBytes(), other.StateBytes());
  ASSERT_EQ(reborn.processor().sync().open(), 2U);
  EXPECT_EQ(DeltaOf(reborn).value, DeltaOf(other).value);
  TestServer primary = RebornWithBlocks(root);
  primary.Send(DeltaOf(reborn));
  root.Send(DeltaOf(other));
  EXPECT_EQ(AnswerTo(1, primary).value, AnswerTo(1, root).value);
  reborn.Send(AnswerTo(1, primary));
  other.Send(AnswerTo(1, root));
  EXPECT_EQ(reborn.weights(), other.weights());
  EXPECT_EQ(reborn.StateBytes(), other.StateBytes());
}

TEST(GroupSync, EndsWhenTheLastDeltaHasBeenAnsweredAndThePrimaryWhenItHasBeenTaken) {
  TestServer root(Root());
  TestServer other(Other());
  root.SendNext(0, 2);
  EXPECT_FALSE(root.processor().ended());
  Leave(root, 0);
  EXPECT_FALSE(root.processor().ended()) << "a group has not ended";
  EXPECT_FALSE(HasEndedAsSaved(root));
  other.SendNext(1, 4);
  EXPECT_TRUE(Leave(other, 1).delta) << "fewer updates than in an interval, but no other will come";
  EXPECT_FALSE(other.processor().ended());
  EXPECT_FALSE(HasEndedAsSaved(other));
  root.Send(DeltaOf(other));
  EXPECT_TRUE(root.processor().ended());
  EXPECT_THAT(root.weights(), Each(-3.0f));
  EXPECT_FALSE(other.Send(AnswerTo(1, root)).delta);
  EXPECT_TRUE(other.processor().ended());
  EXPECT_THAT(other.weights(), Each(-3.0f));
  EXPECT_TRUE(HasEndedAsSaved(root) && HasEndedAsSaved(other));
}

TEST(GroupSync, AGroupBetweenTwoOthersHandsOnWhatItGetsInBothDirections) {
  const ServerOptions small = SmallServer(kEventual);
  TestServer root(OfGroup(small, 0, 3, std::nullopt, {1}));
  TestServer middle(OfGroup(small, 1, 3, 0, {2}, 100));
  TestServer last(OfGroup(small, 2, 3, 1, {}));
  Leave(root, 0);
  Leave(middle, 1);
  EXPECT_FALSE(middle.processor().sync().open())
      << "there is nothing to be said, and more may come";
  for (int i = 0; i < 2; ++i) last.SendNext(2, 4);
  EXPECT_TRUE(middle.Send(DeltaOf(last)).delta) << "its own workers will not make it";
  root.Send(DeltaOf(middle));
  EXPECT_THAT(root.weights(), Each(-4.0f));
  EXPECT_FALSE(middle.Send(AnswerTo(1, root)).delta);
  last.Send(AnswerTo(2, middle));
  EXPECT_TRUE(Leave(last, 2).delta);
  EXPECT_TRUE(middle.Send(DeltaOf(last)).delta);
  EXPECT_FALSE(root.processor().ended());
  root.Send(DeltaOf(middle));
  EXPECT_TRUE(root.processor().ended());
  middle.Send(AnswerTo(1, root));
  last.Send(AnswerTo(2, middle));
  EXPECT_TRUE(middle.processor().ended() && last.processor().ended());
}

TEST(GroupSync, TakesOverToTheBitWhatTheNeighborHas) {
  TestServer root(Root());
  TestServer other(Other());
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 3; ++i) root.SendNext(0, normal(random) * 1000);
    for (int i = 0; i < 2; ++i) other.SendNext(1, normal(random) / 1000);
    root.Send(DeltaOf(other));
    other.Send(AnswerTo(1, root));
    ASSERT_EQ(other.weights(), root.weights()) << "round " << round;
  }
}

TEST(GroupSync, ADeltaByWhichAParameterWouldBecomeNoneCountsAsZeros) {
  TestServer root(Root());
  TestServer other(Other());
  for (int i = 0; i < 2; ++i) other.SendNext(1, 4);
  Gradient message = MessageIn(DeltaOf(other));
  message.mutable_delta()->mutable_slice()->set_dense(3, kInfinite);
  const ServerOutput taken = root.Send(message);
  ASSERT_THAT(taken.dead_letters, SizeIs(1));
  EXPECT_THAT(taken.dead_letters[0].reason(), HasSubstr("it counts as zeros"));
  EXPECT_THAT(taken.values_for, ElementsAre(1U)) << "or the group would wait for ever";
  EXPECT_THAT(root.weights(), Each(0.0f));
  EXPECT_EQ(root.processor().counters().non_finite_updates(), 1U);
}

TEST(GroupSync, RefusesWhatDoesNotComeFromAGroupThatItExchangesWith) {
  TestServer root(Root());
  TestServer other(Other());
  for (int i = 0; i < 2; ++i) other.SendNext(1, 4);
  const Gradient delta = MessageIn(DeltaOf(other));
  root.Send(delta);
  const Gradient answer = MessageIn(AnswerTo(1, root));
  const auto refused = [](TestServer& server, const Gradient& message) {
    const ServerOutput output = server.Send(message);
    return output.dead_letters.empty() ? "" : output.dead_letters[0].reason();
  };
  EXPECT_THAT(refused(other, delta), HasSubstr("the key is not a worker")) << "its own";
  EXPECT_THAT(refused(root, answer), HasSubstr("the key is not a worker"));
  Gradient bad = delta;
  bad.set_worker(0);
  EXPECT_THAT(refused(root, bad), HasSubstr("a group of servers that this one has none with"));
  bad = delta;
  bad.set_job(5);
  EXPECT_THAT(refused(root, bad), HasSubstr("another job"));
  bad = delta;
  bad.mutable_delta()->mutable_slice()->mutable_dense()->RemoveLast();
  EXPECT_NE(refused(root, bad), "");
  bad = delta;
  bad.mutable_delta()->mutable_slice()->clear_dense();
  EXPECT_THAT(refused(root, bad), HasSubstr("a part of the shard's keys only"));
  bad = delta;
  bad.mutable_delta()->set_number(0);
  EXPECT_THAT(refused(root, bad), HasSubstr("without a number"));
  bad = answer;
  bad.mutable_neighbor_values()->mutable_slice()->set_dense(0, kInfinite);
  EXPECT_THAT(refused(other, bad), HasSubstr("no numbers"));
  bad = answer;
  bad.mutable_neighbor_values()->add_has_values(0);
  EXPECT_THAT(refused(other, bad), HasSubstr("parameters with values"));
  EXPECT_THAT(root.weights(), Each(-4.0f));
  EXPECT_THAT(other.weights(), Each(-4.0f));
}

TEST(GroupSync, KnowsTheWorkersOfOtherGroupsAsOnesThatHaveLeft) {
  TestServer root(Root(SmallServer()));
  EXPECT_TRUE(root.processor().clocks().left(1));
  EXPECT_FALSE(root.processor().has_been_there(1));
  root.SendNext(0, 2);  // the round waits for nobody else
  EXPECT_THAT(root.weights(), Each(-1.0f));
}

TEST(GroupSync, RefusesASavedStateThatIsNotOfItsGroup) {
  ShardState state;
  TestServer(Other()).processor().SaveState(state);
  const auto loads = [](ServerOptions options, const ShardState& saved) {
    TestServer server(options);
    return server.processor().LoadState(saved);
  };
  EXPECT_TRUE(loads(Other(), state).ok());
  EXPECT_FALSE(loads(Root(), state).ok());
  ServerOptions alone = SmallServer(kEventual);
  alone.workers = 2;
  EXPECT_FALSE(loads(alone, state).ok());
  ShardState bad = state;
  bad.mutable_sync()->set_open(true);
  EXPECT_THAT(std::string(loads(Other(), bad).message()), HasSubstr("its exchange 0 cannot be"));
  bad = state;
  bad.mutable_sync()->add_taken()->set_group(0);
  EXPECT_FALSE(loads(Other(), bad).ok());
  bad = state;
  bad.clear_sync();
  EXPECT_FALSE(loads(Other(), bad).ok());
}

// ---- parameters of one's own ----

// Wants an exchange after its third update.
class Impatient final : public ParameterHandler {
 public:
  Status HandleUpdate(const ParameterSlice& slice, std::span<const float> sum,
                      double /*weight*/) const override {
    for (size_t i = 0; i < sum.size(); ++i) slice.values[i] += sum[i];
    return absl::OkStatus();
  }
  bool SyncNow(uint64_t updates_since) const override { return updates_since >= 3; }
};

// Two parameters of one number each.
ServerOptions Adding(const std::string& second = "add") {
  ServerOptions options;
  options.classes = 0;
  options.range = {0, 2};
  options.consistency = kEventual;
  options.parameters = {
      {{0, 1}, MakeParameterHandler("add", {})},
      {{1, 2}, second.empty() ? std::make_unique<Impatient>() : MakeParameterHandler(second, {})}};
  return options;
}

Gradient Says(WorkerId worker, Clock clock, std::vector<float> put, std::vector<float> part) {
  Gradient message = Message(Gradient::kUpdate, worker, clock);
  Gradient::Update& update = *message.mutable_update();
  update.set_weight_sum(1);
  for (size_t i = 0; i < put.size(); ++i) {
    ParameterPart& one = *update.add_put();
    one.set_parameter(static_cast<uint32_t>(i));
    one.add_value(put[i]);
  }
  for (size_t i = 0; i < part.size(); ++i) {
    ParameterPart& one = *update.add_part();
    one.set_parameter(static_cast<uint32_t>(i));
    one.add_value(part[i]);
  }
  return message;
}

TEST(GroupSyncOfParameters, FirstValuesAreNoChangeWhicheverGroupHasThemFirst) {
  for (const bool root_is_first : {false, true}) {
    TestServer root(Root(Adding()));
    TestServer other(Other(Adding(), 1));
    if (root_is_first) root.Send(Says(0, 0, {10, 20}, {1, 1}));
    other.Send(Says(1, 0, {10, 20}, {2, 3}));
    EXPECT_THAT(MessageIn(DeltaOf(other)).delta().slice().dense(), ElementsAre(2, 3));
    root.Send(DeltaOf(other));
    other.Send(AnswerTo(1, root));
    if (root_is_first) {
      EXPECT_THAT(other.weights(), ElementsAre(13, 24));
    } else {
      EXPECT_THAT(other.weights(), ElementsAre(12, 23)) << "the neighbor has no values yet";
      root.Send(Says(0, 0, {10, 20}, {1, 1}));
    }
    EXPECT_THAT(root.weights(), ElementsAre(13, 24));
    other.Send(Says(1, 1, {}, {2, 2}));
    root.Send(DeltaOf(other));
    other.Send(AnswerTo(1, root));
    EXPECT_THAT(root.weights(), ElementsAre(15, 26));
    EXPECT_THAT(other.weights(), ElementsAre(15, 26));
  }
}

TEST(GroupSyncOfParameters, AParameterThatAGroupHasNotPutIsLeftToItsOwnFirstValue) {
  TestServer root(Root(Adding()));
  TestServer other(Other(Adding(), 1));
  root.Send(Says(0, 0, {10, 20}, {1, 1}));
  other.Send(Says(1, 0, {10}, {2}));
  root.Send(DeltaOf(other));
  other.Send(AnswerTo(1, root));
  EXPECT_THAT(other.weights(), ElementsAre(13, 0));
  other.Send(Says(1, 1, {0, 50}, {2, 3}));
  EXPECT_THAT(other.weights(), ElementsAre(15, 53));
  root.Send(DeltaOf(other));
  other.Send(AnswerTo(1, root));
  EXPECT_THAT(root.weights(), ElementsAre(15, 24));
  EXPECT_THAT(other.weights(), ElementsAre(15, 24)) << "they agree on the primary's first value";
}

TEST(GroupSyncOfParameters, AFirstValueWithinAnExchangeIsNoChangeEither) {
  TestServer root(Root(Adding()));
  TestServer other(Other(Adding(), 1));
  root.Send(Says(0, 0, {10, 20}, {1, 1}));
  other.Send(Says(1, 0, {10}, {2}));
  const LogRecord delta = DeltaOf(other);
  other.Send(Says(1, 1, {0, 20}, {0, 3}));
  root.Send(delta);
  other.Send(AnswerTo(1, root));
  EXPECT_THAT(other.weights(), ElementsAre(13, 24));
  root.Send(DeltaOf(other));
  EXPECT_THAT(root.weights(), ElementsAre(13, 24));
}

TEST(GroupSyncOfParameters, AHandlerMayWantAnExchangeBeforeItIsDue) {
  TestServer other(Other(Adding(""), 100));
  EXPECT_FALSE(other.Send(Says(1, 0, {10}, {1})).delta);
  EXPECT_FALSE(other.Send(Says(1, 1, {}, {1})).delta);
  EXPECT_FALSE(other.Send(Says(1, 2, {}, {1})).delta) << "its parameter has no values";
  EXPECT_TRUE(other.Send(Says(1, 3, {0, 5}, {1})).delta);
}

}  // namespace
}  // namespace millrace
