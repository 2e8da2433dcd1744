#include "master/task_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace millrace {
namespace {

using testing::HasSubstr;

TaskSetPosition SomePosition() {
  TaskSetPosition position;
  TaskSetSpec& spec = *position.mutable_spec();
  spec.set_name("übung \"1\"");
  spec.set_records(100);
  spec.set_records_per_task(7);
  spec.set_epochs(3);
  spec.set_shuffle(UINT64_MAX);
  spec.set_type(-1);
  spec.set_timeout_ticks(60);
  spec.set_most_failures(2);
  position.set_dealt(17);
  position.add_undone(3);
  position.add_undone(16);
  return position;
}

TEST(TaskCheckpoint, IsReadAsItWasWritten) {
  const StatusOr<TaskSetPosition> read = ParseTaskCheckpoint(TaskCheckpointText(SomePosition()));
  ASSERT_EQ(read.status(), absl::OkStatus());
  EXPECT_EQ(read->SerializeAsString(), SomePosition().SerializeAsString());
}

TEST(TaskCheckpoint, SaysWhichEpochItIs) {
  EXPECT_THAT(TaskCheckpointText(SomePosition()), HasSubstr("\"current_epoch\":2"));
}

TEST(TaskCheckpoint, RefusesWhatIsNone) {
  const std::string text = TaskCheckpointText(SomePosition());
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseTaskCheckpoint(text.substr(0, size)).status()))
        << size;
  }
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return std::string(ParseTaskCheckpoint(changed).status().message());
  };
  EXPECT_THAT(with("\"dealt\":17", "\"dealt\":1.5"), HasSubstr("its field dealt"));
  EXPECT_THAT(with("\"dealt\":17", "\"dealt\":18446744073709551615"), HasSubstr("its field dealt"));
  EXPECT_THAT(with("\"dealt\":17", "\"dealt\":16"), HasSubstr("still to come"));
  EXPECT_THAT(with("[3,16]", "[3,\"16\"]"), HasSubstr("its field undone"));
  EXPECT_THAT(with("[3,16]", "3"), HasSubstr("its field undone"));
  EXPECT_THAT(with("\"num_epochs\":3", "\"num_epochs\":-3"), HasSubstr("its field num_epochs"));
  EXPECT_THAT(with("\"shuffle_shards\":true", "\"shuffle_shards\":1"),
              HasSubstr("its field shuffle_shards"));
  EXPECT_THAT(with("\"dataset_size\":100", "\"dataset_size\":0"), HasSubstr("records of"));
  EXPECT_THAT(std::string(ParseTaskCheckpoint("[]").status().message()),
              HasSubstr("no JSON object"));
}

}  // namespace
}  // namespace millrace
