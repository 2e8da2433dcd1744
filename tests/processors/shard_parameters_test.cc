#include "processors/shard_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/processors/parameters_fixture.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<uint32_t> HasValues(const Weights& answer) {
  return {answer.has_values().begin(), answer.has_values().end()};
}

// A parameter of two numbers and one of three, on one shard.
ParameterJob SmallJob(uint32_t workers, ConsistencyPolicy policy = kSequential) {
  return ParameterJob({{.size = 2, .handler = "sgd"}, {.size = 3, .handler = "add"}}, 1, workers,
                      policy);
}

TEST(ShardParametersTest, ThePutOfTheFirstWorkerOfTheRoundCountsWhoeverComesFirst) {
  ParameterJob job = SmallJob(3);
  job.Send(2, 0, {.put = {{0, {7, 7}}, {1, {1, 2, 3}}}});
  job.Send(1, 0, {.put = {{0, {5, 6}}}});
  EXPECT_THAT(HasValues(job.server(0).Answer(0)), IsEmpty()) << "the round is not over";
  job.Send(0, 0, {});
  EXPECT_THAT(job.values(), ElementsAre(5, 6, 1, 2, 3));
  EXPECT_THAT(HasValues(job.server(0).Answer(0)), ElementsAre(0, 1));
}

TEST(ShardParametersTest, ALaterPutCountsForNothing) {
  for (const ConsistencyPolicy& policy : AllPolicies()) {
    ParameterJob job = SmallJob(1, policy);
    job.Send(0, 0, {.put = {{0, {5, 6}}}});
    job.Send(0, 1, {.put = {{0, {8, 9}}, {1, {1, 2, 3}}}});
    EXPECT_THAT(job.values(), ElementsAre(5, 6, 1, 2, 3));
  }
}

TEST(ShardParametersTest, APutIsThereBeforeTheStepOfItsOwnRound) {
  ParameterJob job = SmallJob(2);
  job.Send(0, 0, {.part = {{0, {2, 4}}}});
  job.Send(1, 0, {.put = {{0, {5, 6}}}});
  EXPECT_THAT(job.values(), ElementsAre(4, 4, 0, 0, 0));  // the rate is one half
}

TEST(ShardParametersTest, AnUpdateOfAParameterThatNobodyPutIsCountedAndChangesNothing) {
  ParameterJob job = SmallJob(1);
  job.Send(0, 0, {.put = {{0, {5, 6}}}, .part = {{0, {2, 2}}, {1, {1, 1, 1}}}});
  EXPECT_THAT(job.values(), ElementsAre(4, 5, 0, 0, 0));
  EXPECT_EQ(job.server(0).processor().counters().parts_before_put(), 1u);
  EXPECT_THAT(HasValues(job.server(0).Answer(0)), ElementsAre(0));
}

TEST(ShardParametersTest, OnlyTheWeightsOfThoseWhoNameAParameterCountForIt) {
  ParameterJob job = SmallJob(3);
  for (const WorkerId worker : std::vector<WorkerId>{0, 1, 2}) {
    job.Send(worker, 0, {.put = {{0, {0, 0}}, {1, {0, 0, 0}}}});
  }
  job.Send(0, 1, {.part = {{0, {8, 8}}}, .weight = 2});
  job.Send(1, 1, {.part = {{0, {4, 0}}}, .weight = 2});
  job.Send(2, 1, {.part = {{1, {1, 2, 3}}}, .weight = 100});
  EXPECT_THAT(job.values(), ElementsAre(-1.5, -1, 1, 2, 3));
}

TEST(ShardParametersTest, AParameterThatNobodyNamesKeepsItsMomentum) {
  ParameterJob job({{.size = 1, .handler = "momentum"}, {.size = 1, .handler = "add"}}, 1, 1,
                   kSequential);
  job.Send(0, 0, {.put = {{0, {0}}, {1, {0}}}, .part = {{0, {1}}}});
  const std::vector<float> before = job.values();
  job.Send(0, 1, {.part = {{1, {1}}}});
  EXPECT_THAT(job.values(), ElementsAre(before[0], 1)) << "a step without it does not move it";
}

TEST(ShardParametersTest, TheAnswerOfTheClockBeforeNamesWhatHadBeenPutThen) {
  ParameterJob job({{.size = 2, .handler = "sgd"}, {.size = 2, .handler = "sgd"}}, 2, 1,
                   kSequential);
  job.Send(0, 0, {.put = {{0, {1, 2}}}});
  job.Send(0, 1, {.put = {{1, {3, 4}}}});
  const Gradient ask = Message(Gradient::kAsk, 0, 1);
  const ServerOutput asked = job.server(1).Send(ask);
  ASSERT_EQ(asked.previous_answers.size(), 1u);
  EXPECT_THAT(HasValues(job.server(1).PreviousAnswer(asked.previous_answers[0])), IsEmpty());
  EXPECT_THAT(HasValues(job.server(1).Answer(0)), ElementsAre(1));
}

