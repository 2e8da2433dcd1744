#include "server/server_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "stores/memory_byte_map.h"
#include "tests/processors/server_fixture.h"
#include "tests/tasks/fold_and_answer.h"
#include "topics/frame.h"
#include "topics/message_codec.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;

MetricPoint::ServerProgress Parsed(const OutgoingRecord& record) {
  MetricPoint point;
  EXPECT_TRUE(ParseMessage(ParseFrame(record.value)->body, point).ok());
  EXPECT_EQ(record.key, "server/0");
  return point.server();
}

// A shard of three workers, and what it publishes.
class ServerMetrics : public ::testing::Test {
 protected:
  ServerMetrics() { EXPECT_TRUE(task_.StartReplay(0, 0).ok()); }

  void Send(const Gradient& message) {
    std::vector<OutgoingRecord> out;
    const LogRecord record = RecordOf(message);
    ASSERT_TRUE(FoldAndAnswer(task_, {task_.position(), record.key, record.value, 0}, out).ok());
  }
  void SendUpdate(WorkerId worker) {
    Send(Update(worker, 0, std::vector<float>(options_.range.size(), 1.0F), options_.range));
  }
  void Save() {
    const std::optional<Checkpoint> checkpoint = *task_.BeginCheckpoint();
    ASSERT_TRUE(checkpoint.has_value());
    task_.CheckpointDone(*checkpoint);
  }
  MetricPoint::ServerProgress Progress() const {
    return Parsed(ProgressPoint(task_, {.training = {}, .classes = 2}, 0, false, std::nullopt));
  }
  std::vector<bool> Pending() const {
    std::vector<bool> pending;
    const MetricPoint::ServerProgress progress = Progress();
    for (const WorkerProgress& worker : progress.workers()) pending.push_back(worker.pending());
    return pending;
  }

  const ServerOptions options_ = SmallServer();
  MemoryByteMap store_;
  ShardTask task_{options_, store_};
};

TEST_F(ServerMetrics, CountTheUpdatesThatNoCheckpointHas) {
  for (WorkerId worker = 0; worker < options_.workers; ++worker) SendUpdate(worker);
  EXPECT_EQ(Progress().unsaved_updates(), options_.workers);
  Save();
  EXPECT_EQ(Progress().unsaved_updates(), 0u);
}

TEST_F(ServerMetrics, SayWhoseUpdatesOfTheRoundHaveCome) {
  EXPECT_THAT(Pending(), ElementsAre(false, false, false));
  SendUpdate(1);
  EXPECT_THAT(Pending(), ElementsAre(false, true, false));
  Send(Message(Gradient::kLeave, 0, 0));
  EXPECT_THAT(Pending(), ElementsAre(false, true, false)) << "who has left sends none";
  SendUpdate(2);
  EXPECT_THAT(Pending(), ElementsAre(false, false, false)) << "the next round";
}

TEST_F(ServerMetrics, TellTheLastWindowAndTheClassesByName) {
  EXPECT_FALSE(Progress().has_window());
  for (WorkerId worker = 0; worker < options_.workers; ++worker) {
    Send(WithProgressive(Update(worker, 0, Same(1), options_.range), 400));
  }
  const PointSettings settings = {.training = {}, .classes = 2, .class_names = {"late", "on time"}};
  const MetricPoint::ServerProgress point =
      Parsed(ProgressPoint(task_, settings, 0, false, std::nullopt));
  EXPECT_EQ(point.window().rows(), 1'200u);
  EXPECT_EQ(point.window_end(), 1'200u);
  EXPECT_THAT(point.class_name(), ElementsAre("late", "on time"));
  EXPECT_EQ(point.progressive().class_rows(1), 1'200u);
}

TEST_F(ServerMetrics, TellTheRunFromOthers) {
  PointSettings settings = {.training = {}, .classes = 2};
  settings.setup.set_version("0.1.0");
  settings.setup.add_setting()->set_flag("--skip-rows");
  const MetricPoint::ServerProgress first =
      Parsed(ProgressPoint(task_, settings, 0, false, std::nullopt));
  EXPECT_EQ(first.setup().version(), "0.1.0");
  EXPECT_EQ(first.setup().setting_size(), 1);
  ServerOptions options = SmallServer();
  options.shards = 2;
  options.shard = 1;
  MemoryByteMap store;
  const ShardTask task(options, store);
  MetricPoint point;
  const OutgoingRecord record = ProgressPoint(task, settings, 0, false, std::nullopt);
  ASSERT_TRUE(ParseMessage(ParseFrame(record.value)->body, point).ok());
  EXPECT_EQ(point.server().setup().version(), "0.1.0");
  EXPECT_EQ(point.server().setup().setting_size(), 0) << "shard 0 says it";
}

TEST_F(ServerMetrics, TheLastPointOfACleanStopSaysSo) {
  SendUpdate(1);
  Save();
  EXPECT_FALSE(Progress().stopped());
  const MetricPoint::ServerProgress last =
      Parsed(StoppedPoint(task_, {.training = {}, .classes = 2}, 0, false, std::nullopt));
  EXPECT_TRUE(last.stopped());
  EXPECT_FALSE(last.ended());
  EXPECT_EQ(last.unsaved_updates(), 0u);
  EXPECT_EQ(last.workers_size(), 3);
}

}  // namespace
}  // namespace millrace
