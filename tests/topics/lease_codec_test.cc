#include "topics/lease_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "topics/topics.h"

namespace millrace {
namespace {

using testing::HasSubstr;

template <class Message, class Check, class Change>
std::string WhyNot(Message message, const Check& check, const Change& change) {
  EXPECT_EQ(check(message), absl::OkStatus());
  change(message);
  const Status status = check(message);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << message.DebugString();
  return std::string(TextOf(status));
}

TEST(LeaseCommand, OfABeginningSaysHowManyWorkersAndPartitionsThereAre) {
  LeaseCommand command;
  EXPECT_THAT(std::string(CheckLeaseCommand(command).message()), HasSubstr("unknown kind"));
  command.mutable_begin()->set_workers(kMostWorkers);
  command.mutable_begin()->set_partitions(1);
  command.mutable_begin()->set_open_leases(kMostOpenLeases);
  using C = LeaseCommand;
  const auto why_not = [&](const auto& change) {
    return WhyNot(command, CheckLeaseCommand, change);
  };
  EXPECT_THAT(why_not([](C& c) { c.mutable_begin()->clear_workers(); }), HasSubstr("no workers"));
  EXPECT_THAT(why_not([](C& c) { c.mutable_begin()->clear_partitions(); }),
              HasSubstr("of no partitions"));
  EXPECT_THAT(why_not([](C& c) { c.mutable_begin()->clear_open_leases(); }),
              HasSubstr("may have none"));
  EXPECT_THAT(why_not([](C& c) { c.mutable_begin()->set_open_leases(19); }),
              HasSubstr("open leases"));
  EXPECT_THAT(why_not([](C& c) { c.mutable_begin()->set_workers(10'001); }), HasSubstr("10000"));
  EXPECT_THAT(why_not([](C& c) { c.mutable_begin()->set_partitions(10'001); }), HasSubstr("10000"));
}

TEST(LeaseCommand, OfACutHasSomeRowsAndAPlaceInTheLog) {
  LeaseCommand command;
  LeaseCommand::Cut& cut = *command.mutable_cut();
  cut.set_partition(kMostWorkers - 1);
  cut.set_begin(5);
  cut.set_end(5 + kMostLeaseRows);
  cut.set_next_offset(3);
  using C = LeaseCommand;
  const auto why_not = [&](const auto& change) {
    return WhyNot(command, CheckLeaseCommand, change);
  };
  EXPECT_THAT(why_not([](C& c) { c.mutable_cut()->set_partition(10'000); }),
              HasSubstr("a partition"));
  EXPECT_THAT(why_not([](C& c) { c.mutable_cut()->set_end(5); }), HasSubstr("has none"));
  EXPECT_THAT(why_not([](C& c) { c.mutable_cut()->set_begin(4); }), HasSubstr("rows of a range"));
  EXPECT_THAT(why_not([](C& c) {
                c.mutable_cut()->set_begin(kMostClock);
                c.mutable_cut()->set_end(kMostClock + 1);
              }),
              HasSubstr("the end of a range"));
  EXPECT_THAT(why_not([](C& c) { c.mutable_cut()->set_next_offset(-1); }), HasSubstr("offset -1"));
  EXPECT_THAT(why_not([](C& c) { c.mutable_cut()->set_next_offset(INT64_MAX); }),
              HasSubstr("out of range"));
}

TEST(LeaseCommand, OfAnEndOrACountIsWithinWhatAJobCanReach) {
  LeaseCommand end;
  end.mutable_end()->set_rows(kMostClock);
  using C = LeaseCommand;
  EXPECT_THAT(
      WhyNot(end, CheckLeaseCommand, [](C& c) { c.mutable_end()->set_rows(kMostClock + 1); }),
      HasSubstr("rows of a partition"));
  EXPECT_THAT(
      WhyNot(end, CheckLeaseCommand, [](C& c) { c.mutable_end()->set_partition(kMostWorkers); }),
      HasSubstr("a partition"));
  LeaseCommand counted;
  for (uint32_t worker = 0; worker < 2; ++worker) {
    counted.mutable_counted()->add_worker()->set_worker(worker);
  }
  const auto why_not = [&](const auto& change) {
    return WhyNot(counted, CheckLeaseCommand,
                  [&](C& c) { change(*c.mutable_counted()->mutable_worker(1)); });
  };
  using W = LeaseCommand::Counted::Worker;
  EXPECT_THAT(why_not([](W& w) { w.set_worker(0); }), HasSubstr("worker 0 twice"));
  EXPECT_THAT(why_not([](W& w) { w.set_worker(kMostWorkers); }), HasSubstr("a worker"));
  EXPECT_THAT(why_not([](W& w) { w.set_rows(kMostClock + 1); }), HasSubstr("counted rows"));
  EXPECT_THAT(why_not([](W& w) { w.set_clock(kMostClock + 1); }), HasSubstr("a clock"));
}

void SetRange(InputRange& range, uint64_t begin, uint64_t end, int64_t offset) {
  range.set_begin(begin);
  range.set_end(end);
  range.set_offset(offset);
}

TEST(WorkerLeases, FollowOneAnotherUpToTheNext) {
  WorkerLeases good;
  good.set_worker(3);
  Lease& first = *good.add_open();
  SetRange(*first.mutable_range(), 10, 20, 1);
  first.set_number(4);
  first.set_first_row(30);
  Lease& second = *good.add_open();
  SetRange(*second.mutable_range(), 0, 5, 0);
  second.set_number(5);
  second.set_first_row(40);
  good.set_next_number(6);
  good.set_next_row(45);
  good.set_counted_rows(39);
  using L = WorkerLeases;
  const auto why_not = [&](const auto& change) { return WhyNot(good, CheckWorkerLeases, change); };
  EXPECT_THAT(why_not([](L& l) { l.set_worker(kMostWorkers); }), HasSubstr("a worker"));
  EXPECT_THAT(why_not([](L& l) { l.set_next_row(46); }), HasSubstr("worker 3 do not follow"));
  EXPECT_THAT(why_not([](L& l) { l.set_next_number(7); }), HasSubstr("do not follow"));
  EXPECT_THAT(why_not([](L& l) { l.mutable_open(0)->set_number(3); }), HasSubstr("not follow"));
  EXPECT_THAT(why_not([](L& l) { l.mutable_open(0)->set_first_row(29); }), HasSubstr("not follow"));
  EXPECT_THAT(why_not([](L& l) { l.mutable_open(1)->set_first_row(UINT64_MAX); }),
              HasSubstr("not follow"));
  EXPECT_THAT(why_not([](L& l) { l.mutable_open(0)->mutable_range()->set_end(10); }),
              HasSubstr("has none"));
  EXPECT_THAT(why_not([](L& l) { l.set_counted_rows(29); }), HasSubstr("no lease of them"));
  EXPECT_THAT(why_not([](L& l) { l.set_counted_rows(40); }), HasSubstr("is open, and all"));
  EXPECT_THAT(why_not([](L& l) { l.set_counted_rows(46); }), HasSubstr("counted rows"));
  EXPECT_THAT(why_not([](L& l) { l.set_shares_from(46); }), HasSubstr("before equal shares"));
  EXPECT_THAT(why_not([](L& l) { l.clear_open(); }), HasSubstr("no lease of them"));
  EXPECT_THAT(why_not([](L& l) { l.set_clock(UINT64_MAX); }), HasSubstr("the clock"));
  EXPECT_THAT(why_not([](L& l) { l.set_next_row(UINT64_MAX); }), HasSubstr("rows of worker 3"));
  EXPECT_THAT(why_not([](L& l) { l.set_next_number(46); }), HasSubstr("leases of worker 3"));
  EXPECT_THAT(why_not([](L& l) {
                for (uint32_t i = 0; i < kMostOpenLeases; ++i) *l.add_open() = l.open(0);
              }),
              HasSubstr("open leases"));
}

}  // namespace
}  // namespace millrace