// As a shard does that starts from a snapshot, on a new stream.
TEST(ShardParametersTest, TheAnswerOfTheFirstClockNamesWhatTheJobBeganWith) {
  ParameterJob job({{.size = 2, .handler = "sgd"}, {.size = 2, .handler = "sgd"}}, 2, 1,
                   kSequential);
  ShardState state;
  job.server(1).processor().SaveState(state);
  state.add_parameters()->set_parameter(1);
  ASSERT_TRUE(job.server(1).processor().LoadState(state).ok());
  job.Send(0, 0, {});
  Gradient ask = Message(Gradient::kAsk, 0, 0);
  ask.set_clock(0);
  const ServerOutput asked = job.server(1).Send(ask);
  ASSERT_EQ(asked.previous_answers.size(), 1u);
  EXPECT_THAT(HasValues(job.server(1).PreviousAnswer(asked.previous_answers[0])), ElementsAre(1));
}

TEST(ShardParametersTest, ASharedAnswerNamesThem) {
  ParameterJob job = SmallJob(2, kEventual);
  job.Send(0, 0, {.put = {{1, {1, 2, 3}}}});
  SharedWeights shared;
  const std::vector<WorkerId> both = {0, 1};
  ASSERT_TRUE(shared.ParseFromString(job.server(0).processor().SharedAnswer(1, both)->Joined()));
  EXPECT_THAT(std::vector<uint32_t>(shared.has_values().begin(), shared.has_values().end()),
              ElementsAre(1));
}

// ---- what is refused ----

TEST(ShardParametersTest, AnUpdateWithANanCountsAsAnEmptyOneOfItsClock) {
  for (const float poison : {std::numeric_limits<float>::quiet_NaN(), 1e19f}) {
    for (const bool in_put : {true, false}) {
      ParameterJob job = SmallJob(1);
      job.Send(0, 0, {.put = {{0, {1, 2}}}});
      const PlainUpdate bad = in_put ? PlainUpdate{.put = {{1, {1, poison, 1}}}}
                                     : PlainUpdate{.part = {{0, {1, poison}}}};
      const ServerOutput output = job.server(0).Send(job.PartOfUpdate(0, 0, 1, bad));
      EXPECT_EQ(output.dead_letters.size(), 1u);
      EXPECT_EQ(job.server(0).Answer(0).clock(), 2u);
      EXPECT_THAT(job.values(), ElementsAre(1, 2, 0, 0, 0));
      EXPECT_EQ(job.server(0).processor().counters().non_finite_updates(), 1u);
    }
  }
}

