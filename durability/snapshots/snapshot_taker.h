// What a server process does for snapshots: asks for them, writes its shards' parts, ends them.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "messages/job.pb.h"
#include "messages/records.pb.h"
#include "processors/server_processor.h"
#include "stores/ordered_byte_map.h"
#include "topics/outgoing_record.h"

namespace millrace {

// A snapshot that fails costs a warning, never the training. Not thread-safe.
class SnapshotTaker {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // References outlive it.
  SnapshotTaker(const JobConfig& config, const JobFeatures& features, const JobTraining& training)
      : config_(config), features_(features), training_(training) {}

  // Writes the part of a shard that stands at the cut; the store holds all of it.
  void WritePart(uint64_t id, const ServerOptions& options, const ServerProcessor& processor,
                 const OrderedByteMap& store, Time now);
  // Ends what all parts are there of, if this is the process of shard 0; and gives up what does not
  // come to its cut, since updates are held for it: appends the records that say so. To be called
  // often: the shard's pace says how long that may take.
  void Tick(ShardId shard, const ServerProcessor& processor, Time now,
            std::vector<OutgoingRecord>& out);
  // Waits for the parts of the job's last snapshot.
  void Finish();

 private:
  struct Open {
    uint64_t id = 0;
    Time since;
  };
  // How long the slowest worker takes for an update.
  struct Pace {
    Clock round = 0;
    Time since;
    Time::duration took{0};  // the last whole round; 0: none was seen
  };
  void FollowPace(ShardId shard, const VectorClock& clocks, Time now);
  // A refusal is said once, by the process of shard 0.
  void SayGivenUp(ShardId shard, const ServerProcessor& processor);
  // True when there is nothing more to wait for.
  bool TryToEnd(uint64_t id);
  // Which, and what to do about it.
  std::string PartsMissing(uint64_t id) const;

  const JobConfig& config_;
  const JobFeatures& features_;
  const JobTraining& training_;
  std::map<ShardId, Open> at_work_;  // shards on their way to a cut
  std::map<ShardId, Pace> paces_;
  std::optional<uint64_t> said_;    // of shard 0: the newest that was given up
  std::optional<Open> unfinished_;  // of shard 0's process: the manifest is to be written
  Time next_look_;                  // whether its parts have come
};

}  // namespace millrace
