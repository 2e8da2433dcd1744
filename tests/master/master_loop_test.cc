#include "master/master_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "job/job_registry.h"
#include "master/job_view.h"
#include "master/master_requests.h"
#include "master/plan_reader.h"
#include "tests/kafka/mock_cluster.h"
#include "tests/kafka/until.h"
#include "topics/control_codec.h"
#include "topics/master_topics.h"
#include "topics/row_batch.h"
#include "topics/row_codec.h"
#include "topics/topics.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

// Processes that exist in this map only. Thread-safe: two masters may have it.
class Machine {
 public:
  struct Incarnation {
    ProcessName process;
    std::optional<ProcessEnd> end;
  };

  void Start(const ProcessOrder& order) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!known_.insert(order.incarnation()).second) return;
    ++starts_;
    all_[order.incarnation()] = {order.process(), std::nullopt};
    if (exits_at_once_) all_[order.incarnation()].end = Exit(*exits_at_once_);
  }
  void Stop(const ProcessOrder& order) {
    const std::lock_guard<std::mutex> lock(mutex_);
    known_.insert(order.incarnation());
    Incarnation& stopped = all_[order.incarnation()];
    stopped.process = order.process();
    if (!stopped.end) stopped.end = Exit(130);
  }
  StatusOr<std::vector<ProcessReport>> Look() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (is_out_of_sight_) return absl::InternalError("out of sight");
    std::vector<ProcessReport> reports;
    for (const auto& [number, incarnation] : all_) {
      ProcessReport& report = reports.emplace_back();
      *report.mutable_process() = incarnation.process;
      report.set_incarnation(number);
      if (incarnation.end) *report.mutable_end() = *incarnation.end;
    }
    return reports;
  }
  void Forget(const ProcessName& process, uint64_t before) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::erase_if(all_, [&](const auto& entry) {
      return entry.first < before && ToText(entry.second.process) == ToText(process);
    });
  }

  // For tests.
  void ExitAtOnce(int code) { exits_at_once_ = code; }
  // Ends the masters, and nothing else.
  void SetOutOfSight(bool is_out_of_sight) {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_out_of_sight_ = is_out_of_sight;
  }
  void End(const std::string& name, int code) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto& [number, incarnation] : all_) {
      if (ToText(incarnation.process) == name && !incarnation.end) incarnation.end = Exit(code);
    }
  }
  size_t running() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return static_cast<size_t>(
        std::ranges::count_if(all_, [](const auto& entry) { return !entry.second.end; }));
  }
  int starts() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return starts_;
  }

 private:
  static ProcessEnd Exit(int code) {
    ProcessEnd end;
    end.set_cause(ProcessEnd::EXITED);
    end.set_code(code);
    return end;
  }

  std::mutex mutex_;
  std::map<uint64_t, Incarnation> all_;
  std::set<uint64_t> known_;
  std::optional<int> exits_at_once_;
  int starts_ = 0;
  bool is_out_of_sight_ = false;
};

class MachineLauncher final : public Launcher {
 public:
  explicit MachineLauncher(Machine& machine) : machine_(machine) {}
  Status Start(const ProcessOrder& order) override {
    machine_.Start(order);
    return absl::OkStatus();
  }
  Status Stop(const ProcessOrder& order) override {
    machine_.Stop(order);
    return absl::OkStatus();
  }
  StatusOr<std::vector<ProcessReport>> Look() override { return machine_.Look(); }
  Status Forget(const ProcessName& process, uint64_t before) override {
    machine_.Forget(process, before);
    return absl::OkStatus();
  }
  Status Resync(const std::atomic<bool>& /*stop*/) override {
    ++resyncs_;
    return absl::OkStatus();
  }

  int resyncs() const { return resyncs_; }

 private:
  Machine& machine_;
  int resyncs_ = 0;
};

class MasterLoopTest : public testing::Test {
 protected:
  MasterLoopTest() {
    config_.set_name("mastered");
    config_.set_brokers(cluster_.options().brokers);
    for (const MasterTopic topic : kMasterTopics) {
      cluster_.CreateTopic(MasterTopicName("mastered", topic), 1);
    }
    ProcessGroup& group = *options_.plan.add_groups();
    group.set_name("worker");
    group.set_count(2);
    group.set_least(1);
    group.set_most_failures(1);
    group.add_command("/bin/true");
    options_.run_dir = "/run/mastered";
    options_.plan.set_run_dir(options_.run_dir);
  }

