#include "topics/task_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace millrace {
namespace {

using testing::HasSubstr;

TaskSetSpec GoodSet() {
  TaskSetSpec spec;
  spec.set_name("rows");
  spec.set_records(10);
  spec.set_records_per_task(3);
  spec.set_epochs(2);
  spec.set_most_failures(3);
  return spec;
}

template <class Change>
std::string WhyNot(const Change& change) {
  TaskSetSpec spec = GoodSet();
  change(spec);
  const Status status = CheckTaskSet(spec);
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  return std::string(TextOf(status));
}

TEST(TaskSet, IsCheckedBeforeItIsUsed) {
  using S = TaskSetSpec;
  EXPECT_EQ(CheckTaskSet(GoodSet()), absl::OkStatus());
  EXPECT_THAT(WhyNot([](S& s) { s.clear_name(); }), HasSubstr("without a name"));
  EXPECT_THAT(WhyNot([](S& s) { s.set_name(std::string(256, 'x')); }), HasSubstr("256"));
  EXPECT_THAT(WhyNot([](S& s) { s.set_name("a\nb"); }), HasSubstr("control characters"));
  EXPECT_THAT(WhyNot([](S& s) { s.set_records(0); }), HasSubstr("records of the data set rows: 0"));
  EXPECT_THAT(WhyNot([](S& s) { s.set_records(INT64_MAX); }), HasSubstr("is the most"));
  EXPECT_THAT(WhyNot([](S& s) { s.set_records_per_task(-1); }), HasSubstr("records of a task"));
  EXPECT_THAT(WhyNot([](S& s) { s.set_epochs(0); }), HasSubstr("epochs of"));
  EXPECT_THAT(WhyNot([](S& s) { s.set_most_failures(-1); }), HasSubstr("most failures"));
  EXPECT_THAT(WhyNot([](S& s) { s.set_timeout_ticks(uint64_t{1} << 31); }), HasSubstr("seconds"));
  EXPECT_THAT(WhyNot([](S& s) {
                s.set_records(int64_t{1} << 50);
                s.set_records_per_task(1);
              }),
              HasSubstr("give them more records"));
  EXPECT_THAT(WhyNot([](S& s) {
                s.set_records(1'000'000'000);
                s.set_epochs(UINT32_MAX);
              }),
              HasSubstr("give them more records"));
}

TEST(TaskPosition, IsCheckedBeforeItIsUsed) {
  TaskSetPosition position;
  *position.mutable_spec() = GoodSet();
  position.set_dealt(8);
  position.add_undone(7);
  EXPECT_EQ(CheckTaskPosition(position), absl::OkStatus());
  position.add_undone(7);
  EXPECT_FALSE(CheckTaskPosition(position).ok());
  position.set_undone(1, 8);
  EXPECT_FALSE(CheckTaskPosition(position).ok());
  position.clear_undone();
  position.set_dealt(9);
  EXPECT_FALSE(CheckTaskPosition(position).ok());
}

TEST(TaskCommand, HasANumberAndSomethingToDo) {
  TaskCommand command;
  EXPECT_FALSE(CheckTaskCommand(command).ok());
  command.set_number(1);
  EXPECT_FALSE(CheckTaskCommand(command).ok());
  command.mutable_get()->set_set("rows");
  EXPECT_FALSE(CheckTaskCommand(command).ok()) << "nobody asks";
  command.mutable_get()->set_worker("worker-0");
  EXPECT_EQ(CheckTaskCommand(command), absl::OkStatus());
  command.mutable_result()->set_set("rows");
  command.mutable_result()->set_detail(std::string(1'025, 'x'));
  EXPECT_FALSE(CheckTaskCommand(command).ok());
}

// Each record once in each epoch, whatever the number of tasks.
TEST(TaskRange, CoversEachEpochOnce) {
  for (const bool shuffles : {false, true}) {
    for (int64_t records = 1; records < 70; ++records) {
      TaskSetSpec spec = GoodSet();
      spec.set_records(records);
      if (shuffles) spec.set_shuffle(7);
      for (int64_t epoch = 0; epoch < 2; ++epoch) {
        std::set<int64_t> seen;
        for (int64_t task = 0; task < TasksPerEpoch(spec); ++task) {
          const TaskRange range = RangeOfTask(spec, epoch * TasksPerEpoch(spec) + task);
          for (int64_t record = range.begin; record < range.end; ++record) {
            EXPECT_TRUE(seen.insert(record).second) << record << " of " << records;
          }
        }
        EXPECT_EQ(seen.size(), static_cast<size_t>(records));
        EXPECT_EQ(*seen.begin(), 0);
        EXPECT_EQ(*seen.rbegin(), records - 1);
      }
    }
  }
}

TEST(TaskRange, IsShuffledByTheSeedAndTheEpoch) {
  TaskSetSpec spec = GoodSet();
  spec.set_records(300);
  const auto order = [&](int64_t epoch) {
    std::vector<int64_t> begins;
    for (int64_t task = 0; task < TasksPerEpoch(spec); ++task) {
      begins.push_back(RangeOfTask(spec, epoch * TasksPerEpoch(spec) + task).begin);
    }
    return begins;
  };
  const std::vector<int64_t> plain = order(0);
  EXPECT_TRUE(std::is_sorted(plain.begin(), plain.end()));
  spec.set_shuffle(1);
  const std::vector<int64_t> shuffled = order(0);
  EXPECT_NE(shuffled, plain);
  EXPECT_NE(shuffled, order(1));
  spec.set_shuffle(2);
  EXPECT_NE(shuffled, order(0));
}

}  // namespace
}  // namespace millrace
