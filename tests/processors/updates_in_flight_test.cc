#include "processors/updates_in_flight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Progress At(uint64_t clock, uint64_t rows) { return {Clock(clock), RowNumber(rows)}; }

// Adds the update of four rows that comes next.
void Send(UpdatesInFlight& in_flight, const Progress& told) {
  const Progress before = in_flight.Next(told);
  const Progress after = At(before.clock + 1, before.rows_end + 4);
  const auto body = std::make_shared<const MessageBytes>();
  in_flight.Add({before, after, {{ShardId(0), body, 100 + uint64_t{before.clock}}}});
}

std::vector<uint64_t> Numbers(const UpdatesInFlight& in_flight) {
  std::vector<WorkerMessage> messages;
  in_flight.AppendTo(messages);
  std::vector<uint64_t> numbers;
  for (const WorkerMessage& message : messages) numbers.push_back(message.number);
  return numbers;
}

TEST(UpdatesInFlight, EachFollowsOnTheOneBeforeUntilItIsFull) {
  UpdatesInFlight in_flight(2);
  EXPECT_EQ(in_flight.Next(At(5, 20)).clock, 5u);
  Send(in_flight, At(5, 20));
  EXPECT_EQ(in_flight.Next(At(5, 20)).clock, 6u);
  EXPECT_EQ(in_flight.Next(At(5, 20)).rows_end, 24u);
  EXPECT_FALSE(in_flight.full());
  Send(in_flight, At(5, 20));
  EXPECT_TRUE(in_flight.full());
  EXPECT_THAT(Numbers(in_flight), ElementsAre(105, 106)) << "said again in order";
}

TEST(UpdatesInFlight, WhatEveryShardHasTakenIsSettled) {
  UpdatesInFlight in_flight(3);
  for (int i = 0; i < 3; ++i) Send(in_flight, At(5, 20));
  in_flight.Settle(At(5, 20));
  EXPECT_THAT(Numbers(in_flight), ElementsAre(105, 106, 107));
  in_flight.Settle(At(7, 28));
  EXPECT_THAT(Numbers(in_flight), ElementsAre(107));
  in_flight.Settle(At(9, 36));
  EXPECT_TRUE(in_flight.empty()) << "another instance may have gone on";
}

TEST(UpdatesInFlight, WhatFollowsOnRowsThatWereCountedOtherwiseIsGivenUp) {
  UpdatesInFlight in_flight(3);
  for (int i = 0; i < 3; ++i) Send(in_flight, At(5, 20));
  in_flight.Settle(At(6, 22));
  EXPECT_TRUE(in_flight.empty());
}

TEST(UpdatesInFlight, TellsHowFarTheyCountRowsFromAClockOn) {
  UpdatesInFlight in_flight(3);
  for (int i = 0; i < 3; ++i) Send(in_flight, At(5, 20));
  EXPECT_THAT(in_flight.RowsFrom(Clock(5)), ElementsAre(24, 28, 32));
  EXPECT_THAT(in_flight.RowsFrom(Clock(7)), ElementsAre(32));
  EXPECT_THAT(in_flight.RowsFrom(Clock(4)), IsEmpty()) << "the first is not known";
}

}  // namespace
}  // namespace millrace
