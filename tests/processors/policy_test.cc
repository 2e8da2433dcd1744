#include "processors/policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace millrace {
namespace {

// The definition, written down once more and with other means: worker w may go on unless somebody
// who is still there is more than `bound` clocks behind it.
bool ReleasedByDefinition(std::optional<uint64_t> bound,
                          const std::vector<VectorClock::Entry>& members, WorkerId worker) {
  if (members[worker].left) return true;
  for (const VectorClock::Entry& other : members) {
    if (other.left || !bound) continue;
    if (members[worker].clock > other.clock && members[worker].clock - other.clock > *bound) {
      return false;
    }
  }
  return true;
}

struct NamedPolicy {
  ConsistencyPolicy policy;
  std::optional<uint64_t> bound;
};

std::vector<NamedPolicy> SomePolicies() {
  return {{ConsistencyPolicy::Sequential(), 0},
          {ConsistencyPolicy::Eventual(), std::nullopt},
          {ConsistencyPolicy::Bounded(1), 1},
          {ConsistencyPolicy::Bounded(2), 2},
          {ConsistencyPolicy::Bounded(7), 7}};
}

// `late`: close to the last clock that there is.
std::vector<VectorClock::Entry> DrawMembers(std::mt19937& random, bool late) {
  std::vector<VectorClock::Entry> members(1 + random() % 6);
  const uint64_t spread = 1 + random() % 12;
  const Clock base(late ? UINT64_MAX - spread : random() % 100);
  for (VectorClock::Entry& member : members) {
    member = {base + random() % spread, random() % 4 == 0};
  }
  return members;
}

VectorClock ClockOf(const std::vector<VectorClock::Entry>& members) {
  VectorClock clocks(static_cast<uint32_t>(members.size()));
  for (WorkerId worker = 0; worker < members.size(); ++worker) clocks.Set(worker, members[worker]);
  return clocks;
}

TEST(ConsistencyPolicyTest, ReleasesExactlyWhomItsDefinitionReleases) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 3000; ++trial) {
    const std::vector<VectorClock::Entry> members = DrawMembers(random, trial % 5 == 0);
    const auto workers = static_cast<uint32_t>(members.size());
    const VectorClock clocks = ClockOf(members);
    for (const NamedPolicy& named : SomePolicies()) {
      for (WorkerId worker = 0; worker < workers; ++worker) {
        ASSERT_EQ(named.policy.Released(clocks, worker),
                  ReleasedByDefinition(named.bound, members, worker))
            << named.policy.ToString() << ", worker " << worker << ", trial " << trial;
      }
    }
  }
}

TEST(ConsistencyPolicyTest, NewlyReleasesWhomAHigherMinimumReleases) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 3000; ++trial) {
    const std::vector<VectorClock::Entry> members = DrawMembers(random, trial % 5 == 0);
    const auto workers = static_cast<uint32_t>(members.size());
    const VectorClock clocks = ClockOf(members);
    if (clocks.AllLeft()) continue;
    const Clock before(*clocks.Min() - random() % (1 + std::min<uint64_t>(*clocks.Min(), 9)));
    for (const NamedPolicy& named : SomePolicies()) {
      std::vector<VectorClock::Entry> then = members;  // and one more, who was the slowest
      then.push_back({before, false});
      std::vector<WorkerId> released;
      for (WorkerId worker = 0; worker < workers; ++worker) {
        if (!members[worker].left && !ReleasedByDefinition(named.bound, then, worker) &&
            ReleasedByDefinition(named.bound, members, worker)) {
          released.push_back(worker);
        }
      }
      ASSERT_EQ(named.policy.NewlyReleased(clocks, before), released)
          << named.policy.ToString() << ", trial " << trial;
    }
  }
}

TEST(ConsistencyPolicyTest, NeverHoldsBackTheSlowestWorker) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 500; ++trial) {
    VectorClock clocks(4);
    for (WorkerId worker = 0; worker < 4; ++worker) {
      clocks.Set(worker, {Clock(random() % 9), random() % 4 == 0});
    }
    for (const auto& [worker, entry] : clocks.entries()) {
      if (entry.left || entry.clock != *clocks.Min()) continue;
      for (const NamedPolicy& named : SomePolicies()) {
        ASSERT_TRUE(named.policy.Released(clocks, worker)) << named.policy.ToString();
      }
    }
  }
}

