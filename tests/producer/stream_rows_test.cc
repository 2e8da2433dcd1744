#include "producer/stream_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/producer/stream_rows_fixture.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

TEST_F(StreamRowsTest, DealsAcceptedRowsInTurnsWhateverIsRejectedBetween) {
  InputRows(103, [](int i) { return i % 3 == 0 || i > 90; });
  for (const uint32_t rows_per_turn : {1, 8, 32, 200}) {
    rows_per_turn_ = rows_per_turn;
    MemoryTopic topic(4);
    ASSERT_TRUE(Run(topic).ok());
    EXPECT_EQ(RowsOf(topic), Expected(103, 4));
    EXPECT_EQ(counts_.rows_sent, 103u);
    EXPECT_LT(counts_.records_sent, 107u);
    EXPECT_EQ(rejects_.rows.size(), 43u);
  }
}

// The numbers of rows before each flush of a partition.
std::vector<uint64_t> FlushesOf(const std::vector<MemoryRecord>& records) {
  std::vector<uint64_t> flushes;
  InputRecord message;
  for (const MemoryRecord& record : records) {
    const InputKey key = DecodeInputKey(record.key).value();
    EXPECT_TRUE(DecodeInput(key, record.value, kStreamShape, message).ok());
    if (message.has_flush()) flushes.push_back(message.flush().row_count());
  }
  return flushes;
}

TEST_F(StreamRowsTest, AFlushFollowsRowsThatHaveWaitedForOthers) {
  InputRows(9, [](int) { return false; });
  pacer_ = Pacer::AtRate(10);  // so each of two workers has a row in 200 ms
  around_.batch_wait = [] { return milliseconds(300); };
  MemoryTopic topic(2);
  ASSERT_TRUE(Run(topic).ok());
  EXPECT_EQ(RowsOf(topic), Expected(9, 2));
  EXPECT_THAT(FlushesOf(topic[0]), testing::ElementsAre(2, 4));
  EXPECT_THAT(FlushesOf(topic[1]), testing::ElementsAre(2)) << "the end follows the others";
}

TEST_F(StreamRowsTest, NoFlushIsSentBeforeTheJobHasToldItsWait) {
  InputRows(9, [](int) { return false; });
  pacer_ = Pacer::AtRate(10);
  const Pacer::Time told = now_ + milliseconds(500);
  around_.batch_wait = [&]() -> std::optional<Pacer::Time::duration> {
    return now_ < told ? std::nullopt : std::optional<Pacer::Time::duration>(milliseconds(300));
  };
  MemoryTopic topic(1);
  ASSERT_TRUE(Run(topic).ok());
  ASSERT_FALSE(FlushesOf(topic[0]).empty());
  EXPECT_GE(FlushesOf(topic[0]).front(), 5u);
}

TEST_F(StreamRowsTest, WhatWasSentIsDeliveredWhileAPipeIsSilent) {
  path_ = folder_.Path("pipe");
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  MemoryTopic topic(1);
  MemorySender sender(topic, 1, kNever);
  around_.now = [this] { return now_ += milliseconds(10); };
  std::promise<void> delivered;
  bool told = false;
  around_.tick = [&]() -> Status {
    const bool silent = counts_.rows_sent == 2 && sender.outstanding() == 0;
    if (silent && !std::exchange(told, true)) delivered.set_value();
    return absl::OkStatus();
  };
  std::future<void> known = delivered.get_future();
  std::thread writer([&] {
    std::ofstream out(path_);
    out << "x,y\n0,0\n1,1\n" << std::flush;
    EXPECT_EQ(known.wait_for(seconds(30)), std::future_status::ready);
    out << "2,0\n";
  });
  EXPECT_TRUE(Run(topic, sender).ok());
  writer.join();
  EXPECT_EQ(RowsOf(topic), Expected(3, 1));
}

