// A server process as the simulator runs it: the production ShardTask of one shard, driven through
// its life. (A ServerApp may host several; dying apart from each other is the worse case.)
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tasks/checkpoint.h"
#include "tasks/checkpoint_assembler.h"
#include "tasks/checkpoint_cycle.h"
#include "tasks/shard_feed.h"
#include "tasks/shard_task.h"
#include "tests/simulation/host.h"
#include "tests/simulation/stored_snapshot.h"

namespace millrace::simulation {

class ServerStore;

class ServerHost : public Host {
 public:
  // Uses the disk until it dies.
  ServerHost(World& world, ShardId shard, std::shared_ptr<Disk> disk);
  ~ServerHost() override;

  bool Step() override;
  void Die() override;
  void DeliveryFailed() override;
  // Begins a checkpoint, or takes the next step of the one that is under way. False when there is
  // nothing to save.
  bool StepCheckpoint();

  // A leader of its partition is away, and reading goes on at another one. REQUIRES live().
  void LoseConnection() {
    if (const std::optional<Offset> offset = ConnectionLost()) ReadFrom(*offset);
  }

  // Its transaction, if one is open, has taken too long, now and then: the coordinator ends it, and
  // the process hears of that when it asks for something.
  void MayTimeOut();

  // Its log was truncated under it, or it was fenced: it has to stop and start again.
  bool must_stop() const { return must_stop_; }
  // Why, if a record or a position made it stop.
  const Status& failure() const { return failure_; }
  ShardId shard() const { return shard_; }
  bool live() const { return phase_ == Phase::kLive; }
  // Stands at the cut of a snapshot, which is not written yet.
  bool at_cut() const { return phase_ == Phase::kAtCut; }
  bool checkpoint_under_way() const { return run_ != nullptr; }
  const ShardTask& task() const { return *task_; }
  const std::shared_ptr<Disk>& disk() const { return disk_; }
  // A newer instance has been started.
  void set_replaced() { replaced_ = true; }

 protected:
  // The seams: what a planted error may do otherwise.
  virtual ServerOptions Options() const { return MakeServerOptions(world_.scenario, shard_); }
  virtual Status Fold(const GradientRecord& record, std::vector<OutgoingRecord>& out) {
    MILLRACE_RETURN_IF_ERROR(feed_->Take(record, out));
    // Or later, with what others make due.
    return world_.random.Chance(0.5) ? feed_->AnswerDue(out) : absl::OkStatus();
  }
  virtual StatusOr<bool> Announce(std::vector<OutgoingRecord>& out) { return feed_->Announce(out); }
  virtual StoredSnapshot Start() const { return *world_.scenario.start; }
  virtual bool ReadsSealedStores() const { return true; }
  virtual Status StartReplay(Offset begin, Offset end) { return task_->StartReplay(begin, end); }
  virtual Status CheckCopy(Offset from, Offset end) const { return CheckCopyFits(from, end); }
  virtual std::optional<Offset> ConnectionLost() { return feed_->ConnectionLost(); }
  virtual void ReadFrom(Offset offset) { next_gradient_ = offset; }
  virtual StatusOr<CheckpointCycle::End> Finish(const Checkpoint& checkpoint,
                                                const Status& result) {
    return cycle_.Finish(*task_, checkpoint, result, world_.now);
  }
  virtual bool FencesFirst() const { return true; }
  virtual void AnswerAgain(std::span<const WorkerId> lost) { task_->AnswerAgain(lost); }
  virtual std::unique_ptr<CheckpointLog> MakeLog();
  // One step of the checkpoint that is under way; true when it was the last.
  virtual StatusOr<bool> StepRun(const Checkpoint& checkpoint);

  void Fence();
  ShardTask& mutable_task() { return *task_; }
  CheckpointLog& log() { return *log_; }
  OrderedByteMap& store();
  // The coordinator has fenced it although no other instance has been started.
  bool TimedOut() const {
    return world_.log.IsFenced(transactional_id_, epoch_) &&
           world_.log.IsNewest(transactional_id_, epoch_);
  }
  // The next transaction knows nothing of the last one.
  void ForgetTransaction() { log_ = MakeLog(); }

 private:
  enum class Phase { kFence, kLoad, kParameters, kStart, kFirstCheckpoint, kLive, kAtCut };
  static constexpr uint64_t kRecordsAtOnce = 3;

  // To the first replay (server_host_recovery.cc).
  void Load();
  void CatchUp();
  void TakeParameters();
  void BeginReplay();
  // Its first checkpoint is what it has of a snapshot.
  void BeginWithSnapshot();
  void StepFirstCheckpoint();

  bool ReadGradients();
  // Answers what is due.
  void AnswerDue();
  void PublishWeights();
  // By the pipes that there are, or to the log.
  void SendAnswers();
  // Answers again those whose pipes have broken. False when there are none.
  bool AnswerLost();
  // Announces if it is time to. False when it is not.
  bool TryToAnnounce();
  void PassOver();
  void SaveAtCut();
  void LeaveCut();
  // Takes what became of the checkpoint that was under way.
  void FinishCheckpoint(const Status& result);
  // An error that the present instance must never meet; others stop.
  void Failed(const char* where, const Status& status);

  ShardId shard_;
  int32_t partition_;
  std::string transactional_id_;
  std::shared_ptr<Disk> disk_;
  std::unique_ptr<ServerStore> store_;
  uint64_t epoch_ = 0;
  std::unique_ptr<CheckpointLog> log_;
  std::unique_ptr<ShardTask> task_;
  std::optional<ShardFeed> feed_;  // once it replays
  Phase phase_ = Phase::kFence;
  bool replaced_ = false;
  bool must_stop_ = false;
  Status failure_ = absl::OkStatus();
  bool saving_given_up_ = false;                   // at this cut
  std::optional<CheckpointAssembler> parameters_;  // while it catches up
  Offset next_parameter_ = 0;
  Offset next_gradient_ = 0;
  CheckpointCycle cycle_{{std::chrono::duration<double>(0), 1, 0, world_.now}};
  std::unique_ptr<CheckpointRun> run_;
  std::vector<Offset> due_;  // positions since the last answers
  std::vector<OutgoingRecord> out_;
};

}  // namespace millrace::simulation
