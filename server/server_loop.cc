#include "server/server_loop.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "durability/replicas/followed_shard.h"
#include "durability/replicas/peer_replicas.h"
#include "durability/replicas/replicator.h"
#include "durability/snapshots/snapshot_request.h"
#include "durability/snapshots/snapshot_taker.h"
#include "formats/npy_file.h"
#include "job/evaluation_log.h"
#include "job/job_registry.h"
#include "job/kafka_options.h"
#include "job/record_sender.h"
#include "job/stop_signal.h"
#include "kafka/broker_retry.h"
#include "kafka/consumer.h"
#include "kafka/timeouts.h"
#include "server/evaluator.h"
#include "server/hosted_shard.h"
#include "server/recovery_report.h"
#include "server/server_metrics.h"
#include "tasks/task_options.h"
#include "topics/partitioning.h"
#include "topics/replica_placement.h"
#include "topics/topics.h"

namespace millrace {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;
using std::chrono::milliseconds;

constexpr milliseconds kMetricsEvery(250);
constexpr size_t kRecordsAtOnce = 256;

std::chrono::duration<double> Seconds(double seconds) {
  return std::chrono::duration<double>(seconds);
}

// What is written at the end has to be known to fail at the start.
Status CheckFolderExists(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path();
  if (folder.empty()) folder = ".";
  if (access(folder.c_str(), W_OK | X_OK) == 0 && !std::filesystem::is_directory(path)) {
    return absl::OkStatus();
  }
  return absl::NotFoundError(path + " cannot be written: there is no folder " + folder +
                             " in which this user may write, or a folder of that name");
}

// Evaluations come from another thread; the loop sends them.
class PointQueue {
 public:
  void Push(OutgoingRecord record) {
    const std::lock_guard<std::mutex> lock(mutex_);
    records_.push_back(std::move(record));
  }
  void MoveTo(std::vector<OutgoingRecord>& out) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::move(records_.begin(), records_.end(), std::back_inserter(out));
    records_.clear();
  }

 private:
  std::mutex mutex_;
  std::vector<OutgoingRecord> records_;
};

class ServerLoop {
 public:
  ServerLoop(const JobConfig& config, const JobFeatures& features, const JobTraining& training,
             const std::atomic<bool>& stop)
      : config_(config),
        features_(features),
        training_(training),
        shape_(RowShapeFrom(features)),
        model_(MakeModel(features, training.training())),
        stop_(stop),
        broker_retry_(stop, config.broker_timeout_s()) {}

  Status Run() {
    MILLRACE_RETURN_IF_ERROR(Open());
    // A call that was waiting for a broker when the stop came ends as the loop does.
    Status status = Loop();
    if (!status.ok() && !(stop_ && absl::IsCancelled(status))) return status;
    return Close();
  }

 private:
  Status Loop() {
    while (!stop_) {
      MILLRACE_ASSIGN_OR_RETURN(size_t events, gradients_->Poll(kRecordsAtOnce, handler_));
      for (auto& [shard, followed] : followed_) {
        MILLRACE_ASSIGN_OR_RETURN(const size_t taken, followed->Poll());
        events += taken;
      }
      MILLRACE_RETURN_IF_ERROR(AnnounceReplayed());
      if (sender_->DeliveryFailed()) MILLRACE_RETURN_IF_ERROR(AnnounceAll());
      MILLRACE_RETURN_IF_ERROR(sender_->Send(out_));
      MILLRACE_RETURN_IF_ERROR(RunPeriodicTasks());
      MILLRACE_ASSIGN_OR_RETURN(const bool job_ended, JobEnded());
      if (job_ended && !config_.server().stay()) break;
      if (events == 0) wakeup_.WaitFor(kIdleWait);
    }
    return absl::OkStatus();
  }

