#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "apps/program.h"
#include "base/big_endian.h"
#include "durability/checkpoints/shard_store.h"
#include "durability/replicas/replicator.h"
#include "durability/snapshots/snapshot_files.h"
#include "durability/snapshots/snapshot_request.h"
#include "job/job_registry.h"
#include "job/stop_signal.h"
#include "server/one_layout.h"
#include "stores/rocksdb_byte_map.h"
#include "tests/kafka/mock_cluster.h"
#include "topics/frame.h"
#include "topics/message_codec.h"
#include "topics/partitioning.h"
#include "topics/row_codec.h"
#include "topics/topics.h"
#include "worker/one_layout.h"

namespace millrace {
namespace {

constexpr uint32_t kWorkers = 4;
constexpr uint64_t kRows = 1501;
constexpr size_t kHashed = 16;

std::string BytesOf(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Row RowOf(uint64_t number) {
  std::mt19937_64 random(number);
  Row row;
  row.numeric = {static_cast<double>(random() % 1000)};
  row.index = {1 + static_cast<uint32_t>(random() % kHashed)};
  row.value = {1.0f};
  row.label = row.numeric[0] + static_cast<double>(random() % 200) > 600 ? 1 : 0;
  return row;
}

// A job on a cluster of its own, in a folder of its own.
class WholeJobTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    // Before there are threads: logging, as a program does it, and RocksDB's statics, whose guards
    // ThreadSanitizer cannot see.
    [[maybe_unused]] static const bool once = [] {
      SetUpLogging();
      std::string pattern = testing::TempDir() + "millrace_store_XXXXXX";
      const std::string folder = mkdtemp(pattern.data());
      EXPECT_TRUE(OpenRocksDb(folder + "/store").ok());
      std::filesystem::remove_all(folder);
      return true;
    }();
  }

  WholeJobTest() {
    std::string pattern = testing::TempDir() + "millrace_job_XXXXXX";
    folder_ = mkdtemp(pattern.data());
    config_.set_workers(kWorkers);
    config_.set_brokers(cluster_.options().brokers);
    // The mock cluster holds a fetch for all of its wait, also when a record comes meanwhile.
    KafkaSetting& wait = *config_.add_kafka();
    wait.set_key("fetch.wait.max.ms");
    wait.set_value("10");
    config_.mutable_server()->set_checkpoint_interval_s(0.1);
    config_.mutable_server()->set_evaluation_interval_s(0.05);
    config_.mutable_server()->set_weights_file(folder_ / "weights.npy");
    config_.mutable_server()->set_weights_at_checkpoints(true);
    config_.mutable_server()->set_test_file(folder_ / "test.csv");
    config_.mutable_server()->set_evaluation_log(folder_ / "server.csv");
    UseJob("job");
    features_.set_epoch(config_.epoch());
    features_.set_workers(kWorkers);
    features_.set_feature_count(1 + kHashed);
    FeatureSpec& spec = *features_.mutable_spec();
    spec.set_label("y");
    spec.add_classes("no");
    spec.add_classes("yes");
    spec.add_numeric("x");
    spec.add_categorical("c");
    spec.set_categorical_buckets(kHashed);
    training_.set_epoch(config_.epoch());
    training_.mutable_training()->set_batch_rows(8);
    std::ofstream test(folder_ / "test.csv");
    test << "x,c,y\n";
    for (int i = 0; i < 50; ++i) test << i * 20 << ",a," << (i * 20 > 500 ? "yes" : "no") << '\n';
  }
  ~WholeJobTest() override { std::filesystem::remove_all(folder_); }

  void UseJob(const std::string& name, uint32_t shards = 1) {
    config_.set_name(name);
    training_.set_shards(shards);
    for (const TopicPlan& plan :
         PlanTopics(name, kWorkers, TopicSizes{.shards = shards, .most_workers = kWorkers})) {
      cluster_.CreateTopic(plan.name, static_cast<int>(plan.partitions));
    }
  }

