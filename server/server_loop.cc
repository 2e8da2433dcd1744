#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error_marks.h"
#include "durability/replicas/peer_replicas.h"
#include "durability/replicas/replicator.h"
#include "durability/snapshots/snapshot_request.h"
#include "durability/snapshots/snapshot_taker.h"
#include "job/kafka_options.h"
#include "job/record_sender.h"
#include "job/stop_signal.h"
#include "kafka/broker_retry.h"
#include "kafka/consumer.h"
#include "kafka/timeouts.h"
#include "server/all_weights.h"
#include "server/answer_ways.h"
#include "server/class_names.h"
#include "server/counted_report.h"
#include "server/cut_saver.h"
#include "server/exchange_report.h"
#include "server/hosted_shard.h"
#include "server/job_end.h"
#include "server/next_layout.h"
#include "server/one_layout.h"
#include "server/planned_shards.h"
#include "server/quality_report.h"
#include "server/recovery_report.h"
#include "server/server_metrics.h"
#include "server/shard_folds.h"
#include "server/shard_seals.h"
#include "server/takeover.h"
#include "server/waiting_report.h"
#include "server/weights_publisher.h"
#include "tasks/shard_feed.h"
#include "tasks/task_options.h"
#include "topics/most_workers.h"
#include "topics/replica_placement.h"
#include "topics/row_codec.h"
#include "topics/server_groups.h"
#include "topics/topics.h"

namespace millrace {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;
using std::chrono::milliseconds;

constexpr milliseconds kMetricsEvery(250);
constexpr size_t kRecordsAtOnce = 256;
constexpr std::chrono::seconds kFlushOfAnswers(2);

std::string ToText(const std::vector<ShardId>& shards) {
  std::string text;
  for (const ShardId shard : shards) text += (text.empty() ? "" : ", ") + std::to_string(shard);
  return text;
}

class ServerLoop {
 public:
  // `planned`: null when the shards are given by hand.
  ServerLoop(const JobConfig& config, const JobFeatures& features, const JobTraining& training,
             JobRegistry& registry, uint64_t generation, const MetricPoint::Setup& setup,
             PlannedShards* planned, const std::atomic<bool>& stop)
      : planned_(planned),
        config_(config),
        features_(features),
        training_(training),
        registry_(registry),
        generation_(generation),
        shape_(RowShapeFrom(features)),
        point_settings_{training, shape_.classes, ClassNamesToShow(features.spec()), setup},
        stop_(stop),
        broker_retry_(stop, config.broker_timeout_s()) {}

  // OK also when it has moved().
  Status Run() {
    Status opened = Open();
    MILLRACE_RETURN_IF_ERROR(LookWhetherMoved(opened));
    if (moved_) return absl::OkStatus();
    MILLRACE_RETURN_IF_ERROR(opened);
    // A call that was waiting for a broker when the stop came ends as the loop does.
    Status status = Loop();
    MILLRACE_RETURN_IF_ERROR(LookWhetherMoved(status));
    if (moved_) return LetGo();
    if (IsFenced(status)) RememberTakeover(config_, ids_);
    if (!status.ok() && !(stop_ && absl::IsCancelled(status))) return status;
    MILLRACE_RETURN_IF_ERROR(Close());
    if (!job_ended_) return absl::CancelledError("stopped");
    if (saved_at_end_.ok()) return absl::OkStatus();
    return WithText(saved_at_end_,
                    "the job has ended, but its last snapshot could not be written: " +
                        std::string(saved_at_end_.message()) +
                        ". Remove the cause and start this program again: it writes the snapshot");
  }

  // Whether the plan has other shards for this process by now, or the job has.
  bool moved() const { return moved_; }
  bool has_next_layout() const { return has_next_layout_; }

