// What the process of shard 0 tells a master that leases rows, on librdkafka's mock cluster.
#include "server/counted_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kafka/read_partition.h"
#include "tests/kafka/mock_cluster.h"
#include "tests/kafka/until.h"
#include "tests/tasks/shard_task_fixture.h"
#include "topics/control_codec.h"
#include "topics/master_topics.h"

namespace millrace {
namespace {

class CountedReportTest : public ShardTaskTest {
 protected:
  void SetUp() override {
    Use(SmallServer(ConsistencyPolicy::Eventual()));
    config_.set_name("counted");
    config_.set_brokers(cluster_.options().brokers);
    config_.set_workers(options_.workers);
    config_.set_epoch(7);
  }
  void Open() {
    cluster_.CreateTopic(control_, 1);
    auto report = CountedReport::Create(config_, BrokerRetry(never_, 0));
    ASSERT_TRUE(report.ok()) << report.status();
    report_ = *std::move(report);
  }
  // The worker's next update, which counts so many rows in all.
  void Count(uint32_t worker, uint64_t rows) {
    const WorkerId id(worker);
    Gradient message =
        Update(id, task_->processor().clocks().clock(id), {1, 1, 1, 1, 1, 1}, {0, 6});
    message.mutable_update()->set_rows_end(rows);
    AppendAndFold(message);
  }
  // Ticks, while there is a report, until the topic says so of each worker: rows that are counted.
  bool ControlSays(const std::map<uint32_t, uint64_t>& rows) {
    return Until([&] {
      if (report_) {
        EXPECT_EQ(report_->Tick(*task_, std::chrono::steady_clock::now()), absl::OkStatus());
      }
      std::map<uint32_t, uint64_t> said;
      const auto take = [&](const ConsumedRecord& record) {
        const StatusOr<ControlRecord> control = DecodeControl(record.value, config_.epoch());
        EXPECT_TRUE(control.ok()) << control.status();
        for (const auto& worker : control->lease().counted().worker()) {
          said[worker.worker()] = worker.rows();
        }
        return absl::OkStatus();
      };
      return ReadPartition(cluster_.options(), "test", control_, 0, never_, take).ok() &&
             said == rows;
    });
  }

  MockCluster cluster_;
  JobConfig config_;
  const std::string control_ = MasterTopicName("counted", MasterTopic::kControl);
  const std::atomic<bool> never_ = false;
  std::unique_ptr<CountedReport> report_;
};

TEST_F(CountedReportTest, SaysInControlWhatShardZeroHasCounted) {
  Open();
  Count(1, 4);
  EXPECT_TRUE(ControlSays({{1, 4}}));
  Count(0, 2);
  Count(1, 9);
  EXPECT_TRUE(ControlSays({{0, 2}, {1, 9}}));
  Count(1, 10);
  const auto now = std::chrono::steady_clock::now();
  ASSERT_TRUE(report_->Tick(*task_, now).ok());
  Count(1, 11);
  ASSERT_TRUE(report_->TellLast(*task_, now).ok()) << "at once";
  report_.reset();
  EXPECT_TRUE(ControlSays({{0, 2}, {1, 11}}));
}

TEST_F(CountedReportTest, SaysAgainWhatGotLost) {
  Open();
  cluster_.Fail(Request::kProduce, {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED});
  Count(1, 4);
  EXPECT_TRUE(ControlSays({{1, 4}}));
}

}  // namespace
}  // namespace millrace
