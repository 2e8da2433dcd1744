#include "server/waiting_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "stores/memory_byte_map.h"
#include "tests/processors/server_fixture.h"
#include "tests/tasks/fold_and_answer.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A shard of three workers, and what the report says of it after 5 s.
class WaitingReportTest : public ::testing::Test {
 protected:
  WaitingReportTest() { EXPECT_TRUE(task_.StartReplay(0, 0).ok()); }

  void Send(const Gradient& message) {
    const LogRecord record = RecordOf(message);
    std::vector<OutgoingRecord> out;
    ASSERT_TRUE(FoldAndAnswer(task_, {task_.position(), record.key, record.value, 0}, out).ok());
  }
  void SendUpdate(WorkerId worker) {
    Send(Update(worker, task_.processor().clocks().clock(worker),
                std::vector<float>(options_.range.size(), 1.0F), options_.range));
  }
  // The lines that are logged meanwhile.
  std::vector<WaitingReport::Line> Pass(milliseconds time) {
    std::vector<WaitingReport::Line> lines;
    for (const auto end = now_ + time; now_ < end; now_ += milliseconds(250)) {
      if (const auto line = report_.Due(task_, now_)) lines.push_back(*line);
    }
    return lines;
  }

  const ServerOptions options_ = SmallServer();
  MemoryByteMap store_;
  ShardTask task_{options_, store_};
  WaitingReport report_{seconds(5)};
  WaitingReport::Time now_{seconds(1000)};
};

TEST_F(WaitingReportTest, NamesTheWorkersOfARoundAgainAndAgain) {
  SendUpdate(1);
  EXPECT_THAT(Pass(seconds(4)), IsEmpty());
  const std::vector<WaitingReport::Line> lines = Pass(seconds(7));
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_THAT(lines[0].text, HasSubstr("has waited 5 s for updates of workers 0 2;"));
  EXPECT_THAT(lines[1].text, HasSubstr("has waited 10 s for updates of workers 0 2;"));
}

TEST_F(WaitingReportTest, RepeatsOfWorkersThatWaitAreNoProgressOfTheRound) {
  SendUpdate(1);
  std::vector<WaitingReport::Line> lines;
  for (int i = 0; i < 6; ++i) {
    EXPECT_THAT(lines, IsEmpty());
    lines = Pass(seconds(1));
    Send(Message(Gradient::kAsk, 1, 0));
  }
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_TRUE(lines[0].is_warning);
  EXPECT_THAT(lines[0].text, HasSubstr("5 s for updates of workers 0 2;"));
}

TEST_F(WaitingReportTest, ARoundThatEndsStartsTheTimeAgain) {
  SendUpdate(1);
  Pass(seconds(4));
  for (const int worker : {0, 2, 1}) SendUpdate(WorkerId(worker));
  EXPECT_THAT(Pass(seconds(4)), IsEmpty());
}

TEST_F(WaitingReportTest, TheTimeWithoutAnyRowsIsNoTimeOfTheRoundThatFollows) {
  Pass(seconds(100));
  SendUpdate(1);
  EXPECT_THAT(Pass(seconds(4)), IsEmpty());
  EXPECT_THAT(Pass(seconds(2)).at(0).text, HasSubstr("has waited 5 s for updates of workers 0 2;"));
}

TEST_F(WaitingReportTest, WhenNothingComesItSaysSoOnceWithoutAlarm) {
  for (const int worker : {0, 1, 2}) SendUpdate(WorkerId(worker));
  EXPECT_THAT(Pass(seconds(4)), IsEmpty());
  const std::vector<WaitingReport::Line> lines = Pass(seconds(60));
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_FALSE(lines[0].is_warning);
  EXPECT_THAT(lines[0].text,
              AllOf(HasSubstr("no update has come from any worker"), HasSubstr("for 5 s"),
                    HasSubstr("no worker has new rows"), HasSubstr("start WorkerApp")));
  for (const int worker : {0, 1, 2}) SendUpdate(WorkerId(worker));
  EXPECT_THAT(Pass(seconds(60)), SizeIs(1)) << "another silence";
}

TEST_F(WaitingReportTest, OfAJobThatHasEndedNothingIsSaid) {
  for (const int worker : {0, 1, 2}) Send(Message(Gradient::kLeave, WorkerId(worker), 0));
  EXPECT_THAT(Pass(seconds(60)), IsEmpty());
}

}  // namespace
}  // namespace millrace