 private:
  Status Loop() {
    while (!stop_) {
      if (planned_ != nullptr) {
        MILLRACE_ASSIGN_OR_RETURN(const bool as_planned, planned_->AreStill(ids_));
        moved_ = !as_planned;
        if (moved_) break;
      }
      MILLRACE_ASSIGN_OR_RETURN(const size_t events, gradients_->Poll(kRecordsAtOnce, handler_));
      MILLRACE_RETURN_IF_ERROR(folds_.Fold());
      EnterCuts();
      MILLRACE_RETURN_IF_ERROR(LeaveCuts());
      AnswerAgain();
      MILLRACE_RETURN_IF_ERROR(folds_.AnswerDue());
      MILLRACE_RETURN_IF_ERROR(Announce());
      ways_->Advance();
      const SteadyTime now = std::chrono::steady_clock::now();
      MILLRACE_RETURN_IF_ERROR(RunPeriodicTasks(now));
      MILLRACE_ASSIGN_OR_RETURN(has_next_layout_, seals_.Advance(shards_, now));
      moved_ = has_next_layout_;
      if (moved_) break;
      MILLRACE_ASSIGN_OR_RETURN(const bool job_ended, JobEnded(now));
      if (job_ended && !config_.server().stay()) break;
      ways_->Advance();  // of what was said beside the fold
      if (events == 0) wakeup_.WaitFor(IdleWait());
    }
    return absl::OkStatus();
  }

  // No longer than until weights may be published again.
  milliseconds IdleWait() const {
    const auto left =
        std::chrono::ceil<milliseconds>(weights_.next() - std::chrono::steady_clock::now());
    return left.count() > 0 ? std::min(left, kIdleWait) : kIdleWait;
  }

  // ---- shards that come and go ----

  // Who takes a shard by a plan that has not come here yet fences this process first.
  Status LookWhetherMoved(const Status& status) {
    if (planned_ == nullptr || !IsFenced(status)) return absl::OkStatus();
    MILLRACE_ASSIGN_OR_RETURN(const bool as_planned, planned_->AreStillAtTheEnd(ids_));
    moved_ = !as_planned;
    return absl::OkStatus();
  }

  // What cannot be saved, since its new process has it already, is in the log.
  Status LetGo() {
    for (auto& [shard, hosted] : shards_) {
      const Status saved = hosted->FinalCheckpoint();
      if (!saved.ok() && !IsFenced(saved) && !(stop_ && absl::IsCancelled(saved))) return saved;
    }
    (void)sender_->Flush(kFlushOfAnswers);
    if (has_next_layout_) {
      spdlog::info("the job's number of shards changes; it was {}", training_.shards());
    } else {
      spdlog::info("MasterApp's plan gives this process other shards; it lets go of shards {}",
                   ToText(ids_));
    }
    return absl::OkStatus();
  }

  // ---- start ----

  Status Open() {
    MILLRACE_ASSIGN_OR_RETURN(
        sender_, RecordSender::Create(config_, "server",
                                      {Topic::kWeights, Topic::kMetrics, Topic::kGradients},
                                      broker_retry_, &wakeup_));
    ConsumerOptions options;
    options.client_id = "server";
    options.fetch_wait = kFetchWait;
    MILLRACE_ASSIGN_OR_RETURN(
        gradients_, PartitionConsumer::Create(ToKafkaOptions(config_), options,
                                              TopicName(config_, Topic::kGradients), &wakeup_));
    MILLRACE_ASSIGN_OR_RETURN(const RpcTls tls, ReadTlsOfReplicas(config_));
    for (ShardId shard = 0; shard < training_.shards(); ++shard) {
      if (IsHosted(shard)) ids_.push_back(shard);
    }
    MILLRACE_RETURN_IF_ERROR(WaitWhileTakenOver(config_, ids_, stop_));
    MILLRACE_RETURN_IF_ERROR(OpenShards(tls));
    SetHandler();
    // Not before: a client that waits for records answers a question about offsets only after that.
    for (const auto& [shard, hosted] : shards_) {
      MILLRACE_RETURN_IF_ERROR(
          gradients_->Assign(static_cast<int32_t>(shard), hosted->task().gradients_position()));
    }
    if (IsHosted(0)) {
      NameWholeSnapshots(config_);
      snapshots_.ExportLeftOut();
    }
    if (IsHosted(0) && training_.training().sharding() == Training::DYNAMIC) {
      MILLRACE_ASSIGN_OR_RETURN(counted_, CountedReport::Create(config_, broker_retry_));
    }
    MILLRACE_RETURN_IF_ERROR(StartReplicas(tls));
    const int32_t shared =
        SharedWeightsPartition(MostWorkers(training_.training(), features_.workers()));
    MILLRACE_ASSIGN_OR_RETURN(ways_, AnswerWays::Open(config_, registry_, ids_, shared, &wakeup_));
    MILLRACE_ASSIGN_OR_RETURN(
        all_weights_, AllWeights::Create(config_, features_, training_, shards_, &wakeup_, stop_));
    return absl::OkStatus();
  }