// Stopped and started again it loses nothing; without an end there is no end of the partitions.
TEST_F(StreamRowsTest, AFileThatIsFollowedIsStreamedAsItGrows) {
  file_options_.follow = true;
  file_options_.stop = &stop_;
  MemoryTopic topic(2);
  std::string text = "x,y\n0,0\n1,1\n";
  Input(text);
  for (int run = 0; run < 3; ++run) {
    stop_ = false;
    int caught_up = 0;
    const uint64_t before = 2 + 3 * static_cast<uint64_t>(run);
    around_.now = [this] { return now_ += milliseconds(10); };
    around_.caught_up = [&] {
      ++caught_up;
      for (int i = 0; i < 3; ++i) {
        const int row = static_cast<int>(before) + i;
        text += std::to_string(row) + "," + std::to_string(row % 2) + "\n";
      }
      Input(text + "7");  // of the next line
    };
    MemorySender sender(topic, 1, kNever);
    around_.tick = [&]() -> Status {
      const uint64_t found = run == 0 ? 0 : before;
      if (counts_.rows_found == found && counts_.rows_sent + found == before + 3 &&
          sender.outstanding() == 0) {
        stop_ = true;
      }
      return absl::OkStatus();
    };
    EXPECT_TRUE(absl::IsCancelled(Run(topic, sender)));
    EXPECT_EQ(caught_up, 1);
    Input(text);
  }
  MemoryTopic expected = Expected(11, 2);
  for (auto& records : expected) records.pop_back();
  EXPECT_EQ(RowsOf(topic), expected);
}

TEST_F(StreamRowsTest, TargetsThatFloatsDoNotTellApartAreWarnedOf) {
  options_.spec.clear_classes();
  options_.spec.set_regression(true);
  std::string text = "x,y\n";
  for (int i = 0; i < 1500; ++i) text += "1," + std::to_string(1'700'000'000 + i % 9) + "\n";
  Input(text);
  MemoryTopic topic(2);
  ASSERT_TRUE(Run(topic).ok());
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], HasSubstr("about 1.7e+09"));
  EXPECT_THAT(warnings_[0], HasSubstr("Subtract a constant from column \"y\""));
}

TEST_F(StreamRowsTest, ThePartitionsOfWorkersThatGetNoRowsEndBeforeTheFirstRow) {
  InputRows(20, [](int) { return false; });
  dealt_workers_ = 1;
  around_.batch_wait = [] { return milliseconds(1); };
  MemoryTopic topic(3);
  EXPECT_TRUE(absl::IsAborted(Run(topic, 1, 2)));
  EXPECT_TRUE(topic[0].empty()) << "the two records that were sent are the ends of the others";
  EXPECT_FALSE(topic[1].empty() && topic[2].empty()) << "of these seeds";
  ASSERT_TRUE(Run(topic).ok());
  EXPECT_EQ(RowsOf(topic), Expected(20, 3));
  EXPECT_EQ(RowsOf(topic)[0].size(), 21u);
}

TEST_F(StreamRowsTest, AFileThatIsFollowedMayBeForOneWorker) {
  file_options_.follow = true;
  file_options_.stop = &stop_;
  dealt_workers_ = 1;
  MemoryTopic topic(3);
  InputRows(10, [](int) { return false; });
  around_.caught_up = [this] { stop_ = true; };
  for (int run = 0; run < 2; ++run) {
    stop_ = false;
    EXPECT_TRUE(absl::IsCancelled(Run(topic)));
  }
  file_options_.follow = false;
  stop_ = false;
  ASSERT_TRUE(Run(topic).ok());
  EXPECT_EQ(RowsOf(topic), Expected(10, 3));
}

TEST_F(StreamRowsTest, AFollowedFileThatHasLostRowsOrWhoseStreamHasEndedIsAnError) {
  file_options_.follow = true;
  MemoryTopic topic = Expected(10, 2);
  InputRows(10, [](int) { return false; });
  const Status ended = Run(topic);
  EXPECT_TRUE(absl::IsFailedPrecondition(ended)) << ended;
  EXPECT_THAT(ended.message(), HasSubstr("holds the end of the stream"));
  InputRows(11, [](int) { return false; });
  EXPECT_THAT(Run(topic).message(), HasSubstr("holds the end of the stream"));
  for (auto& records : topic) records.pop_back();
  InputRows(9, [](int) { return false; });
  const Status lost = Run(topic);
  EXPECT_TRUE(absl::IsFailedPrecondition(lost)) << lost;
  EXPECT_THAT(lost.message(), HasSubstr("it was truncated or replaced"));
}

