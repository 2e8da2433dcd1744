// A server process's part in snapshots: requests them, writes its shards' parts, completes or
// cancels them, and exports their models.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/background_worker.h"
#include "base/status.h"
#include "messages/job.pb.h"
#include "messages/records.pb.h"
#include "processors/server_processor.h"
#include "stores/ordered_byte_map.h"
#include "topics/outgoing_record.h"

namespace millrace {

// A snapshot that fails costs a warning, never the training. Not thread-safe but for WritePart.
class SnapshotTaker {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // References outlive it.
  SnapshotTaker(const JobConfig& config, const JobFeatures& features, const JobTraining& training)
      : config_(config), features_(features), training_(training) {}

  // Writes the part of a shard that is at its cut; the store holds all of the shard's state, and
  // neither store nor processor changes meanwhile. Any thread.
  Status WritePart(uint64_t id, const ServerOptions& options, const ServerProcessor& processor,
                   const OrderedByteMap& store) const;
  // Logs the result; from now on the parts of other shards are awaited.
  void PartWritten(uint64_t id, ShardId shard, const Status& written, Time began, Time now);
  // In the process of shard 0: writes the manifest once every shard's part exists. Where no updates
  // come any more, or too few, makes all shards cut a snapshot where they are; cancels one that
  // they do not cut even so, or whose parts make no snapshot: appends the records that say so. To
  // be called often: time limits follow from the pace of the shard's rounds.
  void Tick(ShardId shard, const ServerProcessor& processor, Time now,
            std::vector<OutgoingRecord>& out);
  // For the start of the process of shard 0: exports the model of the job's newest snapshot, where
  // a process was killed before it could, and removes those that are not to be kept.
  void ExportLeftOut();
  // True when no snapshot waits for parts any more, and the models of those that are complete are
  // written. The last one of a job is given up when its parts do not arrive within half a minute of
  // the first call.
  bool Finished(Time now);

 private:
  struct Open {
    uint64_t id = 0;
    Time since;
  };
  // On its way to the cut.
  struct AtWork {
    Open open;
    uint64_t updates = 0;  // that the shard has accepted, since:
    Time since_update;
    bool is_told = false;  // all shards, to cut where they are
  };
  // The time that the slowest worker takes for an update.
  struct Pace {
    Clock round = 0;
    Time since;
    Time::duration took{0};  // the last complete round; 0: none was seen
  };
  void FollowPace(ShardId shard, const VectorClock& clocks, Time now);
  // Logs a refused snapshot once, in the process of shard 0.
  void SayGivenUp(ShardId shard, const ServerProcessor& processor);
  // In the background.
  void Export(const std::string& snapshot);
  // The same, behind the exports that are under way: those that are not kept.
  void RemoveOld(const std::string& newest);
  void FollowOpen(ShardId shard, const ServerProcessor& processor, Time now);
  // In the process of shard 0, of one that has not reached its cut.
  void CutOrCancel(Time now, std::vector<OutgoingRecord>& out);
  // False when parts are missing; an error when it was not written, and nothing is to be waited
  // for.
  StatusOr<bool> TryToEnd(uint64_t id);
  // Cancels the snapshot in every shard, and removes what was written.
  void Cancel(uint64_t id, bool is_incomplete, std::vector<OutgoingRecord>& out);
  // Which parts are missing, and what to do about it.
  std::string PartsMissing(uint64_t id) const;

  const JobConfig& config_;
  const JobFeatures& features_;
  const JobTraining& training_;
  std::map<ShardId, AtWork> at_work_;  // shards that have not reached their cut
  std::map<ShardId, Pace> paces_;
  std::optional<uint64_t> said_;    // shard 0: the newest cancelled one that was logged
  std::optional<Open> unfinished_;  // shard 0's process: its manifest is to be written
  Time next_look_;                  // for its parts
  std::optional<Time> finishing_;   // since when only its parts are awaited
  BackgroundWorker models_;         // writes those of complete snapshots
};

}  // namespace millrace