  Status OpenShards(const RpcTls& tls) {
    PeerReplicas peers(config_, tls, ids_, stop_);
    std::optional<std::vector<ReplicaOffer>> offers;  // read when a shard has no store here
    const FetchCopy fetch = [&](ShardId shard,
                                const std::string& folder) -> StatusOr<std::optional<std::string>> {
      if (!offers) {
        MILLRACE_ASSIGN_OR_RETURN(offers, registry_.ReadOffers());
      }
      return peers.Fetch(*offers, shard, folder);
    };
    for (const ShardId shard : ids_) MILLRACE_RETURN_IF_ERROR(OpenShard(shard, fetch));
    return absl::OkStatus();
  }

  bool IsHosted(ShardId shard) const {
    const auto& ids = config_.server().server_ids();
    return ids.empty() || std::find(ids.begin(), ids.end(), shard) != ids.end();
  }

  // Whether it is one of the shards of the job's model: of the first group of servers.
  bool HasModel(ShardId shard) const { return GroupOfShard(training_, shard) == 0; }

  Status OpenShard(ShardId shard, const FetchCopy& fetch) {
    const ServerOptions options = MakeHostedOptions(config_, features_, training_, shard);
    MILLRACE_ASSIGN_OR_RETURN(
        std::unique_ptr<HostedShard> hosted,
        HostedShard::Open(config_, options, generation_, fetch, &wakeup_, stop_));
    const auto partition = static_cast<int32_t>(shard);
    MILLRACE_ASSIGN_OR_RETURN(const PartitionConsumer::Range range, broker_retry_.Run([&] {
      return gradients_->QueryRange(partition, kBrokerCall);
    }));
    if (training_.layout() > 0 && hosted->HasNotStarted(range.begin)) {
      MILLRACE_ASSIGN_OR_RETURN(Checkpoint first, ReadSealedLayout(config_, features_, training_,
                                                                   options, registry_, stop_));
      MILLRACE_RETURN_IF_ERROR(hosted->BeginWith(std::move(first), options));
      spdlog::info("shard {}: begins, as one of {} shards, from the state of the shards before",
                   shard, training_.shards());
    }
    const std::string start = training_.layout() == 0 ? training_.start() : "";
    MILLRACE_RETURN_IF_ERROR(hosted->StartReplay(config_, options, start, range.begin, range.end));
    spdlog::info(
        "shard {}: state loaded up to offset {} of gradients (which ends at {}) in {:.2f} s", shard,
        hosted->task().position(), range.end,
        recoveries_.Restored(shard, hosted->phases(), std::chrono::steady_clock::now()));
    if (hosted->task().processor().state_lost()) {
      lost_.insert(shard);
      spdlog::warn(
          "shard {}: NO COPY IS LEFT. It waits until all {} workers have reported their weights, "
          "and continues from the newest. Optimizer state, embedding rows and counts are lost "
          "(--weights-from-workers)",
          shard, config_.workers());
    }
    feeds_.emplace(shard, hosted->task());
    shards_[shard] = std::move(hosted);
    return absl::OkStatus();
  }

