// Judges a run: every invariant, after every event that could break it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "messages/records.pb.h"
#include "tests/simulation/checkpoint_history.h"
#include "tests/simulation/referee.h"
#include "tests/simulation/row_audit.h"
#include "tests/simulation/snapshot_audit.h"
#include "tests/simulation/stored_snapshot.h"
#include "tests/simulation/world.h"

namespace millrace::simulation {

// Holds the untruncated log's fold (the referee's) against the live state, against `parameters` at
// every marker, against every answer; and every accepted update against the rows it must hold.
// What a shard has of AllIds, by id.
std::map<EmbeddingId, std::vector<float>> EmbeddingRowsOf(const Scenario& scenario,
                                                          const ShardTask& task);

class Inspector final : public Observer {
 public:
  explicit Inspector(World& world);

  void OnAppended(Topic topic, int32_t partition, const LogRecord& record) override;
  void OnFolded(const ShardTask& task) override;
  void OnAnswers(const ShardTask& task, std::span<const Offset> due,
                 std::span<const OutgoingRecord> answers) override;
  void OnAnnouncement(const ShardTask& task, std::span<const OutgoingRecord> answers) override;
  void OnSentByWorker(WorkerId worker, std::span<const OutgoingRecord> records) override;
  void OnCheckpointCommitted(ShardId shard) override;
  void OnCopiesLost(ShardId shard) override;
  void OnStateLost(const ShardTask& task) override;
  void OnCopy(ShardId shard, const OrderedByteMap& copy) override;
  void OnImage(ShardId shard, const ShardImage::View& view) override;
  void OnSnapshotPart(uint64_t id, const ShardTask& task, const OrderedByteMap& store,
                      bool is_newest) override;
  void OnError(const std::string& what) override { Fail(what); }

  // When everything has come to rest and the last checkpoints have been made: of each shard, then
  // of all together.
  void CheckEnd(const ShardTask& task);
  void CheckEnd();
  // A machine that has nothing but this copy gets to the same state from the topics.
  void CheckRecovery(const ShardTask& task, MemoryByteMap& copy);

  const Referee& referee(ShardId shard) const { return shards_[shard].referee; }
  const SnapshotAudit& snapshots() const { return snapshots_; }
  // The newest that is whole; null: none.
  std::shared_ptr<StoredSnapshot> NewestSnapshot() const;
  bool AllLeft() const;
  // All shards have come to where the job goes over to other shards, as far as their logs say.
  bool AllSealed() const;
  // A sealed shard, by a store that has all of it.
  void OnSealed(const ShardTask& task, std::unique_ptr<MemoryByteMap> store);
  // What other shards begin from; null: not all are sealed.
  std::shared_ptr<StoredSnapshot> Sealed() const;
  bool AnyLost() const;  // a shard's state
  // Some shard was lost, and no worker has its weights: nobody goes on.
  bool AnyBeyondHelp() const;
  bool failed() const { return !violation_.empty(); }
  // The first thing that went wrong.
  const std::string& violation() const { return violation_; }

  void Fail(const std::string& what) {
    if (violation_.empty()) violation_ = what;
  }

 private:
  struct Shard {
    Referee referee;
    size_t audited = 0;  // of referee.accepted()
    bool has_ended = false;
    // What its partition of `parameters` holds, and up to where that has been read.
    std::map<std::string, std::string> newest = {};
    Offset parameters_end = 0;
    CheckpointHistory history = {};
    // How many of its dead letters have been seen, and up to where.
    size_t letters = 0;
    Offset letters_end = 0;
  };
  // Who is answered: by the present clock's answer, or by that of the clock before.
  using Answered = std::pair<std::set<WorkerId>, std::set<WorkerId>>;

  StoredSnapshot::Part Stored(const ShardTask& task, const OrderedByteMap& store,
                              const Referee::State& cut);
  static bool AllLeftIn(const Referee& referee);
  const Referee& RefereeOf(const ShardTask& task) const { return referee(task.shard()); }
  // `replies`: the numbers of the workers' messages to which these are the answers.
  Answered CheckAnswers(const ShardTask& task, std::span<const OutgoingRecord> answers,
                        const std::map<uint32_t, uint64_t>& replies);
  // What all workers are sent once; adds those whom it answers to `answered`.
  void CheckShared(const ShardTask& task, const SharedWeights& shared,
                   std::set<WorkerId>& answered);
  void CheckAnswer(const ShardTask& task, WorkerId worker, const Weights& message);
  void CheckOldAnswer(const ShardTask& task, WorkerId worker, const Weights& message);
  void CheckMark(const ShardTask& task, const Referee::Member& member, const Weights& message);
  // The rows of an answer, against those that were wanted.
  void CheckRows(const Referee& referee, const std::vector<uint64_t>& wanted,
                 const EmbeddingBlock& rows,
                 const std::function<std::vector<float>(uint64_t id)>& row_of, const char* wrong);
  // All of the shard's rows as the task reads them.
  void CheckRows(const Referee::State& state, const ShardTask& task);
  // Empty, or what is wrong with the rows in a checkpoint.
  const char* RowsDifference(const Referee& referee, const Referee::State& state,
                             const std::map<std::string, std::string>& newest,
                             const ShardState& saved) const;
  void CheckMoments(const std::vector<Referee::Column>& columns,
                    const std::vector<uint64_t>& class_rows, uint64_t drifts,
                    const MomentsMessage& moments);
  void CheckTold(uint64_t number, uint32_t size, const MomentsMessage& moments);
  void CheckSkew();
  void CheckSameRows();
  void CheckLastSteps();
  // The parameters that an answer says have values; at the clock before, or now.
  void CheckHasValues(const Referee::State& state, std::optional<uint64_t> clock,
                      const google::protobuf::RepeatedField<uint32_t>& has_values);
  void CheckParameters(ShardId shard);
  void CheckDeadLetters(ShardId shard, size_t count, bool exactly);

  World& world_;
  std::vector<Shard> shards_;
  RowAudit rows_;
  SnapshotAudit snapshots_;
  std::map<uint64_t, StoredSnapshot> stored_;  // by id
  StoredSnapshot sealed_;
  std::string violation_;
};

}  // namespace millrace::simulation