  using Outcome = StatusOr<JobProcesses>;
  std::future<Outcome> Start(const std::atomic<bool>& stop) {
    return std::async(std::launch::async, [this, &stop] {
      MachineLauncher launcher(machine_);
      MasterWakeup wakeup;
      return RunMaster(config_, options_, launcher, wakeup, stop);
    });
  }
  // What it has started runs on.
  void Kill(std::future<Outcome>& master) {
    machine_.SetOutOfSight(true);
    EXPECT_FALSE(master.get().ok());
    machine_.SetOutOfSight(false);
  }
  Outcome RunToItsEnd() { return Start(never_).get(); }
  Offset ControlEnd() {
    const auto reader = PartitionConsumer::Create(
        cluster_.options(), {}, MasterTopicName("mastered", MasterTopic::kControl), nullptr);
    return (*reader)->QueryRange(0, std::chrono::seconds(20))->end;
  }

  MockCluster cluster_;
  JobConfig config_;
  MasterOptions options_;
  Machine machine_;
  const std::atomic<bool> never_ = false;
};

TEST_F(MasterLoopTest, AJobEndsWhenAllProcessesHaveDoneTheirWork) {
  machine_.ExitAtOnce(0);
  const Outcome job = RunToItsEnd();
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->state.phase(), MasterState::ENDED);
  EXPECT_EQ(machine_.starts(), 2);
  EXPECT_TRUE(machine_.Look()->empty()) << "what is over is not forgotten";
  // Whoever reads the plan sees the same.
  const StatusOr<JobProcesses> read = ReadJobProcesses(config_, never_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->state.SerializeAsString(), job->state.SerializeAsString());
  // There is nothing to be done any more.
  EXPECT_EQ(RunToItsEnd()->state.phase(), MasterState::ENDED);
  EXPECT_EQ(machine_.starts(), 2);
}

TEST_F(MasterLoopTest, AJobFailsWithItsLastWorkerAndGoesOnWhenItIsMended) {
  machine_.ExitAtOnce(2);
  const Outcome failed = RunToItsEnd();
  ASSERT_TRUE(failed.ok()) << failed.status();
  EXPECT_EQ(failed->state.phase(), MasterState::FAILED);
  EXPECT_THAT(failed->state.failure(), HasSubstr("exit code 2"));
  machine_.ExitAtOnce(0);
  options_.plan.mutable_groups(0)->set_command(0, "/bin/mended");
  EXPECT_EQ(RunToItsEnd()->state.phase(), MasterState::ENDED);
}

TEST_F(MasterLoopTest, AStoppedMasterStopsItsProcessesAndTheNextOneStartsThemAgain) {
  std::atomic<bool> stop = false;
  std::future<Outcome> first = Start(stop);
  ASSERT_TRUE(Until([&] { return machine_.running() == 2; }));
  stop = true;
  EXPECT_EQ(first.get()->state.phase(), MasterState::STOPPED);
  EXPECT_EQ(machine_.running(), 0u);
  std::future<Outcome> second = Start(never_);
  ASSERT_TRUE(Until([&] { return machine_.running() == 2; }));
  machine_.End("worker-0", 0);
  machine_.End("worker-1", 0);
  EXPECT_EQ(second.get()->state.phase(), MasterState::ENDED);
  EXPECT_EQ(machine_.starts(), 4);
}

TEST_F(MasterLoopTest, AStopFromElsewhereDoesTheSame) {
  std::future<Outcome> master = Start(never_);
  ASSERT_TRUE(Until([&] { return machine_.running() == 2; }));
  const Outcome stopped = StopJob(config_, never_);
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  EXPECT_EQ(stopped->state.phase(), MasterState::STOPPED);
  EXPECT_EQ(master.get()->state.phase(), MasterState::STOPPED);
  EXPECT_EQ(machine_.running(), 0u);
}

TEST_F(MasterLoopTest, AStopFromElsewhereThatAPlanOverrulesIsSaidAgain) {
  std::future<Outcome> killed = Start(never_);
  ASSERT_TRUE(Until([&] { return machine_.running() == 2; }));
  Kill(killed);
  const Offset end = ControlEnd();
  std::future<Outcome> stopped =
      std::async(std::launch::async, [this] { return StopJob(config_, never_); });
  ASSERT_TRUE(Until([&] { return ControlEnd() > end; }));
  // This one says its plan behind the stop.
  std::future<Outcome> next = Start(never_);
  const Outcome job = stopped.get();
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->state.phase(), MasterState::STOPPED);
  EXPECT_EQ(next.get()->state.phase(), MasterState::STOPPED);
  EXPECT_EQ(machine_.running(), 0u);
}

