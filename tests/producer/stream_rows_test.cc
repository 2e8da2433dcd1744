#include "producer/stream_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "producer/row_fingerprint.h"
#include "tests/formats/memory_rejects.h"
#include "tests/producer/scratch_folder.h"
#include "topics/row_codec.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

constexpr RowShape kShape = {.numeric = 1, .features = 1, .classes = 2};
constexpr size_t kNever = std::numeric_limits<size_t>::max();

struct MemoryRecord {
  std::string key;
  std::string value;
  bool operator==(const MemoryRecord&) const = default;
};
using MemoryTopic = std::vector<std::vector<MemoryRecord>>;  // by partition

// A broker in memory that takes what it is sent later, partition by partition, and a producer that
// may die with some of it on its way.
class MemorySender final : public RowSender {
 public:
  MemorySender(MemoryTopic& topic, uint32_t seed, size_t dies_after)
      : topic_(topic), on_their_way_(topic.size()), random_(seed), dies_after_(dies_after) {}
  // What is on its way now arrives in part: of each partition a prefix.
  ~MemorySender() override {
    for (size_t i = 0; i < topic_.size(); ++i)
      Deliver(i, random_() % (on_their_way_[i].size() + 1));
  }

  Status Send(WorkerId worker, const InputKey& key, std::string& value) override {
    on_send();
    if (dies_after_ == 0) return absl::AbortedError("killed");
    if (outstanding() >= room || random_() % 8 == 0) return absl::ResourceExhaustedError("full");
    --dies_after_;
    on_their_way_[worker].push_back({EncodeInputKey(key), std::move(value)});
    return absl::OkStatus();
  }
  Status Wait(std::chrono::milliseconds) override {
    ++waits;
    const size_t partition = random_() % topic_.size();
    Deliver(partition, on_their_way_[partition].size());
    return absl::OkStatus();
  }
  size_t outstanding() const override {
    size_t count = 0;
    for (const auto& records : on_their_way_) count += records.size();
    return count;
  }
  uint64_t rows_outstanding() override { return 0; }
  const std::string& topic() const override { return name_; }

  int waits = 0;
  size_t room = kNever;
  std::function<void()> on_send = [] {};

 private:
  void Deliver(size_t partition, size_t count) {
    auto& records = on_their_way_[partition];
    const auto end = records.begin() + static_cast<ptrdiff_t>(count);
    topic_[partition].insert(topic_[partition].end(), records.begin(), end);
    records.erase(records.begin(), end);
  }

  MemoryTopic& topic_;
  MemoryTopic on_their_way_;
  std::mt19937 random_;
  size_t dies_after_;
  std::string name_ = "job.input-data";
};

ResumePlan PlanOf(const MemoryTopic& topic, uint32_t rows_per_turn) {
  std::vector<PartitionTail> tails;
  for (const auto& records : topic) {
    tails.emplace_back();
    for (const MemoryRecord& record : records) {
      const StatusOr<PartitionTail> tail = TailOfRecord(record.key, record.value, kShape);
      if (!absl::IsNotFound(tail.status())) tails.back() = tail.value();  // a flush is no tail
    }
  }
  return ResumePlan(std::move(tails), rows_per_turn);
}

// Each row as a record of its own, however they were put together.
MemoryTopic RowsOf(const MemoryTopic& topic) {
  MemoryTopic rows(topic.size());
  for (size_t i = 0; i < topic.size(); ++i) {
    for (const MemoryRecord& record : topic[i]) {
      const InputKey key = DecodeInputKey(record.key).value();
      InputRecord message;
      EXPECT_TRUE(DecodeInput(key, record.value, kShape, message).ok());
      if (message.has_end()) rows[i].push_back(record);
      RowBatchReader reader;
      if (key.has_rows()) reader.Begin(message.rows(), kShape);
      for (RowNumber number = key.first; number < key.end(); ++number) {
        Row row;
        EXPECT_TRUE(reader.Next(row).ok());
        rows[i].push_back({EncodeInputKey({number, 1}), EncodeRow(row)});
      }
    }
  }
  return rows;
}

class StreamRowsTest : public testing::Test {
 protected:
  StreamRowsTest() {
    options_.spec.set_label("y");
    options_.spec.add_classes("0");
    options_.spec.add_classes("1");
    options_.spec.add_numeric("x");
    around_.stop = &stop_;
    around_.tick = [this] {
      ++ticks_;
      return absl::OkStatus();
    };
    around_.now = [this] { return now_; };
    around_.sleep = [this](Pacer::Time::duration time) { now_ += time; };
    around_.accept = [this] {
      ++accepts_;
      return absl::OkStatus();
    };
    around_.warn = [this](const std::string& line) { warnings_.push_back(line); };
  }

  void Input(const std::string& text) { path_ = folder_.Write("input.csv", text); }
  // Rows 0 to count - 1, with a malformed one after each that `bad` names.
  void InputRows(int count, const std::function<bool(int)>& bad) {
    std::string text = "x,y\n";
    for (int i = 0; i < count; ++i) {
      text += std::to_string(i) + "," + std::to_string(i % 2) + "\n";
      if (bad(i)) text += "bad,row\n";
    }
    Input(text);
  }

