// What a producer does with a topic that has rows, and when it believes that they are its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/producer/stream_rows_fixture.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

TEST_F(StreamRowsTest, ResumedAnywhereItGivesWhatAnUninterruptedRunGives) {
  std::mt19937 random(20240607);
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const int rows = static_cast<int>(1 + random() % 60);
    const auto workers = static_cast<uint32_t>(1 + random() % 5);
    options_.epochs = static_cast<uint32_t>(1 + random() % 3);
    rows_per_turn_ = static_cast<uint32_t>(1 + random() % 4);
    most_rows_per_turn_ = seed % 3 == 0 ? 4 : 0;
    dealt_workers_ = seed % 4 == 0 ? 1 + seed % workers : 0;
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
      if (Plan(topic).all_ended()) break;
    }
    ASSERT_EQ(RowsOf(topic), Expected(rows, workers)) << "seed " << seed;
    if (Plan(topic).all_ended()) {
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

}  // namespace
}  // namespace millrace