TEST(ConsistencyPolicyTest, SequentialReleasesAWorkerOnlyBesideTheSlowest) {
  VectorClock clocks(2);
  const ConsistencyPolicy policy = ConsistencyPolicy::Sequential();
  EXPECT_TRUE(policy.Released(clocks, 0));
  clocks.Advance(0);
  EXPECT_FALSE(policy.Released(clocks, 0));
  EXPECT_TRUE(policy.Released(clocks, 1));
  clocks.Advance(1);
  EXPECT_TRUE(policy.Released(clocks, 0));
}

TEST(ConsistencyPolicyTest, BoundedReleasesAWorkerThatIsExactlyTheBoundAhead) {
  VectorClock clocks(2);
  const ConsistencyPolicy policy = ConsistencyPolicy::Bounded(3);
  clocks.Set(0, {3, false});
  EXPECT_TRUE(policy.Released(clocks, 0));
  clocks.Set(0, {4, false});
  EXPECT_FALSE(policy.Released(clocks, 0));
}

TEST(ConsistencyPolicyTest, EventualReleasesHoweverFarAWorkerIsAhead) {
  VectorClock clocks(2);
  clocks.Set(0, {UINT64_MAX, false});
  EXPECT_TRUE(ConsistencyPolicy::Eventual().Released(clocks, 0));
}

TEST(ConsistencyPolicyTest, WaitsForNobodyWhoHasLeft) {
  VectorClock clocks(2);
  clocks.Set(0, {50, false});
  const ConsistencyPolicy policy = ConsistencyPolicy::Sequential();
  EXPECT_FALSE(policy.Released(clocks, 0));
  clocks.Leave(1);
  EXPECT_TRUE(policy.Released(clocks, 0));
}

TEST(ConsistencyPolicyTest, AWorkerThatLeftIsReleasedEvenWhenAllHaveLeft) {
  VectorClock clocks(2);
  clocks.Set(0, {50, true});
  for (const NamedPolicy& named : SomePolicies()) {
    EXPECT_TRUE(named.policy.Released(clocks, 0)) << named.policy.ToString();
  }
  clocks.Leave(1);
  for (const NamedPolicy& named : SomePolicies()) {
    EXPECT_TRUE(named.policy.Released(clocks, 0)) << named.policy.ToString();
    EXPECT_TRUE(named.policy.Released(clocks, 1)) << named.policy.ToString();
  }
}

TEST(ConsistencyPolicyTest, IsParsedByName) {
  EXPECT_EQ(*ConsistencyPolicy::Parse("sequential"), ConsistencyPolicy::Sequential());
  EXPECT_EQ(*ConsistencyPolicy::Parse("eventual"), ConsistencyPolicy::Eventual());
  EXPECT_EQ(*ConsistencyPolicy::Parse("bounded:1"), ConsistencyPolicy::Bounded(1));
  EXPECT_EQ(*ConsistencyPolicy::Parse("bounded:250"), ConsistencyPolicy::Bounded(250));
}

TEST(ConsistencyPolicyTest, IsParsedFromTheNumberMaxVectorClockDelay) {
  EXPECT_EQ(*ConsistencyPolicy::Parse("0"), ConsistencyPolicy::Sequential());
  EXPECT_EQ(*ConsistencyPolicy::Parse("-1"), ConsistencyPolicy::Eventual());
  EXPECT_EQ(*ConsistencyPolicy::Parse("1"), ConsistencyPolicy::Bounded(1));
  EXPECT_EQ(*ConsistencyPolicy::Parse("10"), ConsistencyPolicy::Bounded(10));
}

TEST(ConsistencyPolicyTest, AnythingElseIsAnErrorThatNamesTheTextAndTheChoices) {
  for (const std::string text : {"",
                                 " ",
                                 "Sequential",
                                 "sequential ",
                                 " eventual",
                                 "bounded",
                                 "bounded:",
                                 "bounded:0",
                                 "bounded:-1",
                                 "bounded:x",
                                 "bounded:1x",
                                 "bounded: 1",
                                 "bounded:1.5",
                                 "-2",
                                 "-",
                                 "1.5",
                                 "0x1",
                                 "1 ",
                                 "99999999999999999999",
                                 "bounded:99999999999999999999"}) {
    const StatusOr<ConsistencyPolicy> policy = ConsistencyPolicy::Parse(text);
    ASSERT_FALSE(policy.ok()) << "'" << text << "' gave " << policy->ToString();
    EXPECT_EQ(policy.status().code(), absl::StatusCode::kInvalidArgument);
    const std::string message(policy.status().message());
    EXPECT_NE(message.find("'" + text + "'"), std::string::npos) << message;
    EXPECT_NE(message.find("bounded:K"), std::string::npos) << message;
  }
}

