#include "server/server_metrics.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "stores/memory_byte_map.h"
#include "tests/processors/server_fixture.h"
#include "topics/frame.h"
#include "topics/message_codec.h"

namespace millrace {
namespace {

TEST(ServerMetrics, CountTheUpdatesThatNoCheckpointHas) {
  const ServerOptions options = SmallServer();
  MemoryByteMap store;
  ShardTask task(options, store);
  ASSERT_TRUE(task.StartReplay(0, 0).ok());
  const auto published = [&] {
    const OutgoingRecord record = ProgressPoint(task, JobTraining(), 2, 0, false, std::nullopt);
    MetricPoint point;
    EXPECT_TRUE(ParseMessage(ParseFrame(record.value)->body, point).ok());
    return point.server().unsaved_updates();
  };
  std::vector<OutgoingRecord> out;
  for (WorkerId worker = 0; worker < options.workers; ++worker) {
    const LogRecord record =
        RecordOf(Update(worker, 0, std::vector<float>(options.range.size(), 1.0F), options.range));
    ASSERT_TRUE(task.ProcessGradient({task.position(), record.key, record.value, 0}, out).ok());
  }
  EXPECT_EQ(published(), options.workers);
  const std::optional<Checkpoint> checkpoint = *task.BeginCheckpoint();
  ASSERT_TRUE(checkpoint.has_value());
  task.CheckpointDone(*checkpoint);
  EXPECT_EQ(published(), 0u);
}

}  // namespace
}  // namespace millrace
