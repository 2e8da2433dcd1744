#include "producer/late_labels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace millrace {
namespace {

using ::testing::HasSubstr;

std::string Refusal(const LateLabelOptions& options) {
  const Status checked = CheckLateLabels(options, "rows");
  return absl::IsInvalidArgument(checked) ? std::string(checked.message()) : "";
}

TEST(LateLabels, NeedATopicAKeyAndAWindow) {
  EXPECT_TRUE(CheckLateLabels({}, "rows").ok());
  EXPECT_TRUE(CheckLateLabels({.topic = "labels", .key = "id", .window_s = 0}, "rows").ok());
  EXPECT_THAT(Refusal({.topic = "labels", .window_s = 1}), HasSubstr("needs --join-key COLUMN"));
  EXPECT_THAT(Refusal({.topic = "labels", .key = "id"}), HasSubstr("--join-window SECONDS"));
  EXPECT_THAT(Refusal({.topic = "rows", .key = "id", .window_s = 1}),
              HasSubstr("names the topic of the rows"));
}

TEST(LateLabels, WithoutATopicRefuseWhatIsSaidOfThem) {
  EXPECT_THAT(Refusal({.key = "id"}), HasSubstr("need --labels-from TOPIC"));
  EXPECT_THAT(Refusal({.columns = {"id"}}), HasSubstr("need --labels-from TOPIC"));
  EXPECT_THAT(Refusal({.window_s = 1}), HasSubstr("need --labels-from TOPIC"));
  EXPECT_THAT(Refusal({.unmatched_label = "no"}), HasSubstr("need --labels-from TOPIC"));
  EXPECT_THAT(Refusal({.memory_mb = 64}), HasSubstr("need --labels-from TOPIC"));
}

TEST(LateLabels, TellTheirCounts) {
  SourceState::Labels labels;
  labels.set_matched(1200);
  EXPECT_EQ(LateLabels::Summary(labels), "1,200 rows have a label");
  labels.set_defaulted(2);
  labels.set_unmatched(3);
  labels.set_unused(4);
  labels.set_dead_letters(5);
  labels.set_tombstones(6);
  labels.set_lost(7);
  EXPECT_EQ(LateLabels::Summary(labels),
            "1,200 rows have a label; 2 without one got that of --unmatched-label; 3 without one "
            "were left out; 4 labels were of no row; 5 records of labels could not be used and are "
            "in dead-letter; 6 records of labels had no value; 7 offsets of labels were deleted "
            "before they were read");
}

}  // namespace
}  // namespace millrace