  void SendRows(uint64_t row_count = kRows) {
    auto producer = KafkaProducer::Create(cluster_.options(), {.client_id = "rows"}, nullptr);
    ASSERT_TRUE(producer.ok()) << producer.status();
    const std::string topic = TopicName(config_.name(), Topic::kInputData);
    std::vector<RowNumber> rows(kWorkers);
    for (uint64_t number = 0; number < row_count; ++number) {
      const RowPlace place = PlaceOfRow(number, {.workers = kWorkers, .rows_per_turn = 4});
      rows[place.worker] = place.row + 1;
      ASSERT_TRUE((*producer)
                      ->Send(topic, static_cast<int32_t>(place.worker),
                             EncodeInputKey({place.row, 1}), EncodeRow(RowOf(number)))
                      .ok());
    }
    for (WorkerId worker = 0; worker < kWorkers; ++worker) {
      ASSERT_TRUE((*producer)
                      ->Send(topic, static_cast<int32_t>(worker), EncodeInputKey({rows[worker], 0}),
                             EncodeEnd(rows[worker]))
                      .ok());
    }
    ASSERT_TRUE((*producer)->Flush(std::chrono::seconds(20)).ok());
  }

  std::thread Server(Status& status, const std::atomic<bool>& stop,
                     const std::vector<ShardId>& ids = {}) {
    JobConfig config = config_;
    config.mutable_server()->mutable_server_ids()->Add(ids.begin(), ids.end());
    config.mutable_server()->set_data_dir(folder_ / "server");
    return std::thread([this, config, &status, &stop] {
      const auto registry = JobRegistry::Create(config, stop);
      status = registry.ok()
                   ? RunOneLayout(config, features_, training_, **registry, {}, {}, stop).status()
                   : registry.status();
    });
  }
  std::thread Worker(int number, Status& status, const std::atomic<bool>& stop) {
    JobConfig config = config_;
    config.mutable_worker()->set_data_dir(folder_ / ("worker-" + std::to_string(number)));
    config.mutable_worker()->set_evaluation_log(folder_ / ("worker" + std::to_string(number)));
    config.mutable_worker()->set_repeat_interval_s(0.5);
    return std::thread([this, config, &status, &stop] {
      const auto registry = JobRegistry::Create(config, stop);
      status = registry.ok()
                   ? RunWorkerOfLayout(config, features_, training_, **registry, std::nullopt, stop)
                         .status()
                   : registry.status();
    });
  }

  // All workers leave the shard, as those would that died before they left others.
  void LeaveAndWaitForItsEnd(ShardId shard, const std::atomic<bool>& stop) {
    auto producer = KafkaProducer::Create(cluster_.options(), {.client_id = "died"}, nullptr);
    ASSERT_TRUE(producer.ok()) << producer.status();
    Gradient leave;
    leave.set_epoch(config_.epoch());
    leave.mutable_leave();
    for (WorkerId worker = 0; worker < kWorkers; ++worker) {
      leave.set_worker(worker);
      ASSERT_TRUE((*producer)
                      ->Send(TopicName(config_.name(), Topic::kGradients),
                             static_cast<int32_t>(shard), EncodeBigEndian32(worker),
                             MakeFrames(leave.SerializeAsString(), 0).front())
                      .ok());
    }
    ASSERT_TRUE((*producer)->Flush(std::chrono::seconds(20)).ok());
    const auto registry = JobRegistry::Create(config_, stop);
    ASSERT_TRUE(registry.ok()) << registry.status();
    for (bool ended = false; !ended;) {
      const StatusOr<std::set<ShardId>> shards = (*registry)->ReadEnded();
      ASSERT_TRUE(shards.ok()) << shards.status();
      ended = shards->contains(shard);
    }
  }