TEST(ShardParametersTest, WhatCannotOverflowIsNotLookedAt) {
  EXPECT_FALSE(MayOverflow(1, 1));
  EXPECT_FALSE(MayOverflow(100'000, 1e-10));
  constexpr float kMost = std::numeric_limits<float>::max();
  for (const size_t values : {size_t{1}, size_t{1000}}) {
    for (double weight = 1e-25; weight < 1e25; weight *= 1.1) {
      const float sum = static_cast<float>(values) * kLargestValue;
      const bool overflows = !(std::abs(sum * static_cast<float>(1.0 / weight)) <= kMost);
      if (overflows) {
        EXPECT_TRUE(MayOverflow(values, weight)) << weight;
      }
    }
  }
  for (const double weight : {0.0, -1.0, std::nan(""), 1e-300}) EXPECT_TRUE(MayOverflow(1, weight));
}

TEST(ShardParametersTest, AStepWhoseSumIsNotFiniteChangesNoParameter) {
  ParameterJob job = SmallJob(1);
  job.Send(0, 0, {.put = {{0, {1, 2}}, {1, {1, 2, 3}}}});
  const PlainUpdate tiny = {.part = {{0, {1e18f, 0}}, {1, {1, 1, 1}}}, .weight = 1e-30};
  job.Send(0, 1, tiny);
  EXPECT_THAT(job.values(), ElementsAre(1, 2, 1, 2, 3));
  EXPECT_EQ(job.server(0).processor().counters().non_finite_updates(), 1u);
}

std::string RefusalOf(ParameterJob& job, const Gradient& message) {
  const ServerOutput output = job.server(0).Send(message);
  EXPECT_EQ(job.server(0).Answer(0).clock(), 0u);
  return output.dead_letters.empty() ? "" : output.dead_letters[0].reason();
}

TEST(ShardParametersTest, RefusesWhatDoesNotFitTheParameters) {
  ParameterJob job = SmallJob(1);
  Gradient message = job.PartOfUpdate(0, 0, 0, {.part = {{0, {1, 2}}}});
  message.mutable_update()->mutable_part(0)->add_value(3);
  EXPECT_THAT(RefusalOf(job, message), HasSubstr("3 values of parameter 0"));
  message = job.PartOfUpdate(0, 0, 0, {.put = {{1, {1, 2, 3}}}});
  message.mutable_update()->mutable_put(0)->set_parameter(2);
  EXPECT_THAT(RefusalOf(job, message), HasSubstr("parameter 2, of which this shard has no keys"));
  message = job.PartOfUpdate(0, 0, 0, {.part = {{0, {1, 2}}, {1, {1, 2, 3}}}});
  message.mutable_update()->mutable_part()->SwapElements(0, 1);
  EXPECT_THAT(RefusalOf(job, message), HasSubstr("parameter 0 out of order"));
  message = job.PartOfUpdate(0, 0, 0, {.part = {{0, {1, 2}}}, .weight = 0});
  EXPECT_THAT(RefusalOf(job, message), HasSubstr("without a weight"));
  EXPECT_THAT(RefusalOf(job, Update(0, 0, std::vector<float>(5), {0, 5})), HasSubstr("a slice"));
}

TEST(ShardParametersTest, AJobWithAModelOfOursRefusesThem) {
  TestServer server(SmallServer());
  Gradient message = Update(0, 0, Same(1), kRange);
  message.mutable_update()->add_put()->set_parameter(0);
  EXPECT_THAT(server.Send(message).dead_letters.at(0).reason(), HasSubstr("named parameters"));
  ShardState state;
  server.processor().SaveState(state);
  state.add_parameters();
  EXPECT_FALSE(TestServer(SmallServer()).processor().LoadState(state).ok());
}

TEST(ShardParametersTest, LoadsOnlyWhatItCanHaveSaved) {
  ParameterJob job = SmallJob(1);
  job.Send(0, 0, {.put = {{0, {1, 2}}}, .part = {{0, {1, 2}}}});
  ShardState state;
  job.server(0).processor().SaveState(state);
  ASSERT_EQ(state.parameters_size(), 1);
  const auto loads = [&](const ShardState& changed) {
    return TestServer(job.server(0).options()).processor().LoadState(changed).ok();
  };
  EXPECT_TRUE(loads(state));
  ShardState changed = state;
  changed.mutable_parameters(0)->set_parameter(2);
  EXPECT_FALSE(loads(changed));
  changed = state;
  *changed.add_parameters() = state.parameters(0);
  EXPECT_FALSE(loads(changed)) << "twice";
  changed = state;
  changed.mutable_parameters(0)->set_updates(2);
  EXPECT_FALSE(loads(changed)) << "more steps than the shard has made";
}

// Such an update is dropped when it comes, and nobody looks at it again when the round is complete.
TEST(ShardParametersTest, LoadsNoUpdateWithAValueThatIsNone) {
  ParameterJob job = SmallJob(2);
  job.Send(0, 0, {.put = {{0, {1, 2}}}, .part = {{0, {1, 2}}}});
  ShardState state;
  job.server(0).processor().SaveState(state);
  Gradient::Update& held = *state.mutable_members(0)->mutable_pending(0);
  const auto loads = [&] {
    return TestServer(job.server(0).options()).processor().LoadState(state).ok();
  };
  EXPECT_TRUE(loads());
  held.mutable_part(0)->set_value(1, std::nanf(""));
  EXPECT_FALSE(loads());
  held.mutable_part(0)->set_value(1, 2);
  held.mutable_put(0)->set_value(0, 1.1e18f);
  EXPECT_FALSE(loads());
}

// ---- whole jobs, against a referee ----

const char* const kHandlers[] = {"sgd", "momentum", "adagrad", "adam", "add", "assign"};

std::vector<PlainParameters::Parameter> RandomParameters(std::mt19937& random) {
  std::vector<PlainParameters::Parameter> parameters(1 + random() % 5);
  for (PlainParameters::Parameter& parameter : parameters) {
    parameter.size = 1 + random() % 7;
    parameter.handler = kHandlers[random() % 6];
    parameter.rate = 0.25f * static_cast<float>(1 + random() % 4);
    parameter.l2 = random() % 2 == 0 ? 0.0f : 0.125f;
    parameter.is_table = random() % 3 == 0;
  }
  return parameters;
}

constexpr uint64_t kRowIds = 10;

PlainUpdate RandomUpdate(std::mt19937& random,
                         const std::vector<PlainParameters::Parameter>& parameters) {
  PlainUpdate update;
  // Magnitudes so far apart that any other order of additions gives other bits.
  std::uniform_real_distribution<float> exponent(-12, 12);
  const auto values = [&](size_t size) {
    std::vector<float> all;
    for (size_t i = 0; i < size; ++i) {
      all.push_back(std::exp2(exponent(random)) * (random() % 2 == 0 ? 1.0f : -1.0f));
    }
    return all;
  };
  for (uint32_t number = 0; number < parameters.size(); ++number) {
    if (parameters[number].is_table) {
      const size_t rows = random() % 2 == 0 ? 0 : random() % 8;
      for (size_t i = 0; i < rows; ++i) {
        update.rows[number][random() % kRowIds] = values(parameters[number].size);
      }
      continue;
    }
    if (random() % 4 == 0) update.put[number] = values(parameters[number].size);
    if (random() % 3 != 0) update.part[number] = values(parameters[number].size);
  }
  update.weight = 1 + static_cast<double>(random() % 9);
  return update;
}

void ExpectSameAsReferee(ParameterJob& job, const PlainParameters& referee, Clock clock) {
  ASSERT_EQ(job.values(), referee.values()) << "at clock " << clock;
  const std::vector<ServedParameter>& parameters = job.server(0).options().parameters;
  for (uint32_t number = 0; number < parameters.size(); ++number) {
    for (uint64_t id = 0; id < kRowIds && parameters[number].row_width > 0; ++id) {
      ASSERT_EQ(job.row(number, id), referee.row(number, id))
          << "row " << id << " of " << number << " at clock " << clock;
    }
  }
  for (uint32_t shard = 0; shard < job.shards(); ++shard) {
    for (const uint32_t number : HasValues(job.server(shard).Answer(0))) {
      ASSERT_EQ(parameters[number].row_width, 0u);
      ASSERT_TRUE(referee.is_put(number));
    }
  }
}

TEST(ShardParametersTest, ASequentialJobHasTheRefereesBytesWhateverComesTwiceLateOrDies) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 300; ++trial) {
    const auto parameters = RandomParameters(random);
    const auto workers = static_cast<uint32_t>(1 + random() % 4);
    const auto shards = static_cast<uint32_t>(1 + random() % 3);
    ParameterJob job(parameters, shards, workers, kSequential);
    PlainParameters referee(parameters);
    std::vector<PlainUpdate> before(workers);
    for (Clock clock = 0; clock < 6; ++clock) {
      std::vector<PlainUpdate> round;
      for (uint32_t w = 0; w < workers; ++w) round.push_back(RandomUpdate(random, parameters));
      for (uint32_t shard = 0; shard < shards; ++shard) {
        std::vector<uint32_t> order;
        for (uint32_t w = 0; w < workers; ++w) order.insert(order.end(), 1 + random() % 2, w);
        std::shuffle(order.begin(), order.end(), random);
        for (const uint32_t w : order) {
          if (random() % 4 == 0) job.Restart(shard);
          if (clock > 0 && random() % 4 == 0) {  // a zombie's
            job.server(shard).Send(job.PartOfUpdate(shard, WorkerId(w), clock - 1, before[w]));
          }
          job.server(shard).Send(job.PartOfUpdate(shard, WorkerId(w), clock, round[w]));
        }
      }
      referee.Step(round);
      before = round;
      ASSERT_NO_FATAL_FAILURE(ExpectSameAsReferee(job, referee, clock + 1)) << "trial " << trial;
    }
  }
}

TEST(ShardParametersTest, InAnEventualJobEachUpdateIsAStep) {
  std::mt19937 random(6);
  for (int trial = 0; trial < 200; ++trial) {
    const auto parameters = RandomParameters(random);
    const auto workers = static_cast<uint32_t>(1 + random() % 4);
    const auto shards = static_cast<uint32_t>(1 + random() % 3);
    ParameterJob job(parameters, shards, workers, kEventual);
    PlainParameters referee(parameters);
    std::vector<Clock> clocks(workers);
    for (int i = 0; i < 20; ++i) {
      const auto w = static_cast<uint32_t>(random() % workers);
      const PlainUpdate update = RandomUpdate(random, parameters);
      const Clock clock = clocks[w]++;
      job.Send(WorkerId(w), clock, update);
      if (random() % 3 == 0) job.Send(WorkerId(w), clock, update);
      if (random() % 3 == 0) job.Restart(static_cast<uint32_t>(random() % job.shards()));
      referee.Step({update});
      ASSERT_NO_FATAL_FAILURE(ExpectSameAsReferee(job, referee, clocks[w])) << "trial " << trial;
    }
  }
}

}  // namespace
}  // namespace millrace