TEST_F(StreamRowsTest, EndsPartitionsOfUnequalCounts) {
  InputRows(6, [](int) { return false; });
  MemoryTopic topic(4);
  ASSERT_TRUE(Run(topic).ok());
  const std::vector<RowNumber> expected = {2, 2, 1, 1};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(RowsOf(topic)[i].size(), expected[i] + 1);
    EXPECT_EQ(topic[i].back().key, EncodeInputKey({expected[i], 0}));
    EXPECT_EQ(topic[i].back().value, Expected(6, 4)[i].back().value);
  }
}

TEST_F(StreamRowsTest, EndsPartitionsWithoutRows) {
  InputRows(1, [](int) { return false; });
  MemoryTopic topic(3);
  ASSERT_TRUE(Run(topic).ok());
  EXPECT_EQ(RowsOf(topic), Expected(1, 3));
}

TEST_F(StreamRowsTest, StreamsEpochAfterEpoch) {
  options_.epochs = 3;
  InputRows(10, [](int i) { return i == 4; });
  MemoryTopic topic(4);
  ASSERT_TRUE(Run(topic).ok());
  EXPECT_EQ(RowsOf(topic), Expected(10, 4));
  EXPECT_EQ(rejects_.rows.size(), 1u);
}

TEST_F(StreamRowsTest, DoesNotEndAStreamOfWhichNothingCouldBeUsed) {
  Input("x,y\nbad,0\nworse,1\n");
  MemoryTopic topic(2);
  const Status status = Run(topic);
  EXPECT_THAT(status.message(), HasSubstr("none of the 2 rows of the input can be used"));
  EXPECT_THAT(status.message(), HasSubstr("line 3: "));
  EXPECT_EQ(topic, MemoryTopic(2));
}