TEST_F(MasterLoopTest, AStopThatNoMasterHasHeardOfDoesNotRestartWhatRuns) {
  std::future<Outcome> killed = Start(never_);
  ASSERT_TRUE(Until([&] { return machine_.running() == 2; }));
  Kill(killed);
  ControlRecord stop;
  stop.set_epoch(config_.epoch());
  stop.mutable_stop();
  auto producer = KafkaProducer::Create(cluster_.options(), {.client_id = "writer"}, nullptr);
  ASSERT_TRUE((*producer)->Send("mastered.control", 0, "", EncodeControl(stop)).ok());
  ASSERT_TRUE((*producer)->Flush(std::chrono::seconds(20)).ok());
  const Offset end = ControlEnd();
  std::future<Outcome> next = Start(never_);
  ASSERT_TRUE(Until([&] { return ReadJobProcesses(config_, never_)->state.next_offset() > end; }));
  machine_.End("worker-0", 0);
  machine_.End("worker-1", 0);
  EXPECT_EQ(next.get()->state.phase(), MasterState::ENDED);
  EXPECT_EQ(machine_.starts(), 2);
}

TEST_F(MasterLoopTest, AMasterThatDoesNotSeeWhatRunsDoesNotStartItTwice) {
  std::future<Outcome> master = Start(never_);
  ASSERT_TRUE(Until([&] {
    const StatusOr<JobProcesses> job = ReadJobProcesses(config_, never_);
    return job.ok() && job->processes.size() == 2 &&
           std::ranges::all_of(job->processes, [](const ProcessState& process) {
             return process.phase() == ProcessState::RUNNING;
           });
  }));
  Machine another;
  MachineLauncher launcher(another);
  MasterWakeup wakeup;
  const Outcome elsewhere = RunMaster(config_, options_, launcher, wakeup, never_);
  EXPECT_TRUE(absl::IsFailedPrecondition(elsewhere.status())) << elsewhere.status();
  EXPECT_THAT(std::string(elsewhere.status().message()), HasSubstr("--run-dir-is-lost"));
  MasterOptions moved = options_;
  moved.run_dir = "/run/moved";
  const Outcome lost = RunMaster(config_, moved, launcher, wakeup, never_);
  EXPECT_THAT(std::string(lost.status().message()), HasSubstr("give --run-dir /run/mastered"));
  MasterOptions in_cluster = options_;
  in_cluster.place = "the namespace elsewhere";
  const Outcome no_pods = RunMaster(config_, in_cluster, launcher, wakeup, never_);
  EXPECT_TRUE(absl::IsFailedPrecondition(no_pods.status())) << no_pods.status();
  EXPECT_THAT(std::string(no_pods.status().message()),
              HasSubstr("the namespace elsewhere has no pod of the processes"));
  EXPECT_EQ(another.starts(), 0);
  // The first one goes on.
  machine_.End("worker-0", 0);
  machine_.End("worker-1", 0);
  EXPECT_EQ(master.get()->state.phase(), MasterState::ENDED);
}

TEST_F(MasterLoopTest, ANewMasterSeesWhatTheLastOneStartedBeforeItMissesAnything) {
  machine_.ExitAtOnce(0);
  MachineLauncher launcher(machine_);
  MasterWakeup wakeup;
  ASSERT_TRUE(RunMaster(config_, options_, launcher, wakeup, never_).ok());
  EXPECT_EQ(launcher.resyncs(), 1);
}

TEST_F(MasterLoopTest, RecordsOfStrangersHarmNobody) {
  auto stranger = KafkaProducer::Create(cluster_.options(), {.client_id = "stranger"}, nullptr);
  ASSERT_TRUE(stranger.ok());
  ControlRecord stop;  // of another epoch
  stop.set_epoch(config_.epoch() + 1);
  stop.mutable_stop();
  for (const std::string& value : {std::string("no record"), std::string(), EncodeControl(stop)}) {
    ASSERT_TRUE((*stranger)->Send("mastered.control", 0, "", value).ok());
  }
  ASSERT_TRUE((*stranger)->Flush(std::chrono::seconds(20)).ok());
  machine_.ExitAtOnce(0);
  const Outcome job = RunToItsEnd();
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->state.phase(), MasterState::ENDED);
  EXPECT_EQ(job->state.unusable(), 3u);
}

