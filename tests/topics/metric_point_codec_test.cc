#include "topics/metric_point_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "messages/source.pb.h"
#include "topics/frame.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

std::string Framed(const MetricPoint& point) {
  return MakeFrames(point.SerializeAsString(), 0).front();
}

MetricPoint GoodPoint() {
  MetricPoint point;
  point.set_timestamp_ms(1'700'000'000'000);
  MetricPoint::ServerProgress& server = *point.mutable_server();
  server.set_shards(2);
  server.set_shard(1);
  server.set_rounds(5);
  server.set_train_loss(std::numeric_limits<double>::quiet_NaN());
  server.add_workers()->set_clock(5);
  server.mutable_recovery()->set_source("replica of b:9000");
  return point;
}

TEST(MetricPointCodec, APointComesBackAsItWas) {
  const StatusOr<MetricPoint> read = DecodeMetricPoint(Framed(GoodPoint()));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->SerializeAsString(), GoodPoint().SerializeAsString());
}

TEST(MetricPointCodec, RefusesWhatNoProgramSends) {
  struct Case {
    std::string reason;
    std::function<void(MetricPoint&)> change;
  };
  const std::vector<Case> cases = {
      {"a time of -1 ms", [](MetricPoint& p) { p.set_timestamp_ms(-1); }},
      {"a time of", [](MetricPoint& p) { p.set_timestamp_ms(INT64_MAX); }},
      {"an unknown kind", [](MetricPoint& p) { p.clear_kind(); }},
      {"a version with control characters",
       [](MetricPoint& p) { p.mutable_worker()->mutable_setup()->set_version("\x1b[2J"); }},
      {"shards: 4294967295", [](MetricPoint& p) { p.mutable_server()->set_shards(UINT32_MAX); }},
      {"shard 2", [](MetricPoint& p) { p.mutable_server()->set_shard(2); }},
      {"rounds:", [](MetricPoint& p) { p.mutable_server()->set_rounds(UINT64_MAX); }},
      {"updates:", [](MetricPoint& p) { p.mutable_server()->set_updates(UINT64_MAX); }},
      {"rows trained on:",
       [](MetricPoint& p) { p.mutable_server()->set_rows_trained(UINT64_MAX); }},
      {"rows counted:", [](MetricPoint& p) { p.mutable_server()->set_rows_counted(UINT64_MAX); }},
      {"rows tested:",
       [](MetricPoint& p) { p.mutable_server()->mutable_progressive()->set_rows(UINT64_MAX); }},
      {"rows at a drift:",
       [](MetricPoint& p) { p.mutable_server()->mutable_drift()->set_found_at(UINT64_MAX); }},
      {"rows at the window's end:",
       [](MetricPoint& p) { p.mutable_server()->set_window_end(UINT64_MAX); }},
      {"a class's name with control characters",
       [](MetricPoint& p) { p.mutable_server()->add_class_name("\x1b[2J"); }},
      {"names of classes: 1001",
       [](MetricPoint& p) {
         while (p.server().class_name_size() <= 1'000) p.mutable_server()->add_class_name("x");
       }},
      {"classes of unequal length",
       [](MetricPoint& p) { p.mutable_server()->mutable_progressive()->add_class_rows(1); }},
      {"confusion matrix of unequal length",
       [](MetricPoint& p) { p.mutable_server()->mutable_tail()->add_cell(1); }},
      {"confusion cell 1, but there are 0",
       [](MetricPoint& p) {
         p.mutable_server()->mutable_window()->add_cell(1);
         p.mutable_server()->mutable_window()->add_cell_count(1);
       }},
      {"reliability bins of unequal length",
       [](MetricPoint& p) { p.mutable_evaluation()->mutable_holdout()->add_reliability_bin(1); }},
      {"worker 10000",
       [](MetricPoint& p) { p.mutable_server()->mutable_workers(0)->set_worker(10'000); }},
      {"clock",
       [](MetricPoint& p) { p.mutable_server()->mutable_workers(0)->set_clock(UINT64_MAX); }},
      {"workers: 10001",
       [](MetricPoint& p) {
         while (p.server().workers_size() <= 10'000) p.mutable_server()->add_workers();
       }},
      {"control characters",
       [](MetricPoint& p) { p.mutable_server()->mutable_recovery()->set_source("\x1b[2J"); }},
      {"a process with control characters",
       [](MetricPoint& p) { p.mutable_server()->set_process("a\nb"); }},
      {"bytes of the process",
       [](MetricPoint& p) { p.mutable_server()->set_process(std::string(1001, 'x')); }},
      {"bytes of the source of a copy",
       [](MetricPoint& p) {
         p.mutable_server()->mutable_recovery()->set_source(std::string(1001, 'x'));
       }},
      {"a version with control characters",
       [](MetricPoint& p) { p.mutable_server()->mutable_setup()->set_version("\x1b[2J"); }},
      {"bytes of the version",
       [](MetricPoint& p) {
         p.mutable_producer()->mutable_setup()->set_version(std::string(1001, 'x'));
       }},
      {"a topic of labels with control characters",
       [](MetricPoint& p) {
         SourcedProgress sourced;
         sourced.mutable_source()->mutable_labels()->set_topic("\x1b[2J");
         p.mutable_producer()->MergeFromString(sourced.SerializeAsString());
       }},
      {"records of a source:",
       [](MetricPoint& p) {
         SourcedProgress sourced;
         sourced.mutable_source()->mutable_labels()->set_unused(UINT64_MAX);
         p.mutable_producer()->MergeFromString(sourced.SerializeAsString());
       }},
      {"counts of a source that are none",
       [](MetricPoint& p) {
         // The field's tag (20, a message) and a length of 1: a byte that is no field.
         p.mutable_producer()->MergeFromString("\xA2\x01\x01\xFF");
       }},
      {"a time of -2 ms",
       [](MetricPoint& p) { p.mutable_server()->mutable_setup()->set_job_started_ms(-2); }},
      {"features:",
       [](MetricPoint& p) { p.mutable_server()->mutable_setup()->set_feature_count(UINT64_MAX); }},
      {"settings: 501",
       [](MetricPoint& p) {
         while (p.server().setup().setting_size() <= 500) {
           p.mutable_server()->mutable_setup()->add_setting();
         }
       }},
      {"a setting's flag with control characters",
       [](MetricPoint& p) {
         p.mutable_producer()->mutable_setup()->add_setting()->set_flag("--a\n");
       }},
      {"a setting's value with control characters",
       [](MetricPoint& p) {
         p.mutable_server()->mutable_setup()->add_setting()->set_value("\x07");
       }},
      {"bytes read", [](MetricPoint& p) { p.mutable_producer()->set_bytes_read(UINT64_MAX); }},
      {"bytes of the input",
       [](MetricPoint& p) { p.mutable_producer()->set_bytes_total(UINT64_MAX); }},
      {"rows read", [](MetricPoint& p) { p.mutable_producer()->set_rows_read(UINT64_MAX); }},
      {"rows rejected",
       [](MetricPoint& p) { p.mutable_producer()->set_rows_rejected(UINT64_MAX); }},
      {"rows sent", [](MetricPoint& p) { p.mutable_producer()->set_rows_sent(UINT64_MAX); }},
      {"epoch", [](MetricPoint& p) { p.mutable_producer()->set_epoch_of_stream(UINT32_MAX); }},
      {"epochs", [](MetricPoint& p) { p.mutable_producer()->set_epochs_of_stream(UINT32_MAX); }},
      {"shard 1000", [](MetricPoint& p) { p.mutable_evaluation()->set_shard(1000); }},
      {"clock", [](MetricPoint& p) { p.mutable_evaluation()->set_clock(UINT64_MAX); }},
  };
  for (const Case& bad : cases) {
    MetricPoint point = GoodPoint();
    bad.change(point);
    const Status status = DecodeMetricPoint(Framed(point)).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << bad.reason;
    EXPECT_THAT(std::string(status.message()), HasSubstr(bad.reason));
  }
}

TEST(MetricPointCodec, RefusesWhatIsNoWholeFrameOfAPoint) {
  EXPECT_FALSE(DecodeMetricPoint("").ok());
  EXPECT_FALSE(DecodeMetricPoint(std::string("\x01\x00", 2)).ok()) << "another format version";
  EXPECT_FALSE(DecodeMetricPoint(WholeFrameHeader() + "\xff").ok());
  const std::string bytes = GoodPoint().SerializeAsString();
  const std::vector<std::string> chunks = MakeFrames(bytes, 1, 20);
  ASSERT_GT(chunks.size(), 1U);
  EXPECT_FALSE(DecodeMetricPoint(chunks[0]).ok());
}

}  // namespace
}  // namespace millrace