TEST(ConsistencyPolicyTest, WhatItPrintsIsParsedToTheSamePolicy) {
  for (const NamedPolicy& named : SomePolicies()) {
    EXPECT_EQ(named.policy.bound(), named.bound);
    EXPECT_EQ(named.policy.sequential(), named.bound == 0u);
    EXPECT_EQ(*ConsistencyPolicy::Parse(named.policy.ToString()), named.policy);
  }
}

TEST(PipelineOf, IsTwoOrWhatIsAskedForAsFarAsTheJobAllowsIt) {
  struct Case {
    Training::Consistency::Model model;
    uint64_t max_delay;
    uint32_t asked;  // 0: nothing
    size_t pipeline;
  };
  const Case cases[] = {
      {Training::Consistency::SEQUENTIAL, 0, 0, 1},
      {Training::Consistency::SEQUENTIAL, 0, 4, 1},
      {Training::Consistency::EVENTUAL, 0, 0, 2},
      {Training::Consistency::EVENTUAL, 0, 5, 5},
      {Training::Consistency::EVENTUAL, 0, 999, kMostPipeline},
      {Training::Consistency::BOUNDED, 1, 0, 2},
      {Training::Consistency::BOUNDED, 2, 5, 3},
      {Training::Consistency::BOUNDED, 4, 1, 1},
      {Training::Consistency::BOUNDED, UINT64_MAX, 0, 2},
  };
  for (const Case& job : cases) {
    Training training;
    training.mutable_consistency()->set_model(job.model);
    training.mutable_consistency()->set_max_delay(job.max_delay);
    if (job.asked > 0) training.set_pipeline(job.asked);
    EXPECT_EQ(PipelineOf(training), job.pipeline) << training.ShortDebugString();
    training.set_schedule(Training::BUFFER);
    EXPECT_EQ(PipelineOf(training), 1u);
  }
}

TEST(FirstBatchRows, AreAsManyAsAllUnlessBatchesGrow) {
  Training training;
  EXPECT_EQ(FirstBatchRows(training, 256), 32u) << "of a job that an older version began";
  training.set_first_batch_rows(8);
  EXPECT_EQ(FirstBatchRows(training, 256), 8u);
  training.set_batch_rows(5);
  EXPECT_EQ(FirstBatchRows(training, 256), 5u) << "no more than of the others";
  training.clear_first_batch_rows();
  EXPECT_EQ(FirstBatchRows(training, 256), 5u);
}

TEST(FirstBatchRows, IsOneWhereRowsAreLearntOneByOneUnlessTheirNumberIsGiven) {
  Training training;
  training.mutable_update()->set_kind(Training::Update::ONLINE);
  EXPECT_EQ(FirstBatchRows(training, 256), 1u);
  training.set_batch_rows(training.batch_rows());
  EXPECT_EQ(FirstBatchRows(training, 256), 32u) << "of a job that an older version began";
}

TEST(MostBatchRows, AreAsManyAsGivenOrWhereBatchesGrowHalfOfALongTurn) {
  Training training;
  training.set_first_batch_rows(8);
  EXPECT_EQ(MostBatchRows(training, 256), 32u) << "of gradients";
  training.clear_first_batch_rows();
  training.mutable_update()->set_kind(Training::Update::ONLINE);
  constexpr std::pair<uint32_t, size_t> kRowsOfTurns[] = {
      {1, 32}, {32, 32}, {100, 50}, {256, 128}, {65'536, 128}};
  for (const auto& [turn, rows] : kRowsOfTurns) EXPECT_EQ(MostBatchRows(training, turn), rows);
  training.set_batch_rows(7);
  EXPECT_EQ(MostBatchRows(training, 256), 7u);
}

}  // namespace
}  // namespace millrace