  void SetHandler() {
    handler_.on_record = [this](const ConsumedRecord& record) {
      return folds_.Take(static_cast<ShardId>(record.partition),
                         {record.offset, record.key, record.value, record.timestamp_ms});
    };
    handler_.on_out_of_range = [this](int32_t partition) {
      return WhyRecordsAreGone(config_, static_cast<ShardId>(partition), stop_);
    };
    handler_.on_connection_lost = [this](int32_t partition) -> std::optional<Offset> {
      // What was read before is folded first. (Its error is that of the next Fold.)
      folds_.FoldNow();
      return feeds_.at(static_cast<ShardId>(partition)).ConnectionLost();
    };
  }

  void EnterCuts() {
    for (const auto& [shard, feed] : feeds_) {
      if (!feed.at_cut() || at_cut_.Holds(shard)) continue;
      at_cut_.Enter(*shards_.at(shard), MakeHostedOptions(config_, features_, training_, shard),
                    std::chrono::steady_clock::now());
    }
  }

  Status StartReplicas(const RpcTls& tls) {
    WarnOfMissingReplicas(ids_, training_.shards(), config_.server().replicas());
    const std::vector<ShardId> followed =
        ReplicatedBy(ids_, training_.shards(), config_.server().replicas());
    if (followed.empty()) return absl::OkStatus();
    replicator_ = std::make_unique<Replicator>(config_, followed, generation_);
    MILLRACE_ASSIGN_OR_RETURN(replica_server_,
                              ServeReplicas(config_, tls, ids_, followed, *replicator_, registry_));
    return absl::OkStatus();
  }

  // ---- answers ----

  // Those whose streams have ended.
  void AnswerAgain() {
    const std::vector<WorkerId> lost = ways_->TakeLost();
    if (lost.empty()) return;
    for (auto& [shard, hosted] : shards_) hosted->task().AnswerAgain(lost);
  }

  Status Announce() {
    const bool failed = sender_->DeliveryFailed();
    for (auto& [shard, feed] : feeds_) {
      if (failed) feed.AnswersLost();
      MILLRACE_ASSIGN_OR_RETURN(const bool is_first, feed.Announce(answers_));
      if (!is_first) continue;
      const ShardTask& task = shards_.at(shard)->task();
      spdlog::info("shard {}: answers workers from offset {} of gradients on ({} records replayed)",
                   shard, task.position(), task.replayed_records());
      recoveries_.Answered(shard, task.replayed_records(), std::chrono::steady_clock::now());
    }
    return absl::OkStatus();
  }

  // ---- beside the fold ----

  Status RunPeriodicTasks(SteadyTime now) {
    AdvanceSnapshots(now);
    for (auto& [shard, hosted] : shards_) {
      if (at_cut_.Holds(shard)) continue;
      MILLRACE_ASSIGN_OR_RETURN(const bool durable,
                                hosted->Checkpoint(now, seals_.WantsCheckpoint(*hosted)));
      if (durable && all_weights_ && config_.server().weights_at_checkpoints()) {
        MILLRACE_RETURN_IF_ERROR(all_weights_->SaveFile());
      }
    }
    if (shards_.contains(0)) earlier_layouts_.Tick(now);
    MILLRACE_RETURN_IF_ERROR(weights_.Tick(now, *ways_));
    if (counted_) MILLRACE_RETURN_IF_ERROR(counted_->Tick(shards_.at(0)->task(), now));
    if (now >= next_metrics_) {
      next_metrics_ = now + kMetricsEvery;
      PublishProgress(ended_);
      for (auto& [shard, hosted] : shards_) ReportQuality(shard, hosted->task(), false);
    }
    if (all_weights_ && !ended_) MILLRACE_RETURN_IF_ERROR(all_weights_->Tick(now, out_));
    for (auto& [shard, hosted] : shards_) waiting_report_.Tick(hosted->task(), now);
    recoveries_.Tick(now);
    ReportRestored();
    return sender_->Send(out_);
  }

