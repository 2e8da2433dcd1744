#include "tasks/answer_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/big_endian.h"
#include "topics/frame.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr size_t kMostWaiting = 100;

OutgoingRecord Answer(std::vector<WorkerId> to, size_t bytes = 20) {
  std::string value = MakeFrames(std::string(bytes - 2, 'x'), 0).front();
  return {Topic::kWeights, 0, "", std::move(value), std::move(to)};
}

class AnswerRoutesTest : public testing::Test {
 protected:
  AnswerRoutes::Stream Subscribed(const std::set<WorkerId>& workers) {
    const AnswerRoutes::Stream stream = routes_.Open();
    routes_.Subscribe(stream, workers);
    return stream;
  }

  AnswerRoutes routes_{kMostWaiting};
};

TEST_F(AnswerRoutesTest, WithoutAStreamAnswersGoToTheLog) {
  routes_.Open();
  const AnswerRoutes::Ways ways = routes_.Route(Answer({1}));
  EXPECT_THAT(ways.streams, IsEmpty());
  EXPECT_TRUE(ways.log);
}

TEST_F(AnswerRoutesTest, AWorkersStreamTakesItsAnswersFromTheLog) {
  const auto stream = Subscribed({1, 2});
  const AnswerRoutes::Ways ways = routes_.Route(Answer({1}));
  EXPECT_THAT(ways.streams, ElementsAre(stream));
  EXPECT_FALSE(ways.log);
}

TEST_F(AnswerRoutesTest, WhatAnswersSeveralGoesToEachStreamOnceAndToTheLogIfOneHasNone) {
  const auto one = Subscribed({1, 2});
  const auto other = Subscribed({3});
  AnswerRoutes::Ways ways = routes_.Route(Answer({1, 2, 3}));
  EXPECT_THAT(ways.streams, UnorderedElementsAre(one, other));
  EXPECT_FALSE(ways.log);
  ways = routes_.Route(Answer({1, 2, 3, 4}));
  EXPECT_THAT(ways.streams, UnorderedElementsAre(one, other));
  EXPECT_TRUE(ways.log);
}

// Its worker may be another instance than the one that has the stream.
TEST_F(AnswerRoutesTest, WhoAsksIsAnsweredThroughTheLogAsWell) {
  const auto stream = Subscribed({1});
  OutgoingRecord reply = Answer({1});
  reply.is_reply = true;
  const AnswerRoutes::Ways ways = routes_.Route(reply);
  EXPECT_THAT(ways.streams, ElementsAre(stream));
  EXPECT_TRUE(ways.log);
}

TEST_F(AnswerRoutesTest, WhatAnswersNobodyGoesToTheLogOnly) {
  Subscribed({1});
  const AnswerRoutes::Ways ways = routes_.Route(Answer({}));
  EXPECT_THAT(ways.streams, IsEmpty());
  EXPECT_TRUE(ways.log);
}

TEST_F(AnswerRoutesTest, TheLastStreamThatSubscribesToAWorkerHasIt) {
  const auto first = Subscribed({1, 2});
  const auto second = Subscribed({2});
  EXPECT_THAT(routes_.Route(Answer({2})).streams, ElementsAre(second));
  routes_.Subscribe(second, {});
  EXPECT_TRUE(routes_.Route(Answer({2})).log);
  EXPECT_THAT(routes_.Close(first), ElementsAre(WorkerId(1)));
}

// The first stream's process may have the worker no more, and have got what the other waits for.
TEST_F(AnswerRoutesTest, AWorkerThatAStreamLosesIsToBeAnsweredAgain) {
  const auto first = Subscribed({1, 2});
  const auto second = routes_.Open();
  EXPECT_THAT(routes_.Subscribe(second, {2, 3}), ElementsAre(WorkerId(2)));
  EXPECT_THAT(routes_.Subscribe(second, {2, 3}), IsEmpty());
  EXPECT_THAT(routes_.Subscribe(second, {2}), ElementsAre(WorkerId(3)));
  EXPECT_THAT(routes_.Subscribe(first, {}), ElementsAre(WorkerId(1)));
  routes_.Close(second);
  EXPECT_THAT(routes_.Subscribe(second, {1}), IsEmpty()) << "it has ended";
}

TEST_F(AnswerRoutesTest, AStreamThatEndsLeavesItsWorkersToBeAnsweredAgainThroughTheLog) {
  const auto stream = Subscribed({3, 1});
  EXPECT_THAT(routes_.Close(stream), ElementsAre(WorkerId(1), WorkerId(3)));
  EXPECT_TRUE(routes_.Route(Answer({1})).log);
  routes_.Taken(stream, 20);  // is heard of late
  EXPECT_THAT(routes_.Close(stream), IsEmpty());
}

TEST_F(AnswerRoutesTest, AStreamThatTakesNothingGetsNoMoreThanItsBytes) {
  const auto stream = Subscribed({1});
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(routes_.Route(Answer({1})).log);
  EXPECT_EQ(routes_.waiting_bytes(stream), kMostWaiting);
  const AnswerRoutes::Ways ways = routes_.Route(Answer({1}));
  EXPECT_THAT(ways.streams, IsEmpty());
  EXPECT_TRUE(ways.log);
  routes_.Taken(stream, 20);
  EXPECT_FALSE(routes_.Route(Answer({1})).log);
}

TEST_F(AnswerRoutesTest, AllChunksOfAMessageGoTheSameWay) {
  const auto stream = Subscribed({1});
  const std::vector<std::string> frames = MakeFrames(std::string(60, 'x'), 7, 40);
  ASSERT_GE(frames.size(), 2U);
  for (const std::string& frame : frames) {
    const AnswerRoutes::Ways ways = routes_.Route({Topic::kWeights, 0, "", frame, {1}});
    EXPECT_THAT(ways.streams, IsEmpty()) << "all of it would not have room";
    EXPECT_TRUE(ways.log);
    routes_.Taken(stream, 0);
  }
  AnswerRoutes roomy(1000);
  const auto open = roomy.Open();
  roomy.Subscribe(open, {1});
  EXPECT_THAT(roomy.Route({Topic::kWeights, 0, "", frames[0], {1}}).streams, ElementsAre(open));
  roomy.Subscribe(open, {});
  EXPECT_FALSE(roomy.Route({Topic::kWeights, 0, "", frames[1], {1}}).log);
  roomy.Close(open);
  EXPECT_THAT(roomy.Route({Topic::kWeights, 0, "", frames[2], {1}}).streams, IsEmpty());
}

TEST_F(AnswerRoutesTest, ChunksOfShardsThatAnswerSideBySideGoTheirOwnWays) {
  const auto one = Subscribed({1});
  const auto other = Subscribed({2});
  const std::vector<std::string> frames = MakeFrames(std::string(40, 'x'), 7, 40);
  ASSERT_EQ(frames.size(), 2U);
  for (uint32_t chunk = 0; chunk < 2; ++chunk) {
    for (const auto& [shard, worker, stream] :
         {std::tuple(0U, WorkerId(1), one), std::tuple(1U, WorkerId(2), other)}) {
      const std::string key = EncodeBigEndian32(shard) + EncodeBigEndian32(chunk);
      const AnswerRoutes::Ways ways =
          routes_.Route({Topic::kWeights, 0, key, frames[chunk], {worker}});
      EXPECT_THAT(ways.streams, ElementsAre(stream)) << "shard " << shard << ", chunk " << chunk;
    }
  }
}

}  // namespace
}  // namespace millrace