TEST_F(MasterLoopTest, APlanThatIsNoneIsAnErrorWithTheRemedy) {
  auto stranger = KafkaProducer::Create(cluster_.options(), {.client_id = "stranger"}, nullptr);
  ASSERT_TRUE((*stranger)->Send("mastered.plan", 0, "state", "no state").ok());
  ASSERT_TRUE((*stranger)->Flush(std::chrono::seconds(20)).ok());
  const Outcome job = RunToItsEnd();
  EXPECT_FALSE(job.ok());
  EXPECT_EQ(machine_.starts(), 0);
}

TEST_F(MasterLoopTest, WithoutAMasterNothingIsShown) {
  const StatusOr<JobProcesses> job = ReadJobProcesses(config_, never_);
  EXPECT_TRUE(absl::IsFailedPrecondition(job.status())) << job.status();
  EXPECT_THAT(std::string(job.status().message()), HasSubstr("no MasterApp has run the job"));
}

// A job that leases rows, on two partitions, and whoever writes to its topics.
class LeasingMasterLoopTest : public MasterLoopTest {
 protected:
  LeasingMasterLoopTest() {
    config_.set_workers(2);
    options_.leases_rows = true;
    options_.lease_rows = 10;
    cluster_.CreateTopic(TopicName("mastered", Topic::kJob), 1);
    cluster_.CreateTopic(TopicName("mastered", Topic::kInputData), 2);
  }

  void Publish(Training::Sharding sharding) {
    JobFeatures features;
    features.set_epoch(config_.epoch());
    features.set_workers(2);
    features.set_feature_count(1);
    features.mutable_spec()->add_numeric("x");
    features.mutable_spec()->add_classes("a");
    features.mutable_spec()->add_classes("b");
    JobTraining training;
    training.set_epoch(config_.epoch());
    training.set_shards(1);
    training.mutable_training()->set_sharding(sharding);
    const auto registry = JobRegistry::Create(config_, never_);
    ASSERT_TRUE((*registry)->PublishFeatures(features).ok());
    ASSERT_TRUE((*registry)->PublishTraining(training).ok());
  }
  void Send(const std::string& topic, int32_t partition, const std::string& key,
            const std::string& value) {
    auto producer = KafkaProducer::Create(cluster_.options(), {.client_id = "writer"}, nullptr);
    ASSERT_TRUE((*producer)->Send(topic, partition, key, value).ok());
    ASSERT_TRUE((*producer)->Flush(std::chrono::seconds(20)).ok());
  }
  // Records of ten rows, from `number` on in their partition; or behind so many the end.
  void SendRows(int32_t partition, uint64_t number, uint64_t count = 1) {
    RowBatchEncoder rows;
    for (int i = 0; i < 10; ++i) rows.Add({0, {1.5}, {}, {}});
    const std::string value = EncodeRows(rows);
    auto producer = KafkaProducer::Create(cluster_.options(), {.client_id = "writer"}, nullptr);
    for (const uint64_t end = number + count; number < end; ++number) {
      const std::string key = EncodeInputKey({RowNumber(10 * number), 10});
      ASSERT_TRUE((*producer)->Send("mastered.input-data", partition, key, value).ok());
    }
    ASSERT_TRUE((*producer)->Flush(std::chrono::seconds(20)).ok());
  }
  void SendEnd(int32_t partition, uint64_t records) {
    const RowNumber rows(10 * records);
    Send("mastered.input-data", partition, EncodeInputKey({rows, 0}), EncodeEnd(rows));
  }
  void SendCounted(uint32_t worker, uint64_t rows, uint64_t clock) {
    ControlRecord record;
    record.set_epoch(config_.epoch());
    LeaseCommand::Counted::Worker& counted =
        *record.mutable_lease()->mutable_counted()->add_worker();
    counted.set_worker(worker);
    counted.set_rows(rows);
    counted.set_clock(clock);
    Send("mastered.control", 0, "", EncodeControl(record));
  }
  // Until the plan says so of the leases.
  bool PlanSays(const std::function<bool(const JobLeases&)>& what) {
    return Until([&] {
      const StatusOr<JobProcesses> job = ReadJobProcesses(config_, never_);
      return job.ok() && job->leases && what(*job->leases);
    });
  }
};

