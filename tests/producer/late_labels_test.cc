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

}  // namespace
}  // namespace millrace