  void ReportQuality(ShardId shard, const ShardTask& task, bool at_end) {
    if (!task.replayed()) return;
    const ServerProcessor& processor = task.processor();
    const uint64_t accepted = processor.counters().gradients_accepted();
    const uint64_t dropped = processor.counters().non_finite_updates();
    QualityReport& report = quality_.try_emplace(shard, shape_.classes).first->second;
    const std::optional<std::string> warning =
        at_end ? report.AtEnd(processor.progressive(), processor.window().last(), accepted, dropped)
               : report.Tick(processor.progressive(), accepted, dropped);
    if (warning) spdlog::warn("shard {}: {}", shard, *warning);
    const std::optional<std::string> drift = report.TickDrift(processor.drift().last());
    if (drift) spdlog::warn("shard {}: {}", shard, *drift);
  }

  void AdvanceSnapshots(SteadyTime now) {
    if (shards_.contains(0) && TakeSnapshotRequest()) {
      spdlog::info("SIGUSR1: requesting a snapshot of all shards");
      out_.push_back(SnapshotRequest(config_, static_cast<uint64_t>(NowMs())));
    }
    for (auto& [shard, hosted] : shards_) {
      if (at_cut_.Holds(shard) || !HasModel(shard)) continue;
      snapshots_.Tick(shard, hosted->task().processor(), now, out_);
    }
  }

  // Shards whose part of a snapshot is written go on, at the record where they stopped.
  Status LeaveCuts() {
    if (at_cut_.empty()) return absl::OkStatus();
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<ShardId> leaving,
                              at_cut_.Advance(std::chrono::steady_clock::now()));
    for (const ShardId shard : leaving) {
      MILLRACE_ASSIGN_OR_RETURN(const std::optional<Offset> read_from, feeds_.at(shard).LeaveCut());
      if (!read_from) continue;
      MILLRACE_RETURN_IF_ERROR(gradients_->Assign(static_cast<int32_t>(shard), *read_from));
    }
    return absl::OkStatus();
  }

  void PublishProgress(bool ended) {
    for (auto& [shard, hosted] : shards_) {
      if (!hosted->task().replayed()) continue;
      out_.push_back(ProgressPoint(hosted->task(), point_settings_, hosted->aborted_checkpoints(),
                                   ended, recoveries_.point(shard)));
    }
  }

  // Says when workers have given a lost shard its weights.
  void ReportRestored() {
    for (auto& [shard, hosted] : shards_) {
      if (!lost_.contains(shard) || hosted->task().processor().state_lost()) continue;
      lost_.erase(shard);
      spdlog::warn("shard {}: restored from the weights of a worker, at optimizer step {}", shard,
                   hosted->task().processor().steps());
    }
  }

  // ---- end ----

  // Whether nothing will change any more in any shard of the job, and nothing is left to be done
  // for it.
  StatusOr<bool> JobEnded(SteadyTime now) {
    if (job_ended_) return true;
    MILLRACE_ASSIGN_OR_RETURN(const bool is_over, NothingChanges());
    if (!is_over) return false;
    if (!ended_) MILLRACE_RETURN_IF_ERROR(EndShards());
    MILLRACE_ASSIGN_OR_RETURN(const bool all_ended, job_end_.AllShardsEnded(now));
    // Each part of the last snapshot was there before its shard had ended.
    job_ended_ = all_ended && snapshots_.Finished(now);
    return job_ended_;
  }

  // Every worker has left the shards that are here, and all has been exchanged with other groups.
  StatusOr<bool> NothingChanges() const {
    const bool is_over = at_cut_.empty() && std::ranges::all_of(shards_, [](const auto& entry) {
                           const ShardTask& task = entry.second->task();
                           return task.replayed() && task.processor().ended();
                         });
    if (!is_over || !all_weights_) return is_over;
    return all_weights_->OthersEnded();
  }