TEST_F(StreamRowsTest, WaitsForRoomInsteadOfTakingMemory) {
  InputRows(20'000, [](int) { return false; });
  MemoryTopic topic(4);
  MemorySender sender(topic, 1, kNever);
  sender.room = 1;
  size_t most = 0;
  sender.on_send = [&] { most = std::max(most, sender.outstanding()); };
  ASSERT_TRUE(Run(topic, sender).ok());
  EXPECT_LE(most, 1u);
  EXPECT_GT(sender.waits, 15);
  EXPECT_EQ(RowsOf(topic), Expected(20'000, 4));
}

TEST_F(StreamRowsTest, LooksAroundWhileKafkaTakesNothing) {
  InputRows(10, [](int) { return false; });
  MemoryTopic topic(1);
  MemorySender sender(topic, 1, kNever);
  sender.room = 0;
  around_.tick = [this] {
    return ++ticks_ < 100 ? absl::OkStatus() : absl::UnavailableError("enough");
  };
  EXPECT_TRUE(absl::IsUnavailable(Run(topic, sender)));
}

TEST_F(StreamRowsTest, AStopEndsTheStreamAndWhatWasSentIsDelivered) {
  InputRows(1000, [](int) { return false; });
  pacer_ = Pacer::AtRate(100);  // rows go alone
  MemoryTopic topic(4);
  {
    MemorySender sender(topic, 1, kNever);
    int sends = 0;
    sender.on_send = [&] { stop_ = ++sends > 300; };
    EXPECT_TRUE(absl::IsCancelled(Run(topic, sender)));
    EXPECT_TRUE(Drain(sender, seconds(10), around_).ok());
    EXPECT_EQ(sender.outstanding(), 0u);
  }
  EXPECT_EQ(Plan(topic).rows_present(), counts_.rows_sent);
  EXPECT_LT(counts_.rows_sent, 400u);
  stop_ = false;
  ASSERT_TRUE(Run(topic).ok());
  EXPECT_EQ(RowsOf(topic), Expected(1000, 4));
}

TEST_F(StreamRowsTest, RowsThatComeSlowlyGoAloneAndAtOnceAndOthersTogether) {
  InputRows(1000, [](int) { return false; });
  for (const auto& [rate, most_waiting, least_records] :
       std::vector<std::tuple<double, int64_t, uint64_t>>{{100, 1, 1000}, {4000, 26, 90}}) {
    pacer_ = Pacer::AtRate(rate);
    MemoryTopic topic(2);
    MemorySender sender(topic, 1, kNever);
    int64_t waiting = 0;
    const Pacer::Time begin = now_;
    around_.sleep = [&, rate = rate](Pacer::Time::duration time) {
      const double due = std::chrono::duration<double>(now_ - begin).count() * rate;
      const auto sent = static_cast<int64_t>(counts_.rows_sent);
      waiting = std::max(waiting, static_cast<int64_t>(due) + 1 - sent);
      now_ += time;
    };
    ASSERT_TRUE(Run(topic, sender).ok());
    EXPECT_EQ(RowsOf(topic), Expected(1000, 2));
    EXPECT_LE(waiting, most_waiting);
    EXPECT_GE(counts_.records_sent, least_records);
    EXPECT_LE(counts_.records_sent, least_records + 20);
  }
}

TEST_F(StreamRowsTest, KeepsToTheRate) {
  InputRows(501, [](int i) { return i % 2 == 0; });
  pacer_ = Pacer::AtRate(100);
  MemoryTopic topic(4);
  const Pacer::Time begin = now_;
  ASSERT_TRUE(Run(topic).ok());
  EXPECT_GE(now_ - begin, milliseconds(5000));
  EXPECT_LE(now_ - begin, milliseconds(5002));
}

TEST_F(StreamRowsTest, APauseInARateCanBeStopped) {
  InputRows(10, [](int) { return false; });
  pacer_ = Pacer::AtRate(1e-6);
  around_.tick = [this] {
    if (++ticks_ > 50) stop_ = true;
    return absl::OkStatus();
  };
  MemoryTopic topic(1);
  EXPECT_TRUE(absl::IsCancelled(Run(topic)));
  EXPECT_EQ(counts_.rows_sent, 1u);
}

TEST_F(StreamRowsTest, AReplayTakesItsRecordedTimeAndSkipsWhatWasSent) {
  options_.time_column = "t";
  Input("x,y,t\n0,0,100\n1,1,160\n2,0,130\n3,1,220\n4,0,280\n");
  pacer_ = Pacer::Replay(60);
  MemoryTopic topic(1);
  Pacer::Time begin = now_;
  ASSERT_TRUE(Run(topic).ok());
  EXPECT_EQ(now_ - begin, seconds(3));
  EXPECT_EQ(RowsOf(topic), Expected(5, 1));
  // Resumed after row 2, it starts at once with row 3.
  topic[0].resize(3);
  pacer_ = Pacer::Replay(60);
  begin = now_;
  ASSERT_TRUE(Run(topic).ok());
  EXPECT_EQ(now_ - begin, seconds(1));
  EXPECT_EQ(RowsOf(topic), Expected(5, 1));
}

TEST_F(StreamRowsTest, SaysWhatItWaitsForInALongGapOfTheRecordedTimes) {
  options_.time_column = "t";
  Input(
      "x,y,t\n0,0,2020-01-01\n1,1,2020-01-01T00:00:59\n2,0,2020-01-01T00:01:59\n3,1,2023-01-01\n");
  pacer_ = Pacer::Replay(1);
  MemoryTopic topic(1);
  around_.sleep = [this](Pacer::Time::duration time) {
    now_ += warnings_.size() < 2 ? time : Pacer::Time::duration(std::chrono::hours(1));
  };
  ASSERT_TRUE(Run(topic).ok());
  ASSERT_EQ(warnings_.size(), 2u);
  EXPECT_THAT(warnings_[0], HasSubstr("line 4: waiting 1:00 for the next row"));
  EXPECT_THAT(warnings_[1],
              HasSubstr("line 5: waiting 3 years for the next row, which was recorded "
                        "at 2023-01-01T00:00:00Z"));
  EXPECT_THAT(warnings_[1], HasSubstr("--speedup"));
}

TEST_F(StreamRowsTest, NamesTheLineOfAnOutlierOnce) {
  std::string text = "x,y\n";
  for (int i = 0; i < 1'010; ++i)
    text += std::to_string(i % 10) + "," + std::to_string(i % 2) + "\n";
  options_.epochs = 2;
  Input(text + "1e9,0\n");
  MemoryTopic topic(2);
  ASSERT_TRUE(Run(topic).ok());
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], HasSubstr("line 1012: column \"x\" has 1e+09, where all rows before "
                                      "have 0 to 9"));
}

}  // namespace
}  // namespace millrace