TEST_F(LeasingMasterLoopTest, TheRowsThatComeAreLeasedAlsoByTheNextMaster) {
  std::future<Outcome> first = Start(never_);
  ASSERT_TRUE(Until([&] { return machine_.running() == 2; }));
  Publish(Training::DYNAMIC);
  ASSERT_TRUE(PlanSays([](const JobLeases& leases) { return leases.workers.size() == 2; }));
  for (const uint64_t number : {0, 1, 2}) SendRows(0, number);
  ASSERT_TRUE(PlanSays([](const JobLeases& leases) { return leases.cut_rows == 30; }));
  Kill(first);
  // It goes on behind what was cut.
  std::future<Outcome> second = Start(never_);
  SendRows(1, 0);
  SendRows(0, 3);
  SendEnd(0, 4);
  SendEnd(1, 1);
  ASSERT_TRUE(PlanSays([](const JobLeases& leases) {
    return leases.ended && leases.cut_rows == 50 && leases.workers[0].last();
  }));
  SendCounted(0, 30, 3);
  ASSERT_TRUE(PlanSays([](const JobLeases& leases) {
    return leases.workers[0].counted_rows() + leases.workers[1].counted_rows() == 30;
  }));
  const StatusOr<JobProcesses> job = ReadJobProcesses(config_, never_);
  EXPECT_EQ(job->leases->workers[0].next_row() + job->leases->workers[1].next_row(), 50u);
  EXPECT_EQ(job->leases->free_ranges, 0u);
  EXPECT_EQ(job->state.unusable(), 0u);
  machine_.End("worker-0", 0);
  machine_.End("worker-1", 0);
  EXPECT_EQ(second.get()->state.phase(), MasterState::ENDED);
}

TEST_F(LeasingMasterLoopTest, GoesOnBehindACutOfSomebodyElse) {
  constexpr uint64_t kRecords = 400;  // more than it looks at before it waits for workers
  options_.lease_rows = 100;
  SendRows(0, 0, kRecords);
  SendEnd(0, kRecords);
  SendEnd(1, 0);
  Publish(Training::DYNAMIC);
  std::future<Outcome> master = Start(never_);
  // Then it cuts no further until workers have got on.
  ASSERT_TRUE(PlanSays([](const JobLeases& leases) { return leases.free_ranges >= 4; }));
  const uint64_t row = ReadJobProcesses(config_, never_)->leases->cut_rows;
  ControlRecord record;
  record.set_epoch(config_.epoch());
  LeaseCommand::Cut& cut = *record.mutable_lease()->mutable_cut();
  cut.set_begin(row);
  cut.set_end(row + 10);
  cut.set_next_offset(static_cast<int64_t>(row / 10 + 1));
  Send("mastered.control", 0, "", EncodeControl(record));
  ASSERT_TRUE(PlanSays([&](const JobLeases& leases) { return leases.cut_rows == row + 10; }));
  ASSERT_TRUE(PlanSays([&](const JobLeases& leases) {
    for (const WorkerLeases& worker : leases.workers) {
      if (worker.open_size() == 0) continue;
      SendCounted(worker.worker(), worker.next_row(), worker.next_row());
    }
    return leases.ended;
  }));
  const StatusOr<JobProcesses> job = ReadJobProcesses(config_, never_);
  EXPECT_EQ(job->leases->cut_rows, 10 * kRecords);
  EXPECT_EQ(job->state.unusable(), 0u);
  machine_.End("worker-0", 0);
  machine_.End("worker-1", 0);
  EXPECT_EQ(master.get()->state.phase(), MasterState::ENDED);
}

TEST_F(LeasingMasterLoopTest, AJobThatWasBegunWithoutLeasesIsAnErrorWithTheRemedy) {
  Publish(Training::STATIC);
  const Outcome job = RunToItsEnd();
  EXPECT_TRUE(absl::IsFailedPrecondition(job.status())) << job.status();
  EXPECT_THAT(std::string(job.status().message()), HasSubstr("--sharding static"));
}

TEST_F(LeasingMasterLoopTest, RowsThatAreMissingAreAnErrorThatNamesThePlace) {
  Publish(Training::DYNAMIC);
  std::future<Outcome> master = Start(never_);
  ASSERT_TRUE(PlanSays([](const JobLeases& leases) { return leases.workers.size() == 2; }));
  SendRows(1, 3);
  const Outcome job = master.get();
  EXPECT_TRUE(absl::IsDataLoss(job.status())) << job.status();
  EXPECT_THAT(std::string(job.status().message()),
              HasSubstr("partition 1, offset 0: found row 30 where row 0 was expected"));
}

}  // namespace
}  // namespace millrace
