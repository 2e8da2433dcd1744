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

// A snapshot that fails costs a warning, never the training. Not thread-safe but for WritePart.
class SnapshotTaker {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // References outlive it.
  SnapshotTaker(const JobConfig& config, const JobFeatures& features, const JobTraining& training)
      : config_(config), features_(features), training_(training) {}

  // Writes the part of a shard that stands at the cut; the store holds all of it, and neither it
  // nor the processor changes meanwhile. Any thread.
  Status WritePart(uint64_t id, const ServerOptions& options, const ServerProcessor& processor,
                   const OrderedByteMap& store) const;
  // Says what became of it, and waits from now on for the parts of other shards.
  void PartWritten(uint64_t id, ShardId shard, const Status& written, Time began, Time now);
  // In the process of shard 0: writes the manifest once every shard's part exists, and gives up,
  // for all shards, a snapshot that does not come to its cut, since updates are held for it:
  // appends the records that say so. To be called often: the shard's pace says how long that may
  // take.
  void Tick(ShardId shard, const ServerProcessor& processor, Time now,
            std::vector<OutgoingRecord>& out);
  // True when no snapshot waits for parts any more. The last one of a job is given up when its
  // parts do not come within half a minute of the first call.
  bool Finished(Time now);

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
  // Tells every shard to wait no longer, and removes what was written.
  void Cancel(uint64_t id, std::vector<OutgoingRecord>& out) const;
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
  std::optional<Time> finishing_;   // since when only its parts are waited for
};

}  // namespace millrace
