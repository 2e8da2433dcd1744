// The weights of all shards in the process of shard 0, for evaluation and the weights file.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "durability/replicas/followed_shard.h"
#include "job/evaluation_log.h"
#include "kafka/wakeup.h"
#include "messages/job.pb.h"
#include "messages/records.pb.h"
#include "models/model.h"
#include "server/evaluator.h"
#include "server/hosted_shard.h"
#include "topics/outgoing_record.h"

namespace millrace {

// What is written at the end has to be known to fail at the start: whether a file can be made here.
Status CheckFolderExists(const std::string& path);

// Follows the shards of other processes by their checkpoints. Of several groups of servers the
// shards of the first have the model. For the owner's thread.
class AllWeights {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Null when the configuration wants neither an evaluation nor a weights file, or shard 0 is not
  // hosted here. References outlive it. Errors: a test set that cannot be used, a weights file that
  // cannot be written, those of the broker.
  static StatusOr<std::unique_ptr<AllWeights>> Create(const JobConfig& config,
                                                      const JobFeatures& features,
                                                      const JobTraining& training,
                                                      const HostedShards& hosted, Wakeup* wakeup,
                                                      const std::atomic<bool>& stop);

  // Nothing will change any more in the shards of the model that other processes host.
  StatusOr<bool> OthersEnded() const;
  // Starts an evaluation in the background when one is due; appends the results so far.
  Status Tick(Time now, std::vector<OutgoingRecord>& out);
  // Evaluates the weights of the job's end; waits for the result.
  Status EvaluateLast(std::vector<OutgoingRecord>& out);
  // Writes the weights file, if one is wanted. Logs a warning instead when a shard's weights have
  // not been received.
  Status SaveFile() const;

 private:
  AllWeights(const JobConfig& config, const JobFeatures& features, const JobTraining& training,
             const HostedShards& hosted);

  Status OpenEvaluation();
  // Finds out which embedding rows are wanted.
  void NameRows();
  Status Follow(Wakeup* wakeup, const std::atomic<bool>& stop);
  // False when those of a followed shard have not been received.
  StatusOr<bool> GatherWeights(std::vector<float>& parameters) const;
  // These embedding rows, which are among those that are followed. REQUIRES: ascending, distinct;
  // GatherWeights has returned true.
  Status GatherRows(const std::vector<EmbeddingId>& ids, std::vector<float>& rows) const;
  // The weights as the file has them: those that predict, and of a wide model all in their places.
  StatusOr<bool> GatherFile(std::vector<float>& parameters) const;
  // Once for each time that it is true.
  bool EvaluationIsDue(Time now);
  Status OfferEvaluation(bool last);
  void MovePoints(std::vector<OutgoingRecord>& out);

  const JobConfig& config_;
  const JobFeatures& features_;
  const JobTraining& training_;
  const std::unique_ptr<Model> model_;
  const HostedShards& hosted_;  // all of the process
  // Of a wide model whose weights are wanted in a file: its hashed features.
  std::vector<EmbeddingId> file_ids_;
  std::vector<std::vector<EmbeddingId>> ids_;  // of the rows that are followed, by shard
  std::map<ShardId, std::unique_ptr<FollowedShard>> followed_;
  Time next_evaluation_;                  // --evaluation-interval
  std::optional<uint64_t> evaluated_at_;  // --evaluation-every: shard 0's steps

  std::mutex mutex_;
  std::vector<OutgoingRecord> points_;  // guarded by mutex_: evaluations come from another thread
  std::unique_ptr<EvaluationLog> evaluation_log_;
  std::unique_ptr<Evaluator> evaluator_;  // last: its thread uses the three above
};

}  // namespace millrace
