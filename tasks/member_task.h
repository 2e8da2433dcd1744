// A process of a job that trains by all-reduce, as a pure state machine: a replica of the shard,
// and the logical workers that the process hosts.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "messages/members.pb.h"
#include "models/model.h"
#include "tasks/replicated_shard.h"
#include "tasks/summed_update.h"
#include "tasks/worker_feed.h"
#include "tasks/worker_task.h"

namespace millrace {

// Life in a world of members, which its driver has joined:
//
//   the member in position 0 reads the last checkpoint (LoadIfFurther)
//   all get the state of the furthest (progress, EncodeState, TakeState)
//   Begin() says which workers this member hosts; StartWorker when it is known from where one reads
//   TakeRows, Advance until ready(), or some time has passed
//   all tell each other their News(); ReadRound of it: nothing, if somebody is not ready; else the
//   values of Own() are summed, and FinishRound folds the round
//
// A member that learns that another has died begins with the next world. What its workers have
// computed for the present round stays, and is the round's contribution again if it hosts them
// still. Where workers read from after the death of all: positions in `input-data` that are noted
// when a checkpoint begins, and are committed when it is durable (FollowCheckpoints).
// Not thread-safe; no call blocks.
class MemberTask {
 public:
  struct Setup {
    ServerOptions server;
    std::function<WorkerOptions(WorkerId)> worker;
    RowShape shape;
    const Model* model = nullptr;  // outlives the task
    uint64_t attempt = 0;          // no other process of the job has it or the million after it
  };
  // REQUIRES: as of ReplicatedShard; one pass.
  explicit MemberTask(Setup setup);

  // ---- the state ----

  const ReplicatedShard& shard() const { return shard_; }
  uint64_t progress() const { return shard_.progress(); }
  bool all_left() const { return shard_.processor().AllLeft(); }
  // ReplicatedShard's.
  StatusOr<uint64_t> LoadIfFurther(const OrderedByteMap& store) {
    return shard_.LoadIfFurther(store);
  }
  StatusOr<std::string> EncodeState() const { return shard_.EncodeImage(); }
  Status TakeState(std::string_view bytes) { return shard_.TakeImage(bytes); }
  // A checkpoint with this progress is durable.
  void CheckpointDurable(uint64_t progress) { shard_.CheckpointDurable(progress); }

  // ---- a world ----

  // The workers that this member hosts from now on: each that has not left is that of the member in
  // position worker % members. Tasks of others are dropped. REQUIRES position < members.
  StatusOr<std::set<WorkerId>> Begin(uint32_t position, uint32_t members);
  bool Hosts(WorkerId worker) const { return mine_.contains(worker); }
  // Where the worker reads `input-data`; again, when its rows were deleted (WorkerFeed::Assigned).
  // A commit of a later state than there is one is ignored: all rows count again; DataLoss when
  // some of them are deleted. Other errors: WorkerFeed::Assigned's. REQUIRES Hosts(worker).
  StatusOr<Offset> StartWorker(WorkerId worker,
                               const std::optional<WorkerFeed::Committed>& committed,
                               WorkerFeed::Range rows);
  // Null: it has not been started.
  WorkerFeed* feed(WorkerId worker);
  // REQUIRES of the first: feed(worker) is not null. Errors are the task's.
  Status TakeRows(WorkerId worker, const InputDataRecord& record);
  Status Advance();
  // For a worker without a contribution, now and then: changes no result. Its error says that rows
  // are gone.
  Status Repeat();

  // ---- an exchange ----

  // Each of its workers has contributed. (Nobody has any when all have left.)
  bool ready() const;
  // `ready` and `contributions` of it.
  MemberNews News() const;
  // What all have said, by position. Empty: somebody is not ready. DataLoss: it is no round.
  StatusOr<std::optional<ReplicatedShard::Round>> ReadRound(std::span<const MemberNews> news) const;
  // The values of this member's workers. REQUIRES: it hosts the worker, and has said that its
  // values are to be summed.
  std::span<const float> ValuesOf(WorkerId worker) const;
  size_t value_count() const { return range_.size(); }
  uint32_t worker_count() const { return setup_.server.workers; }
  Status FinishRound(ReplicatedShard::Round round, std::span<const float> sum);

  // ---- what survives all members ----

  struct Positions {
    WorkerId worker = 0;
    InputPosition commit;
    std::optional<Offset> rows_end;  // `input-data` may be deleted before
  };
  // What member 0 says of checkpoints, in each exchange: forgets what the durable one has, and
  // notes positions for one that begins. Returns the positions that belong to the durable one,
  // once: they are to be committed.
  std::vector<Positions> FollowCheckpoints(const MemberNews& zero);
  // Those that were noted with a state of this progress or less, once.
  std::vector<Positions> TakePositions(uint64_t durable_progress);
  // By member 0, of the state that it has after FollowCheckpoints. ReplicatedShard's.
  StatusOr<Checkpoint> MakeCheckpoint() const { return shard_.MakeCheckpoint(); }

  // Evaluations of batches since the last call, if the options ask for them.
  std::vector<std::pair<WorkerId, WorkerOutput::Evaluation>> TakeEvaluations();

 private:
  struct Hosted {
    std::unique_ptr<WorkerTask> task;
    std::optional<WorkerFeed> feed;
    std::optional<SplitMessage> message;  // for the present round
  };

  bool IsBeyondTheState(WorkerId worker,
                        const std::optional<WorkerFeed::Committed>& committed) const;
  Status AnswerAll();
  Status Answer(std::span<const WorkerId> workers);
  Status AdvanceOne(WorkerId worker, Hosted& hosted);
  // Keeps the update or leave among what the task has sent.
  Status KeepMessage(WorkerId worker, Hosted& hosted);
  void NotePositions();
  void DropWhoHasLeft();

  Setup setup_;
  KeyRange range_;
  ReplicatedShard shard_;
  uint32_t members_ = 1;
  std::set<WorkerId> mine_;  // that have not left
  std::map<WorkerId, Hosted> hosted_;
  std::optional<uint64_t> noted_;  // the progress of the positions below
  std::vector<Positions> positions_;
  std::vector<OutgoingRecord> out_;  // scratch
};

}  // namespace millrace