  Status EndShards() {
    ended_ = true;
    MILLRACE_RETURN_IF_ERROR(weights_.PublishLast(*ways_));
    ways_->Advance();
    if (all_weights_) MILLRACE_RETURN_IF_ERROR(all_weights_->EvaluateLast(out_));
    for (auto& [shard, hosted] : shards_) MILLRACE_RETURN_IF_ERROR(hosted->FinalCheckpoint());
    if (counted_) {
      MILLRACE_RETURN_IF_ERROR(
          counted_->TellLast(shards_.at(0)->task(), std::chrono::steady_clock::now()));
    }
    if (all_weights_) MILLRACE_RETURN_IF_ERROR(all_weights_->SaveFile());
    SaveAtEnd();
    for (auto& [shard, hosted] : shards_) ReportQuality(shard, hosted->task(), true);
    // What says that it has ended should not get lost: Watch waits for it.
    constexpr int kTries = 3;
    for (int i = 0; i < kTries && !stop_; ++i) {
      PublishProgress(true);
      MILLRACE_RETURN_IF_ERROR(sender_->Send(out_));
      MILLRACE_RETURN_IF_ERROR(broker_retry_.Run([&] { return sender_->Flush(kBrokerCall); }));
      if (!sender_->DeliveryFailed()) break;
      for (auto& [shard, hosted] : shards_) {
        MILLRACE_RETURN_IF_ERROR(hosted->task().Announce(answers_));
      }
    }
    return job_end_.Publish(ids_);
  }

  // The end is a cut, too.
  void SaveAtEnd() {
    if (!config_.server().has_snapshot_dir()) {
      if (shards_.contains(0) && training_.training().model() != Training::EXTERNAL) {
        spdlog::info(
            "the job has ended without a --snapshot-dir: to take its model away, start each of its "
            "ServerApps again, by hand, with one and with the settings and the data folder that it "
            "had (docs/model-format.md)");
      }
      return;
    }
    for (auto& [shard, hosted] : shards_) {
      if (!hosted->task().saved() || !HasModel(shard)) continue;
      const SteadyTime began = std::chrono::steady_clock::now();
      const Status written =
          snapshots_.WritePart(0, MakeHostedOptions(config_, features_, training_, shard),
                               hosted->task().processor(), hosted->store());
      snapshots_.PartWritten(0, shard, written, began, std::chrono::steady_clock::now());
      saved_at_end_.Update(written);
    }
  }

  Status Close() {
    for (auto& [shard, hosted] : shards_) MILLRACE_RETURN_IF_ERROR(hosted->FinalCheckpoint());
    if (!ended_ && all_weights_) MILLRACE_RETURN_IF_ERROR(all_weights_->SaveFile());
    if (!job_ended_) PublishStop();
    if (job_ended_ && shards_.contains(0)) earlier_layouts_.End();
    // Answers that do not go out now are announced at the next start.
    (void)sender_->Flush(kFlushOfAnswers);
    for (auto& [shard, hosted] : shards_) ReportSaved(*hosted);
    return absl::OkStatus();
  }

  // Without it a clean stop looks like a crash to those who watch. It may get lost: nothing but a
  // display depends on it.
  void PublishStop() {
    for (auto& [shard, hosted] : shards_) {
      if (!hosted->task().replayed()) continue;
      out_.push_back(StoppedPoint(hosted->task(), point_settings_, hosted->aborted_checkpoints(),
                                  ended_, recoveries_.point(shard)));
    }
    (void)sender_->Send(out_);
  }

  void ReportSaved(const HostedShard& hosted) const {
    LogExchanges(hosted.task());
    const uint64_t unsaved = hosted.task().unsaved_updates();
    const std::string left =
        unsaved == 0
            ? "everything is in a checkpoint"
            : std::to_string(unsaved) +
                  " records are not in a checkpoint; the next start replays them from the log";
    spdlog::info("shard {}: {} at offset {} of gradients; {}", hosted.shard(),
                 job_ended_ ? "ended" : "stopped", hosted.task().position(), left);
  }