  // A run of a producer, to its end or death.
  Status Run(MemoryTopic& topic, uint32_t seed = 1, size_t dies_after = kNever) {
    MemorySender sender(topic, seed, dies_after);
    return Run(topic, sender);
  }
  Status Run(const MemoryTopic& topic, MemorySender& sender) {
    rejects_.rows.clear();
    counts_ = {};
    accepts_ = 0;
    auto stream = CsvStream::Create(CsvFile::Open(path_, file_options_).value(), file_options_,
                                    options_, rejects_)
                      .value();
    return StreamRows(*stream, PlanOf(topic, rows_per_turn_), pacer_, sender, around_, counts_);
  }

  // What an undisturbed run gives, by definition.
  MemoryTopic Expected(int rows, uint32_t workers) const {
    MemoryTopic topic(workers);
    std::vector<RowFingerprint> fingerprints(workers);
    uint64_t number = 0;
    for (uint32_t e = 0; e < options_.epochs; ++e) {
      for (int i = 0; i < rows; ++i, ++number) {
        const uint64_t worker = number / rows_per_turn_ % workers;
        const Row row{static_cast<uint32_t>(i % 2), {static_cast<double>(i)}, {}, {}, e > 0};
        fingerprints[worker].Add(row);
        topic[worker].push_back(
            {EncodeInputKey({RowNumber(topic[worker].size()), 1}), EncodeRow(row)});
      }
    }
    for (size_t worker = 0; worker < workers; ++worker) {
      const RowNumber end(topic[worker].size());
      topic[worker].push_back(
          {EncodeInputKey({end, 0}), EncodeEnd(end, fingerprints[worker].value())});
    }
    return topic;
  }

  ScratchFolder folder_;
  std::string path_;
  MemoryRejects rejects_;
  CsvStream::Options options_;
  CsvFile::Options file_options_;
  uint32_t rows_per_turn_ = 1;
  Pacer pacer_ = Pacer::Unpaced();
  std::atomic<bool> stop_ = false;
  int ticks_ = 0;
  int accepts_ = 0;
  std::vector<std::string> warnings_;
  Pacer::Time now_{std::chrono::hours(1000)};
  StreamSurroundings around_;
  StreamCounts counts_;
};

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
    EXPECT_TRUE(DecodeInput(key, record.value, kShape, message).ok());
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

TEST_F(StreamRowsTest, ResumedAnywhereItGivesWhatAnUninterruptedRunGives) {
  std::mt19937 random(20240607);
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const int rows = static_cast<int>(1 + random() % 60);
    const auto workers = static_cast<uint32_t>(1 + random() % 5);
    options_.epochs = static_cast<uint32_t>(1 + random() % 3);
    rows_per_turn_ = static_cast<uint32_t>(1 + random() % 4);
    const uint32_t badness = random() % 4;
    std::mt19937 bad(seed);
    InputRows(rows, [&](int) { return badness > 0 && bad() % badness == 0; });
    around_.batch_wait = {};
    if (seed % 2 == 1) around_.batch_wait = [seed] { return milliseconds(seed % 20); };
    MemoryTopic topic(workers);
    size_t rejected = 0;
    int runs = 0;
    while (true) {
      ++runs;
      // Dies after anything from the first record to the last, or not at all.
      const size_t records = static_cast<size_t>(rows) * options_.epochs + workers;
      const size_t dies = runs > 20 ? kNever : random() % (records + 2);
      // So that rows go alone or together.
      pacer_ = random() % 2 == 0 ? Pacer::Unpaced()
                                 : Pacer::AtRate(static_cast<double>(100 + random() % 5000));
      const Status status = Run(topic, static_cast<uint32_t>(random()), dies);
      if (status.ok()) break;
      ASSERT_TRUE(absl::IsAborted(status)) << status;
      // Died after the last record: the next run finds the end.
      if (PlanOf(topic, rows_per_turn_).all_ended()) break;
    }
    ASSERT_EQ(RowsOf(topic), Expected(rows, workers)) << "seed " << seed;
    if (PlanOf(topic, rows_per_turn_).all_ended()) {
      // Whatever was cut off before, the last run that read to the end has rejected all of them.
      std::mt19937 again(seed);
      for (int i = 0; i < rows; ++i) rejected += badness > 0 && again() % badness == 0;
      ASSERT_EQ(rejects_.rows.size(), rejected) << "seed " << seed;
    }
  }
}

TEST_F(StreamRowsTest, GoesOnWithPartitionsThatHaveNotEnded) {
  InputRows(10, [](int) { return false; });
  const MemoryTopic whole = Expected(10, 3);
  MemoryTopic topic = whole;
  topic[1].pop_back();
  topic[2].resize(1);
  ASSERT_TRUE(Run(topic).ok());
  EXPECT_EQ(RowsOf(topic), whole);
  EXPECT_EQ(counts_.rows_found, 4u + 3u + 1u);
}