  // The id of the first one in `gradients`; 0: none has come in time.
  uint64_t WaitForSnapshotRequest() {
    Wakeup wakeup;
    auto consumer =
        PartitionConsumer::Create(cluster_.options(), {.client_id = "requests"},
                                  TopicName(config_.name(), Topic::kGradients), &wakeup);
    EXPECT_TRUE(consumer.ok() && (*consumer)->Assign(0, 0).ok());
    uint64_t id = 0;
    ConsumerHandler handler;
    handler.on_record = [&id](const ConsumedRecord& record) {
      const StatusOr<Frame> frame = ParseFrame(record.value);
      Gradient request;
      if (id > 0 || !frame.ok()) return absl::OkStatus();
      if (!ParseMessage(frame->body, request).ok()) return absl::OkStatus();
      if (request.has_request_snapshot()) id = request.request_snapshot().number();
      return absl::OkStatus();
    };
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (id == 0 && std::chrono::steady_clock::now() < end) {
      EXPECT_TRUE((*consumer)->Poll(100, handler).ok());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_GT(id, 0u) << "nobody has asked for a snapshot";
    return id;
  }

  // Server and `processes` workers, undisturbed.
  void Run(int processes) {
    SendRows();
    std::atomic<bool> stop = false;
    std::vector<Status> statuses(static_cast<size_t>(processes) + 1);
    std::vector<std::thread> threads;
    threads.push_back(Server(statuses[0], stop));
    for (int i = 0; i < processes; ++i) {
      threads.push_back(Worker(i, statuses[static_cast<size_t>(i) + 1], stop));
    }
    for (std::thread& thread : threads) thread.join();
    for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
  }

  MockCluster cluster_;
  std::filesystem::path folder_;
  JobConfig config_;
  JobFeatures features_;
  JobTraining training_;
};

class WholeJobInEachMode : public WholeJobTest,
                           public testing::WithParamInterface<Training::Consistency::Model> {};

TEST_P(WholeJobInEachMode, EndsWithEveryRowTrainedOnAndItsFilesWritten) {
  Training::Consistency& consistency = *training_.mutable_training()->mutable_consistency();
  consistency.set_model(GetParam());
  if (GetParam() == Training::Consistency::BOUNDED) consistency.set_max_delay(2);
  Run(2);
  EXPECT_GT(BytesOf(folder_ / "weights.npy").size(), 128u);
  EXPECT_NE(BytesOf(folder_ / "server.csv"), "");
  EXPECT_NE(BytesOf(folder_ / "worker0") + BytesOf(folder_ / "worker1"), "");
}

INSTANTIATE_TEST_SUITE_P(Modes, WholeJobInEachMode,
                         testing::Values(Training::Consistency::SEQUENTIAL,
                                         Training::Consistency::EVENTUAL,
                                         Training::Consistency::BOUNDED));

TEST_F(WholeJobTest, TheBufferScheduleEndsAfterItsFurtherRounds) {
  training_.mutable_training()->set_schedule(Training::BUFFER);
  training_.mutable_training()->set_rounds_after_end(5);
  Run(2);
  EXPECT_GT(BytesOf(folder_ / "weights.npy").size(), 128u);
}

TEST_F(WholeJobTest, ShardsOfSeveralProcessesEndInTheWeightsOfOneShard) {
  const std::filesystem::path weights = folder_ / "weights.npy";
  Run(2);
  const std::string of_one = BytesOf(weights);
  std::filesystem::remove(weights);
  UseJob("sharded", 3);
  SendRows();
  std::atomic<bool> stop = false;
  std::vector<Status> statuses(4);
  std::vector<std::thread> threads;
  threads.push_back(Server(statuses[0], stop, {0, 2}));
  threads.push_back(Server(statuses[1], stop, {1}));
  for (int i = 0; i < 2; ++i)
    threads.push_back(Worker(i, statuses[2 + static_cast<size_t>(i)], stop));
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(BytesOf(weights), of_one);
}

// So a server must not go before every shard has ended: nobody would tell the new instance of the
// worker that it has left.
TEST_F(WholeJobTest, AWorkerThatDiedBetweenItsLeavesIsSucceededByOneThatLeavesTheOtherShards) {
  // So nobody follows the shards of the other.
  config_.mutable_server()->clear_weights_file();
  config_.mutable_server()->clear_test_file();
  config_.mutable_server()->set_snapshot_dir(folder_ / "snapshots");
  for (const ShardId left : std::vector<ShardId>{0, 1}) {
    UseJob("left-" + std::to_string(left), 2);
    SendRows(0);
    std::atomic<bool> stop = false;
    std::vector<Status> statuses(3);
    std::vector<std::thread> servers;
    for (const ShardId shard : std::vector<ShardId>{0, 1})
      servers.push_back(Server(statuses[shard], stop, {shard}));
    LeaveAndWaitForItsEnd(left, stop);
    Worker(0, statuses[2], stop).join();
    for (std::thread& server : servers) server.join();
    for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(std::filesystem::exists(ManifestPath(SnapshotFolder(config_, 0)))) << left;
  }
}

TEST_F(WholeJobTest, AServerThatWaitsForTheEndOfOthersCanBeStoppedAsAnyOther) {
  for (int i = 0; i < 3; ++i) {
    UseJob("stopped-" + std::to_string(i), 2);
    std::atomic<bool> stop = false;
    Status status;
    std::thread server = Server(status, stop, {1});
    LeaveAndWaitForItsEnd(1, stop);
    stop = true;
    server.join();
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
  }
}

// It asks the server of shard 0, which tells the others by way of the log.
TEST_F(WholeJobTest, ASignalAsksForASnapshotOfAllShardsOfTheRunningJob) {
  const std::filesystem::path snapshots = folder_ / "snapshots";
  config_.mutable_server()->set_snapshot_dir(snapshots);
  UseJob("signalled", 2);
  RequestSnapshotsOnSignal();
  std::atomic<bool> stop = false;
  std::vector<Status> statuses(3);
  std::vector<std::thread> threads;
  for (const ShardId shard : std::vector<ShardId>{0, 1})
    threads.push_back(Server(statuses[shard], stop, {shard}));
  ASSERT_EQ(std::raise(SIGUSR1), 0);
  const uint64_t id = WaitForSnapshotRequest();
  threads.push_back(Worker(0, statuses[2], stop));
  SendRows();
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(std::filesystem::exists(ManifestPath(SnapshotFolder(config_, id))));
  EXPECT_EQ(std::ranges::distance(std::filesystem::directory_iterator(snapshots)), 2)
      << "that one and the end's";
}

TEST_F(WholeJobTest, CopiesOfAReplicaMadeWhileItIsWrittenToAreStoresThatGoForward) {
  JobConfig config = config_;
  config.mutable_server()->set_data_dir(folder_ / "follower");
  config_.mutable_server()->set_checkpoint_interval_s(0.05);
  std::atomic<bool> done = false;
  int copies = 0;
  Offset last = 0;
  Replicator replicator(config, {0}, /*generation=*/1);
  std::thread copier([&] {
    // Once more after the end: at least one copy has all.
    for (bool again = true; again;) {
      again = !done;
      const StatusOr<Offset> offset = replicator.OffsetOf(0);
      if (absl::IsNotFound(offset.status())) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        continue;
      }
      ASSERT_TRUE(offset.ok()) << offset.status();
      const StatusOr<std::string> folder = replicator.Freeze(0);
      ASSERT_TRUE(folder.ok()) << folder.status();
      {
        const auto store = OpenRocksDb(*folder);
        ASSERT_TRUE(store.ok()) << store.status();
        const Offset copied = *ReadParametersOffset(**store);
        EXPECT_GE(copied, *offset) << "what was said before";
        EXPECT_GE(copied, last);
        last = copied;
      }
      std::filesystem::remove_all(*folder);
      ++copies;
    }
  });
  Run(1);
  while (!replicator.OffsetOf(0).ok()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  done = true;
  copier.join();
  EXPECT_GT(copies, 0);
  EXPECT_GT(last, 0);
  EXPECT_FALSE(replicator.OffsetOf(1).ok()) << "kept by nobody here";
}

TEST_F(WholeJobTest, ProcessesThatAreStoppedAndStartedAgainChangeNoWeight) {
  const std::filesystem::path weights = folder_ / "weights.npy";
  SendRows();
  for (int stops = 0; stops <= 2; ++stops) {
    std::filesystem::remove(weights);
    std::atomic<bool> stop = false;
    Status server;
    Status worker;
    std::thread first = Server(server, stop);
    std::thread second = Worker(0, worker, stop);
    // In the middle: after the first checkpoint, which writes the weights.
    while (stops < 2 && !std::filesystem::exists(weights)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    stop = stops < 2;
    first.join();
    second.join();
    ASSERT_TRUE(server.ok() || absl::IsCancelled(server)) << server;
    ASSERT_TRUE(worker.ok() || absl::IsCancelled(worker)) << worker;
  }
  const std::string interrupted = BytesOf(weights);
  ASSERT_NE(interrupted, "");

  UseJob("undisturbed");
  Run(2);
  EXPECT_EQ(BytesOf(weights), interrupted);
}

}  // namespace
}  // namespace millrace
