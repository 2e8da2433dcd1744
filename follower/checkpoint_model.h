// The model that the checkpoints of a job's shards are.
#pragma once

#include <span>

#include "base/status.h"
#include "exports/exported_model.h"
#include "follower/checkpoint_image.h"
#include "follower/job_model.h"

namespace millrace {

// With figures, and all embedding rows that a snapshot would export; created_ms is the time of the
// last message that the shard which is furthest behind has accepted. `images`: of all shards in
// their order, each whole. DataLoss: they are no numbers.
StatusOr<ExportedModel> ModelOfCheckpoints(const JobModel& job,
                                           std::span<const CheckpointImage* const> images);

}  // namespace millrace