TEST_F(StreamRowsTest, RefusesToGoOnAfterRowsOfAnotherInput) {
  InputRows(20, [](int) { return false; });
  pacer_ = Pacer::AtRate(100);  // rows go alone
  MemoryTopic topic(2);
  EXPECT_TRUE(absl::IsAborted(Run(topic, 3, 11)));
  const MemoryTopic before = topic;
  ASSERT_FALSE(PlanOf(topic, 1).fresh());
  Input("x,y\n5,0\n6,1\n7,1\n8,1\n9,1\n10,1\n11,1\n12,1\n13,1\n14,1\n15,1\n16,1\n17,1\n");
  const Status status = Run(topic);
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(status.message(), HasSubstr("holds rows of another input"));
}

TEST_F(StreamRowsTest, RefusesAnInputShorterThanWhatTheTopicHolds) {
  InputRows(20, [](int) { return false; });
  MemoryTopic topic(2);
  ASSERT_TRUE(Run(topic).ok());
  topic[0].pop_back();
  topic[1].pop_back();
  InputRows(15, [](int) { return false; });
  EXPECT_THAT(Run(topic).message(), HasSubstr("but this input gives"));
}

TEST_F(StreamRowsTest, RefusesAnInputLongerThanWhatHasEnded) {
  InputRows(10, [](int) { return false; });
  MemoryTopic topic = Expected(10, 2);
  topic[1].pop_back();
  InputRows(15, [](int) { return false; });
  EXPECT_THAT(Run(topic).message(), HasSubstr("it has 5 rows and the end of the stream"));
}

TEST_F(StreamRowsTest, RefusesAsManyOtherRowsAsHaveEnded) {
  Input("x,y\n0,0\n1,1\n2,0\n3,1\n4,0\n");
  MemoryTopic topic(2);
  ASSERT_TRUE(Run(topic).ok());
  ASSERT_TRUE(Run(topic).ok()) << "the same input";
  EXPECT_EQ(accepts_, 1);
  Input("x,y\n0,0\n1,1\n7,0\n3,1\n4,0\n");
  const Status status = Run(topic);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("[0] holds rows of another input"));
  EXPECT_EQ(accepts_, 0);
}

TEST_F(StreamRowsTest, AcceptsAnInputBeforeItsFirstRowIfTheTopicHoldsNone) {
  InputRows(20, [](int) { return false; });
  MemoryTopic topic(2);
  MemorySender sender(topic, 1, kNever);
  sender.on_send = [&] { EXPECT_EQ(accepts_, 1); };
  ASSERT_TRUE(Run(topic, sender).ok());
  EXPECT_EQ(accepts_, 1);
  EXPECT_TRUE(counts_.accepted);
}

TEST_F(StreamRowsTest, AcceptsAnInputWhenTheLastRowOfEveryPartitionWasCompared) {
  InputRows(20, [](int) { return false; });
  MemoryTopic topic = Expected(20, 3);
  topic[0].resize(2);  // up to row 3 of the input
  topic[1].resize(4);  // up to row 10
  topic[2].resize(0);
  uint64_t found_when_accepted = 0;
  around_.accept = [&] {
    ++accepts_;
    found_when_accepted = counts_.rows_found;
    return absl::OkStatus();
  };
  ASSERT_TRUE(Run(topic).ok());
  EXPECT_EQ(accepts_, 1);
  EXPECT_EQ(found_when_accepted, 2u + 4u);
  EXPECT_EQ(RowsOf(topic), Expected(20, 3));
}

TEST_F(StreamRowsTest, AcceptsNoInputThatIsRefusedWhateverItHasRead) {
  const MemoryTopic ended = Expected(10, 2);
  MemoryTopic begun = ended;
  for (auto& records : begun) records.pop_back();
  for (MemoryTopic topic : {ended, begun}) {
    for (const int rows : {5, 15}) {
      InputRows(rows, [](int) { return true; });
      if (rows == 15 && topic == begun)
        Input("x,y\n0,0\n1,1\n2,0\n3,1\n4,0\n5,1\n6,0\n7,1\n9,0\n8,1\n");
      EXPECT_THAT(Run(topic).message(), HasSubstr("another input"));
      EXPECT_EQ(accepts_, 0);
      EXPECT_FALSE(counts_.accepted);
    }
  }
  // The same input again is accepted, at its end.
  InputRows(10, [](int) { return false; });
  MemoryTopic topic = ended;
  ASSERT_TRUE(Run(topic).ok());
  EXPECT_EQ(accepts_, 1);
}

TEST_F(StreamRowsTest, EndsWithTheErrorOfAccept) {
  InputRows(10, [](int) { return false; });
  around_.accept = [] { return absl::UnavailableError("disk full"); };
  MemoryTopic topic(1);
  EXPECT_EQ(Run(topic).message(), "disk full");
  EXPECT_EQ(topic, MemoryTopic(1));
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
  EXPECT_EQ(PlanOf(topic, rows_per_turn_).rows_present(), counts_.rows_sent);
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
