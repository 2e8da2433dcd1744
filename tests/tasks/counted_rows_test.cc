// What the master is told of the rows that the shards have counted.
#include "tasks/counted_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/tasks/shard_task_fixture.h"

namespace millrace {
namespace {

using testing::ElementsAre;

class CountedRowsTest : public ShardTaskTest {
 protected:
  void SetUp() override { Use(SmallServer(ConsistencyPolicy::Eventual())); }
  // The worker's next update, which counts so many rows in all.
  void Count(uint32_t worker, uint64_t rows) {
    const WorkerId id(worker);
    Gradient message =
        Update(id, task_->processor().clocks().clock(id), {1, 1, 1, 1, 1, 1}, {0, 6});
    message.mutable_update()->set_rows_begin(task_->processor().rows_end(id));
    message.mutable_update()->set_rows_end(rows);
    AppendAndFold(message);
  }
  // "worker:rows@clock" of each, and "+rows" that only this shard has; empty: nothing is said.
  std::vector<std::string> Said(int at_ms) {
    std::vector<std::string> said;
    const auto now = CountedRows::Time(std::chrono::milliseconds(at_ms));
    if (const auto command = rows_.Take(task_->processor(), now)) {
      for (const LeaseCommand::Counted::Worker& worker : command->counted().worker()) {
        said.push_back(std::to_string(worker.worker()) + ":" + std::to_string(worker.rows()) + "@" +
                       std::to_string(worker.clock()));
        EXPECT_GE(worker.taken(), worker.rows());
        const uint64_t ahead = worker.taken() - worker.rows();
        if (ahead > 0) said.back() += "+" + std::to_string(ahead);
      }
      EXPECT_FALSE(said.empty());
    }
    return said;
  }

  CountedRows rows_{3};
};

TEST_F(CountedRowsTest, SaysWhatHasChangedAndNotTooOften) {
  EXPECT_THAT(Said(1000), ElementsAre()) << "a table begins so, too";
  Count(1, 4);
  EXPECT_THAT(Said(1000), ElementsAre("1:4@1"));
  Count(2, 3);
  Count(1, 6);
  EXPECT_THAT(Said(1099), ElementsAre());
  Count(1, 7);
  EXPECT_THAT(Said(1100), ElementsAre("1:7@3", "2:3@1"));
  EXPECT_THAT(Said(5000), ElementsAre());
  Count(0, 0);
  EXPECT_THAT(Said(5001), ElementsAre("0:0@1")) << "a clock without rows";
}

TEST_F(CountedRowsTest, SaysAllWhenItBeginsAndWhenItMayHaveBeenLost) {
  Count(0, 4);
  Count(2, 5);
  EXPECT_THAT(Said(1000), ElementsAre("0:4@1", "2:5@1"));
  rows_.SayAgain();
  EXPECT_THAT(Said(1050), ElementsAre()) << "not too often";
  EXPECT_THAT(Said(1200), ElementsAre("0:4@1", "2:5@1"));
  CountedRows after_a_restart(3);
  EXPECT_TRUE(after_a_restart.Take(task_->processor(), {}).has_value());
}

TEST_F(CountedRowsTest, SaysOfSeveralShardsWhatAllOfThemHave) {
  ServerOptions options = SmallServer(ConsistencyPolicy::Eventual());
  options.shards = 2;
  options.pipeline = 2;
  Use(options);
  Count(1, 4);
  Count(1, 7);
  EXPECT_THAT(Said(1000), ElementsAre("1:0@0+7")) << "both may be under way to the other shard";
  Count(1, 9);
  EXPECT_THAT(Said(1100), ElementsAre("1:4@1+5"));
  Count(1, 9);
  Count(1, 12);
  EXPECT_THAT(Said(1200), ElementsAre("1:9@3+3"));
  AppendAndFold(Message(Gradient::kLeave, WorkerId(1), Clock(5)));
  EXPECT_THAT(Said(1300), ElementsAre("1:12@5")) << "nothing was, when it left";
}

}  // namespace
}  // namespace millrace
