// The shards of a process fold side by side what was read for them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/side_by_side.h"
#include "base/status.h"
#include "base/types.h"
#include "tasks/shard_feed.h"
#include "topics/outgoing_record.h"

namespace millrace {

// A shard's state depends on its records and their order alone, so its bytes are those of one shard
// after the other. Used by one thread.
class ShardFolds {
 public:
  // `feeds` outlives it, as what `answers` uses does; that is called by one thread at a time.
  ShardFolds(std::map<ShardId, ShardFeed>& feeds, RecordSink answers);

  // Takes a record, which is folded by Fold; at once where there is one shard alone, and where many
  // bytes wait. Errors are ShardFeed::Take's.
  Status Take(ShardId shard, const GradientRecord& record);
  // Folds what was taken.
  Status Fold();
  // The same in the middle of a poll; an error is that of the next Fold.
  void FoldNow() { failed_.Update(Fold()); }
  // ShardFeed::AnswerDue of each.
  Status AnswerDue();

 private:
  // A copy of a record.
  struct Kept {
    Offset offset = 0;
    std::string key;
    std::string value;
    int64_t timestamp_ms = 0;
  };
  // One after the other of each shard. Errors: the first of the first shard that has one.
  Status EachOf(const std::vector<ShardId>& shards, const std::function<Status(ShardId)>& job);
  Status FoldKept(ShardId shard);

  std::map<ShardId, ShardFeed>& feeds_;
  std::mutex mutex_;  // of what sends answers
  const RecordSink answers_;
  std::map<ShardId, std::vector<Kept>> kept_;  // what Fold is to fold
  size_t kept_bytes_ = 0;
  Status failed_ = absl::OkStatus();
  SideBySide threads_;
};

}  // namespace millrace
