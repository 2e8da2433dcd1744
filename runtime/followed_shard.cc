#include "runtime/followed_shard.h"

namespace millrace {

StatusOr<std::unique_ptr<FollowedShard>> FollowedShard::Create(const JobConfig& config,
                                                               const ServerOptions& options,
                                                               Wakeup* wakeup,
                                                               const std::atomic<bool>& stop) {
  std::unique_ptr<FollowedShard> shard(new FollowedShard(options));
  MILLRACE_ASSIGN_OR_RETURN(shard->tail_,
                            ParametersTail::Create(config, options.shard, 0, wakeup, stop));
  return shard;
}

StatusOr<size_t> FollowedShard::Poll() {
  return tail_->Poll([this](const CheckpointAssembler::Whole& checkpoint) -> Status {
    for (const Checkpoint::Entry& entry : checkpoint.entries) {
      MILLRACE_RETURN_IF_ERROR(task_.AddParameter(entry.key, entry.value));
    }
    return task_.FinishParameters();
  });
}

}  // namespace millrace
