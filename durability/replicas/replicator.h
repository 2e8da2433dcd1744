// Keeps replicas of other servers' shards on this server's disk.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "durability/checkpoints/parameters_tail.h"
#include "durability/replicas/replica_server.h"
#include "kafka/wakeup.h"
#include "messages/job.pb.h"
#include "stores/rocksdb_byte_map.h"

namespace millrace {

// One thread. Each replica applies complete checkpoints of its shard in the order of `parameters`,
// each in one batch together with its end offset, so a replica is at every moment a prefix of
// `parameters`, and its offset says how far it is. A replica that cannot continue is copied again:
// when its folder is damaged, and when the topic was deleted and recreated (its folder is then set
// aside). Other errors are logged and retried: training never waits for replicas.
//
// As a ReplicaSource it returns copies of the replicas as of that moment, also in the middle of a
// large checkpoint: a server that continues from the copy's offset reads that checkpoint again.
class Replicator final : public ReplicaSource {
 public:
  // `config` outlives the replicator. A replica of another generation of the job's topics
  // (JobRegistry) is set aside.
  Replicator(const JobConfig& config, const std::vector<ShardId>& shards, uint64_t generation);
  ~Replicator() override;

  // Any thread.
  StatusOr<Offset> OffsetOf(ShardId shard) override;
  StatusOr<std::string> Freeze(ShardId shard) override;

 private:
  struct Replica {
    ShardId shard = 0;
    std::unique_ptr<DiskByteMap> store{};  // changed under mutex_; written to by thread_ alone
    std::unique_ptr<ParametersTail> tail{};
    std::chrono::steady_clock::time_point not_before{};  // the next attempt
  };

  void Run();
  Status Open(Replica& replica);
  StatusOr<size_t> Poll(Replica& replica);
  // Closes the replica; removes it if it is damaged, and sets it aside if the topic was deleted and
  // recreated, since it may be the best copy left.
  void GiveUp(Replica& replica, const Status& why);
  void SetAside(ShardId shard);
  // The shard's replica, whose store is open. REQUIRES: `lock` holds mutex_, and is kept for as
  // long as the replica is used.
  StatusOr<const Replica*> Find(ShardId shard,
                                const std::shared_lock<std::shared_mutex>& lock) const;

  const JobConfig& config_;
  const uint64_t generation_;
  std::vector<Replica> replicas_;
  std::shared_mutex mutex_;  // a copy takes long, and others read meanwhile
  std::atomic<uint64_t> frozen_ = 0;
  std::atomic<bool> stop_ = false;
  Wakeup wakeup_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace millrace
