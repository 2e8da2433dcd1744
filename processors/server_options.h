// The options of a shard.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/types.h"
#include "models/drift_detector.h"
#include "models/evaluation_window.h"
#include "models/forgetting.h"
#include "models/model.h"
#include "models/optimizer.h"
#include "models/parameter_handler.h"
#include "processors/policy.h"
#include "stores/embedding_table.h"
#include "topics/frame.h"
#include "topics/gradient_codec.h"
#include "topics/message_codec.h"
#include "topics/packed_floats.h"

namespace millrace {

// The largest absolute value in an update, and of a weight. The square of a larger one is not a
// finite float, and a few of them would make the weights infinite.
inline constexpr float kLargestValue = 1e18f;
// Whether so many values that are no larger may add up, or their sum divided by `weight` be, to
// more than a float has room for. (Half of that: sums of floats are rounded.)
constexpr bool MayOverflow(size_t values, double weight) {
  constexpr double kMost = double{std::numeric_limits<float>::max()} / 2;
  const double sum = static_cast<double>(values) * double{kLargestValue};
  return !(weight > 0 && sum < kMost && sum / weight < kMost);
}

// What workers' updates are, and how the shard combines them.
enum class UpdateKind {
  // Sums, for the optimizer: it steps by the mean gradient of the rows, or (kSum) adds up what
  // online learners have changed.
  kSums,
  kAverageChanges,  // weight changes: their mean
};

// A named parameter of the model EXTERNAL, or a table.
struct ServedParameter {
  KeyRange keys;  // of the job; of a table none
  std::shared_ptr<const ParameterHandler> handler;
  size_t row_width = 0;  // of a table
  float row_scale = 0;   // limit of its initial values
};

// Another group of servers, and the job in its messages (HashOfGroup).
struct GroupPeer {
  uint32_t group = 0;
  uint64_t job = 0;
};

// The group with which a shard's group exchanges deltas.
struct GroupNeighbor {
  GroupPeer peer;
  uint64_t sync_interval = 1;  // updates from one exchange to the next
};

struct ServerOptions {
  uint64_t job = 0;  // hash of its name, in every message; of a group its own (HashOfGroup)
  uint64_t epoch = 1;
  ShardId shard = 0;
  uint32_t shards = 1;  // of the job, or of the group of servers
  uint32_t layout = 0;  // of these shards (JobSealed)
  uint32_t group = 0;   // of servers
  uint32_t groups = 1;
  std::vector<WorkerId> members{};  // the group's workers, ascending; none: all of the job
  std::optional<GroupNeighbor> neighbor{};
  std::vector<GroupPeer> sources{};       // the groups whose neighbor this is; ascending
  bool dead_letter_reasons_only = false;  // see MakeDeadLetter
  KeyRange range;                         // of this shard
  uint64_t penalised_end = 0;             // keys from here on (the bias) are not penalised
  uint64_t linear_end = UINT64_MAX;  // keys from here on (a network's) are not of a linear model
  std::vector<RandomInitRange> random_init_ranges{};  // of the job's keys; other keys start at zero
  uint64_t seed = 1;                                  // of the random initial weights
  uint32_t workers = 1;                               // that the job may have
  uint32_t first_workers = 0;  // so many of them are there from the beginning; 0: all
  size_t classes = 2;
  size_t numeric_columns = 0;
  ConsistencyPolicy consistency = ConsistencyPolicy::Sequential();
  size_t pipeline = 1;  // updates that a worker may have in flight (PipelineOf)
  UpdateKind updates = UpdateKind::kSums;
  FloatFormat values = Training::Compression::FLOAT32;  // of updates
  OptimizerOptions optimizer;
  double l2 = 0;                                    // added to the gradient
  double row_l2 = 0;                                // the same of embedding rows
  std::optional<EmbeddingTableOptions> embeddings;  // slot_floats follows from the optimizer
  std::vector<ServedParameter> parameters{};        // by number; none: the model is one of ours
  size_t row_linear_end = 1;                        // of a row (Model::row_linear_end)
  // Of a window of the figures, at least (EvaluationWindow).
  uint64_t fewest_window_rows = EvaluationWindow::kFewestRows;
  DriftDetector::Pace drift_pace{};
  // What is forgotten when the stream has changed. None: a drift is only reported.
  std::optional<OnlineForgetting> forgets{};
  // Shard 0 begins a snapshot whenever it has made so many more steps. 0: when it is asked to.
  uint64_t snapshot_every = 0;
  // A shard of which no copy is left continues from the workers' weights (LostState).
  bool weights_from_workers = false;

  size_t max_frame_bytes = kMaxFrameBytes;        // larger messages are split
  ChunkLimits chunks{};                           // of updates that were split
  size_t most_message_bytes = kMostMessageBytes;  // the limit of a part of a saved state
  std::string gradients_topic = "gradients";      // as the broker calls it; for errors

  // Among the shards of all groups: its partition of `gradients` and `parameters`.
  ShardId number() const { return shard + group * shards; }
  // Whether the worker is one of the group's.
  bool IsMember(WorkerId worker) const {
    return members.empty() || std::ranges::binary_search(members, worker);
  }
  uint32_t workers_at_first() const { return first_workers > 0 ? first_workers : workers; }
  // Whether the number of workers may change.
  bool resizes() const { return workers_at_first() < workers; }
  // Whether a shard keeps what it needs for answers at the previous clock.
  bool keeps_previous_round() const { return shards > 1 && consistency.sequential(); }
  // Whether embedding rows miss something by steps that do not name them (RowTime::shrinkage).
  bool rows_miss_steps() const { return row_l2 > 0 || forgets.has_value(); }
};

// By their numbers among the tables.
std::vector<NamedTable> TablesOf(const std::vector<ServedParameter>& parameters);

GradientShape GradientShapeFrom(const ServerOptions& options);

}  // namespace millrace