  Status Open() {
    MILLRACE_ASSIGN_OR_RETURN(
        sender_, RecordSender::Create(config_, "server",
                                      {Topic::kWeights, Topic::kMetrics, Topic::kGradients},
                                      broker_retry_, &wakeup_));
    ConsumerOptions options;
    options.client_id = "server";
    MILLRACE_ASSIGN_OR_RETURN(
        gradients_,
        PartitionConsumer::Create(ToKafkaOptions(config_), options,
                                  TopicName(config_.name(), Topic::kGradients), &wakeup_));
    MILLRACE_ASSIGN_OR_RETURN(const ReplicaTls tls, ReadReplicaTls(config_));
    std::vector<ShardId> ids;
    for (ShardId shard = 0; shard < training_.shards(); ++shard) {
      if (IsHosted(shard)) ids.push_back(shard);
    }
    PeerReplicas peers(config_, tls, ids, stop_);
    const FetchCopy fetch = [&peers](ShardId shard, const std::string& folder) {
      return peers.Fetch(shard, folder);
    };
    for (const ShardId shard : ids) {
      const ServerOptions options = HostedOptions(shard);
      MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<HostedShard> hosted,
                                HostedShard::Open(config_, options, fetch, &wakeup_, stop_));
      const auto partition = static_cast<int32_t>(shard);
      MILLRACE_ASSIGN_OR_RETURN(const PartitionConsumer::Range range, broker_retry_.Run([&] {
        return gradients_->QueryRange(partition, kBrokerCall);
      }));
      MILLRACE_RETURN_IF_ERROR(
          hosted->StartReplay(config_, options, training_.start(), range.begin, range.end));
      MILLRACE_RETURN_IF_ERROR(gradients_->Assign(partition, hosted->task().gradients_position()));
      spdlog::info("shard {}: restored up to gradient {} of {} in {:.2f} s", shard,
                   hosted->task().position(), range.end,
                   recoveries_.Restored(shard, hosted->phases(), std::chrono::steady_clock::now()));
      lost_[shard] = hosted->task().processor().state_lost();
      if (lost_[shard]) {
        spdlog::warn(
            "shard {}: NO COPY OF IT IS LEFT. It waits until all {} workers have said what weights "
            "they have, and goes on from the newest. Its optimizer state, its embedding rows and "
            "what it had counted are lost (--weights-from-workers)",
            shard, config_.workers());
      }
      shards_[shard] = std::move(hosted);
    }
    handler_.on_record = [this](const ConsumedRecord& record) -> Status {
      HostedShard& hosted = *shards_.at(static_cast<ShardId>(record.partition));
      MILLRACE_RETURN_IF_ERROR(hosted.task().ProcessGradient(
          {record.offset, record.key, record.value, record.timestamp_ms}, out_));
      return hosted.task().snapshot() ? SaveAtCut(hosted) : absl::OkStatus();
    };
    handler_.on_out_of_range = [](int32_t partition) {
      return absl::DataLossError(
          "gradients, partition " + std::to_string(partition) +
          ": the records to be read next were deleted. Another instance of this shard may have "
          "gone ahead: start this one again");
    };
    MILLRACE_RETURN_IF_ERROR(StartReplicas(ids, tls));
    return OpenAllWeights();
  }

  ServerOptions HostedOptions(ShardId shard) const {
    ServerOptions options = MakeServerOptions(features_, training_, shard);
    options.weights_from_workers = config_.server().weights_from_workers();
    if (options.embeddings) {
      const Server& server = config_.server();
      constexpr uint32_t kScratchPerCache = 16;
      const size_t scratch_mib = server.has_embedding_scratch_mib()
                                     ? size_t{server.embedding_scratch_mib()}
                                     : size_t{kScratchPerCache} * server.embedding_cache_mib();
      options.embeddings->cache_bytes = size_t{server.embedding_cache_mib()} << 20;
      options.embeddings->scratch_bytes = scratch_mib << 20;
      options.embeddings->scratch_folder = server.data_dir();
    }
    return options;
  }

  void WarnOfMissingReplicas(const std::vector<ShardId>& hosted) const {
    const uint32_t wanted = config_.server().replicas();
    for (ShardId shard = 0; shard < training_.shards(); ++shard) {
      const uint32_t missing = ReplicasMissing(shard, hosted, training_.shards(), wanted);
      if (missing == 0) continue;
      spdlog::warn(
          "shard {} has {} of its {} replicas less: servers behind it are this one process, which "
          "keeps one copy of a shard and none of its own; give each its process (--server-ids)",
          shard, missing, wanted);
    }
  }

  Status StartReplicas(const std::vector<ShardId>& hosted, const ReplicaTls& tls) {
    WarnOfMissingReplicas(hosted);
    const std::vector<ShardId> followed =
        ReplicatedBy(hosted, training_.shards(), config_.server().replicas());
    if (followed.empty()) return absl::OkStatus();
    replicator_ = std::make_unique<Replicator>(config_, followed);
    MILLRACE_ASSIGN_OR_RETURN(replica_server_,
                              ServeReplicas(config_, tls, hosted, followed, *replicator_, stop_));
    return absl::OkStatus();
  }

  bool IsHosted(ShardId shard) const {
    const auto& ids = config_.server().server_ids();
    return ids.empty() || std::find(ids.begin(), ids.end(), shard) != ids.end();
  }

  // Evaluation and the weights file need all shards: the process of shard 0 follows those of
  // others.
  Status OpenAllWeights() {
    const Server& server = config_.server();
    if (!server.has_test_file() && !server.has_weights_file()) return absl::OkStatus();
    if (!IsHosted(0)) {
      spdlog::info("evaluation and the weights file are the business of the process of shard 0");
      return absl::OkStatus();
    }
    if (server.has_weights_file())
      MILLRACE_RETURN_IF_ERROR(CheckFolderExists(server.weights_file()));
    MILLRACE_RETURN_IF_ERROR(OpenEvaluation());
    const std::vector<EmbeddingId> ids =
        evaluator_ ? evaluator_->ids() : std::vector<EmbeddingId>();
    for (ShardId shard = 0; shard < training_.shards(); ++shard) {
      if (IsHosted(shard)) continue;
      MILLRACE_ASSIGN_OR_RETURN(
          followed_[shard],
          FollowedShard::Create(config_, MakeServerOptions(features_, training_, shard), ids,
                                &wakeup_, stop_));
    }
    return absl::OkStatus();
  }

  Status OpenEvaluation() {
    const Server& server = config_.server();
    if (!server.has_test_file()) return absl::OkStatus();
    MILLRACE_ASSIGN_OR_RETURN(TestSet test_set, ReadTestSet(server.test_file(), features_.spec()));
    if (test_set.rejected > 0) {
      spdlog::warn("{}: {} rows cannot be used; the first is {}", server.test_file(),
                   test_set.rejected, test_set.first_reject);
    }
    if (server.has_evaluation_log()) {
      MILLRACE_ASSIGN_OR_RETURN(evaluation_log_,
                                EvaluationLog::Open(server.evaluation_log(), false));
    }
    evaluator_ = std::make_unique<Evaluator>(
        std::move(test_set), *model_, shape_.classes,
        training_.training().scaling() == Training::RUNNING,
        [this](const EvaluationInput& snapshot, const EvaluationFigures& figures) {
          if (evaluation_log_) evaluation_log_->Write(NowMs(), 0, snapshot.clock, figures);
          points_.Push(EvaluationPoint(0, snapshot.clock, figures, snapshot.last));
        });
    return absl::OkStatus();
  }

  bool AllLeft() const {
    return std::all_of(shards_.begin(), shards_.end(),
                       [](const auto& entry) {
                         return entry.second->task().replayed() &&
                                entry.second->task().processor().AllLeft();
                       }) &&
           std::all_of(followed_.begin(), followed_.end(), [](const auto& entry) {
             return entry.second->caught_up() && entry.second->processor().AllLeft();
           });
  }

  // A shard that has caught up with the log as it was at its start answers everybody.
  Status AnnounceReplayed() {
    for (auto& [shard, hosted] : shards_) {
      if (announced_[shard] || !hosted->task().replayed()) continue;
      announced_[shard] = true;
      MILLRACE_RETURN_IF_ERROR(hosted->task().Announce(out_));
      spdlog::info("shard {}: answers from gradient {} on ({} replayed)", shard,
                   hosted->task().position(), hosted->task().replayed_records());
      recoveries_.Answered(shard, hosted->task().replayed_records(),
                           std::chrono::steady_clock::now());
    }
    return absl::OkStatus();
  }

  // Says when workers have given a lost shard its weights.
  void ReportRestored() {
    for (auto& [shard, hosted] : shards_) {
      if (!lost_[shard] || hosted->task().processor().state_lost()) continue;
      lost_[shard] = false;
      spdlog::warn("shard {}: goes on from the weights of a worker, at round {}", shard,
                   hosted->task().processor().steps());
    }
  }

  Status AnnounceAll() {
    for (auto& [shard, hosted] : shards_) {
      if (announced_[shard]) MILLRACE_RETURN_IF_ERROR(hosted->task().Announce(out_));
    }
    return absl::OkStatus();
  }

  // Before anything else is folded: what the store has then is the cut.
  Status SaveAtCut(HostedShard& hosted) {
    const uint64_t id = *hosted.task().snapshot();
    MILLRACE_RETURN_IF_ERROR(hosted.FinalCheckpoint());
    if (hosted.task().saved()) {
      snapshots_.WritePart(id, HostedOptions(hosted.shard()), hosted.task().processor(),
                           hosted.store(), std::chrono::steady_clock::now());
    } else {
      spdlog::warn("shard {}: no part of snapshot {}: its checkpoint is not durable",
                   hosted.shard(), id);
    }
    return hosted.task().LeaveCut(out_);
  }

  void AdvanceSnapshots(SteadyTime now) {
    if (IsHosted(0) && TakeSnapshotRequest()) {
      spdlog::info("a snapshot is asked for");
      out_.push_back(SnapshotRequest(config_, static_cast<uint64_t>(NowMs())));
    }
    for (auto& [shard, hosted] : shards_) {
      snapshots_.Tick(shard, hosted->task().processor(), now, out_);
    }
  }

  // The end is a cut, too.
  void SaveAtEnd() {
    if (!config_.server().has_snapshot_dir()) return;
    for (auto& [shard, hosted] : shards_) {
      if (!hosted->task().saved()) continue;
      snapshots_.WritePart(0, HostedOptions(shard), hosted->task().processor(), hosted->store(),
                           std::chrono::steady_clock::now());
    }
  }

  Status RunPeriodicTasks() {
    const SteadyTime now = std::chrono::steady_clock::now();
    AdvanceSnapshots(now);
    for (auto& [shard, hosted] : shards_) {
      MILLRACE_ASSIGN_OR_RETURN(const bool durable, hosted->Checkpoint(now));
      if (durable && config_.server().weights_at_checkpoints()) {
        MILLRACE_RETURN_IF_ERROR(SaveWeights());
      }
    }
    if (now >= next_metrics_) {
      next_metrics_ = now + kMetricsEvery;
      PublishProgress(ended_);
    }
    if (evaluator_ && !ended_ && evaluator_->idle() && now >= next_evaluation_) {
      next_evaluation_ = now + std::chrono::duration_cast<milliseconds>(
                                   Seconds(config_.server().evaluation_interval_s()));
      MILLRACE_RETURN_IF_ERROR(OfferEvaluation(false));
    }
    points_.MoveTo(out_);
    ReportWaiting(now);
    recoveries_.Tick(now);
    ReportRestored();
    return sender_->Send(out_);
  }

  void PublishProgress(bool ended) {
    for (auto& [shard, hosted] : shards_) {
      if (!hosted->task().replayed()) continue;
      out_.push_back(ProgressPoint(hosted->task(), training_, shape_.classes, ended,
                                   recoveries_.point(shard)));
    }
  }

  // The weights of all shards, if they are all here.
  bool GatherWeights(std::vector<float>& parameters) const {
    if (shards_.size() + followed_.size() != training_.shards()) return false;
    parameters.resize(model_->parameter_count());
    const auto copy = [&](const ParameterShard& part) {
      std::copy(part.weights().begin(), part.weights().end(),
                parameters.begin() + static_cast<ptrdiff_t>(part.range().begin));
    };
    for (const auto& [shard, hosted] : shards_) copy(hosted->task().processor().shard());
    for (const auto& [shard, followed] : followed_) {
      if (!followed->caught_up()) return false;
      copy(followed->processor().shard());
    }
    return true;
  }

  // The embedding rows of the test set, of all shards.
  Status GatherRows(std::vector<float>& rows) {
    const std::vector<EmbeddingId>& ids = evaluator_->ids();
    const size_t width = model_->row_width();
    const std::vector<std::vector<EmbeddingId>> wanted = SplitByShard(ids, training_.shards());
    std::vector<std::vector<float>> values(training_.shards());
    for (ShardId shard = 0; shard < training_.shards(); ++shard) {
      const ServerProcessor& processor = IsHosted(shard) ? shards_.at(shard)->task().processor()
                                                         : followed_.at(shard)->processor();
      values[shard].resize(wanted[shard].size() * width);
      MILLRACE_RETURN_IF_ERROR(processor.ReadEmbeddings(wanted[shard], values[shard]));
    }
    rows.clear();
    std::vector<size_t> taken(training_.shards());
    for (const EmbeddingId id : ids) {
      const ShardId shard = ShardOfEmbedding(id, training_.shards());
      const float* const row = values[shard].data() + taken[shard]++ * width;
      rows.insert(rows.end(), row, row + width);
    }
    return absl::OkStatus();
  }

  Status OfferEvaluation(bool last) {
    EvaluationInput snapshot;
    if (!GatherWeights(snapshot.parameters)) return absl::OkStatus();
    if (model_->row_width() > 0) MILLRACE_RETURN_IF_ERROR(GatherRows(snapshot.rows));
    const ServerProcessor& first = shards_.at(0)->task().processor();
    for (const auto& [worker, entry] : first.clocks().entries()) {
      snapshot.clock = std::max(snapshot.clock, entry.clock);
    }
    snapshot.moments = first.moments();
    snapshot.last = last;
    evaluator_->Offer(std::move(snapshot));
    return absl::OkStatus();
  }

  Status SaveWeights() const {
    if (!config_.server().has_weights_file() || !IsHosted(0)) return absl::OkStatus();
    std::vector<float> parameters;
    if (!GatherWeights(parameters)) {
      spdlog::warn("{} is not written: not all shards' weights have come",
                   config_.server().weights_file());
      return absl::OkStatus();
    }
    const std::string& path = config_.server().weights_file();
    const size_t width = model_->block_size();
    MILLRACE_RETURN_IF_ERROR(WriteNpy(path, parameters, parameters.size() / width, width));
    const Moments& moments = shards_.at(0)->task().processor().moments();
    if (moments.columns() == 0) return absl::OkStatus();
    std::vector<double> rows = moments.count;
    rows.insert(rows.end(), moments.mean.begin(), moments.mean.end());
    rows.insert(rows.end(), moments.m2.begin(), moments.m2.end());
    return WriteNpy(path + ".scaling.npy", rows, 3, moments.columns());
  }

  // A sequential round waits for its slowest worker: people want to know for which one.
  void ReportWaiting(SteadyTime now) {
    for (auto& [shard, hosted] : shards_) {
      const std::vector<WorkerId> missing = hosted->task().processor().WaitedFor();
      Waiting& waiting = waiting_[shard];
      const bool lost = hosted->task().processor().state_lost();
      // (What is said to a lost shard again and again is no progress.)
      const Offset position = lost ? 0 : hosted->task().position();
      if ((missing.empty() && !lost) || waiting.position != position) {
        waiting = {position, now, now};
        continue;
      }
      const std::chrono::duration<double> every(config_.server().waiting_report_s());
      if (now - waiting.reported < every) continue;
      waiting.reported = now;
      if (missing.empty()) {
        spdlog::warn(
            "shard {}: no worker has weights of it: each started after the shard had gone. The job "
            "cannot go on; start a new one (another name)",
            shard);
        continue;
      }
      std::string names;
      for (WorkerId worker : missing) names += " " + std::to_string(worker);
      const std::chrono::duration<double> since = now - waiting.since;
      spdlog::warn("shard {}: waiting for worker{} since {:.0f} s", shard, names, since.count());
    }
  }

  // Whether every worker has left every shard of the job, also those of other processes. Until then
  // this one stays: a new instance of a worker that has left some shards only asks all of them.
  StatusOr<bool> JobEnded() {
    if (job_ended_ || !AllLeft()) return job_ended_;
    const SteadyTime now = std::chrono::steady_clock::now();
    if (now < next_board_) return false;
    next_board_ = now + kBoardEveryAtTheEnd;
    if (!ended_) MILLRACE_RETURN_IF_ERROR(EndShards());
    const StatusOr<std::set<ShardId>> ended = board_->ReadEnded();
    // --broker-timeout is for those that begin: here all is done, and somebody may still ask.
    const bool is_away =
        absl::IsUnavailable(ended.status()) || absl::IsDeadlineExceeded(ended.status());
    if (is_away) return false;
    MILLRACE_RETURN_IF_ERROR(ended.status());
    job_ended_ = ended->size() == training_.shards();
    if (job_ended_) {
      snapshots_.Finish();  // each part was there before its shard had ended
      spdlog::info("every worker has left: the job has ended");
    } else if (now >= next_word_of_others_) {
      next_word_of_others_ = now + std::chrono::duration_cast<milliseconds>(
                                       Seconds(config_.server().waiting_report_s()));
      SayWhoHasNotEnded(*ended);
    }
    return job_ended_;
  }

  void SayWhoHasNotEnded(const std::set<ShardId>& ended) const {
    std::string shards;
    for (ShardId shard = 0; shard < training_.shards(); ++shard) {
      if (!ended.contains(shard)) shards += (shards.empty() ? "" : ", ") + std::to_string(shard);
    }
    spdlog::info("every worker has left the shards here; waiting for the end of others: {}",
                 shards);
  }

  Status EndShards() {
    ended_ = true;
    if (evaluator_) {
      MILLRACE_RETURN_IF_ERROR(OfferEvaluation(true));
      evaluator_->Finish();
      points_.MoveTo(out_);
    }
    for (auto& [shard, hosted] : shards_) {
      MILLRACE_RETURN_IF_ERROR(hosted->FinalCheckpoint());
    }
    MILLRACE_RETURN_IF_ERROR(SaveWeights());
    SaveAtEnd();
    // What says that it has ended should not get lost: Watch waits for it.
    constexpr int kTries = 3;
    for (int i = 0; i < kTries && !stop_; ++i) {
      PublishProgress(true);
      MILLRACE_RETURN_IF_ERROR(sender_->Send(out_));
      MILLRACE_RETURN_IF_ERROR(broker_retry_.Run([&] { return sender_->Flush(kBrokerCall); }));
      if (!sender_->DeliveryFailed()) break;
      MILLRACE_RETURN_IF_ERROR(AnnounceAll());
    }
    MILLRACE_ASSIGN_OR_RETURN(board_, JobRegistry::Create(config_, stop_));
    for (const auto& [shard, hosted] : shards_) {
      MILLRACE_RETURN_IF_ERROR(board_->PublishEnded(shard));
    }
    return absl::OkStatus();
  }

  Status Close() {
    for (auto& [shard, hosted] : shards_) {
      MILLRACE_RETURN_IF_ERROR(hosted->FinalCheckpoint());
    }
    if (!ended_) MILLRACE_RETURN_IF_ERROR(SaveWeights());
    // Answers that do not go out now are announced at the next start.
    (void)sender_->Flush(std::chrono::seconds(2));
    return absl::OkStatus();
  }

  struct Waiting {
    Offset position = -1;
    SteadyTime since;
    SteadyTime reported;
  };

  const JobConfig& config_;
  const JobFeatures& features_;
  const JobTraining& training_;
  RowShape shape_;
  std::unique_ptr<Model> model_;
  const std::atomic<bool>& stop_;
  BrokerRetry broker_retry_;

  Wakeup wakeup_;
  RecoveryReport recoveries_{config_, &wakeup_};
  std::unique_ptr<RecordSender> sender_;
  std::unique_ptr<PartitionConsumer> gradients_;
  ConsumerHandler handler_;
  std::map<ShardId, std::unique_ptr<HostedShard>> shards_;
  std::map<ShardId, std::unique_ptr<FollowedShard>> followed_;
  std::unique_ptr<Replicator> replicator_;
  std::unique_ptr<ReplicaServer> replica_server_;  // after what it serves
  std::map<ShardId, bool> announced_;
  std::map<ShardId, bool> lost_;  // as it was said last
  std::map<ShardId, Waiting> waiting_;
  std::vector<OutgoingRecord> out_;
  bool ended_ = false;  // EndShards has begun; an error of it ends the process
  bool job_ended_ = false;
  SteadyTime next_word_of_others_;
  std::unique_ptr<JobRegistry> board_;  // since ended_
  SteadyTime next_board_;
  SteadyTime next_metrics_;
  SteadyTime next_evaluation_;

  SnapshotTaker snapshots_{config_, features_, training_};

  PointQueue points_;
  std::unique_ptr<EvaluationLog> evaluation_log_;
  std::unique_ptr<Evaluator> evaluator_;  // last: its thread uses the two above
};

}  // namespace

Status RunServer(const JobConfig& config, const JobFeatures& features, const JobTraining& training,
                 const std::atomic<bool>& stop) {
  ServerLoop loop(config, features, training, stop);
  return loop.Run();
}

}  // namespace millrace