  PlannedShards* const planned_;
  bool moved_ = false;
  bool has_next_layout_ = false;
  const JobConfig& config_;
  const JobFeatures& features_;
  const JobTraining& training_;
  JobRegistry& registry_;
  const uint64_t generation_;  // of the job's topics
  const RowShape shape_;
  const PointSettings point_settings_;
  const std::atomic<bool>& stop_;
  const BrokerRetry broker_retry_;

  Wakeup wakeup_;
  RecoveryReport recoveries_{config_, &wakeup_};
  std::unique_ptr<RecordSender> sender_;
  std::unique_ptr<PartitionConsumer> gradients_;
  ConsumerHandler handler_;
  std::vector<ShardId> ids_;  // of the shards that are hosted here, ascending
  HostedShards shards_;
  std::map<ShardId, ShardFeed> feeds_;  // of the shards' tasks
  std::unique_ptr<AnswerWays> ways_;
  std::unique_ptr<Replicator> replicator_;
  std::unique_ptr<ReplicaServer> replica_server_;  // after what it serves
  std::set<ShardId> lost_;                         // wait for the workers' weights
  WaitingReport waiting_report_{std::chrono::duration<double>(config_.server().waiting_report_s())};
  std::vector<OutgoingRecord> out_;  // but answers, which are sent as they are made
  const RecordSink answers_{[this](OutgoingRecord record) {
    std::optional<OutgoingRecord> to_log = ways_->Send(std::move(record));
    return to_log ? sender_->SendOne(*std::move(to_log)) : absl::OkStatus();
  }};
  ShardFolds folds_{feeds_, answers_};
  WeightsPublisher weights_{shards_, feeds_, answers_};
  SteadyTime next_metrics_;
  std::map<ShardId, QualityReport> quality_;
  std::unique_ptr<CountedReport> counted_;  // of shard 0, where rows are leased
  ShardSeals seals_{training_, registry_};
  EarlierLayouts earlier_layouts_{config_, training_, stop_};

  bool ended_ = false;  // EndShards has begun; an error of it ends the process
  JobEnd job_end_{config_, training_, registry_};
  bool job_ended_ = false;
  Status saved_at_end_ = absl::OkStatus();  // the last snapshot's parts

  SnapshotTaker snapshots_{config_, features_, training_};
  CutSaver at_cut_{snapshots_, &wakeup_};    // after shards_, as the next
  std::unique_ptr<AllWeights> all_weights_;  // null: not wanted here
};

}  // namespace

StatusOr<bool> RunOneLayout(const JobConfig& config, const JobFeatures& features,
                            const JobTraining& training, JobRegistry& registry,
                            const MetricPoint::Setup& setup, const std::optional<Incarnation>& self,
                            const std::atomic<bool>& stop) {
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t generation, registry.Generation());
  if (!self) {
    ServerLoop loop(config, features, training, registry, generation, setup, nullptr, stop);
    MILLRACE_RETURN_IF_ERROR(loop.Run());
    return loop.has_next_layout();
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<PlannedShards> planned,
                            PlannedShards::Create(config, *self, training, registry, stop));
  while (true) {
    planned->RemoveStoresOfOthers();
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<ShardId> shards, planned->Wait());
    if (shards.empty()) return planned->is_of_later_layout();
    spdlog::info("MasterApp's plan gives this process shards {}", ToText(shards));
    JobConfig hosting = config;
    hosting.mutable_server()->clear_server_ids();
    for (const ShardId shard : shards) hosting.mutable_server()->add_server_ids(shard);
    ServerLoop loop(hosting, features, training, registry, generation, setup, planned.get(), stop);
    MILLRACE_RETURN_IF_ERROR(loop.Run());
    if (!loop.moved() || loop.has_next_layout()) return loop.has_next_layout();
  }
}

}  // namespace millrace
