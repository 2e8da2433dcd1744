// The run loop of ServerApp: one thread that folds gradients and answers; other threads work in the
// background.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/status.h"
#include "messages/job.pb.h"
#include "messages/records.pb.h"

namespace millrace {

// Hosts the shards of config.server().server_ids (all when empty) until every worker has left every
// shard of the job, or `stop`. Returns OK in both cases, Cancelled when stopped while starting;
// FailedPrecondition when another instance has taken a shard over; DataLoss when a store,
// `parameters` and `gradients` do not belong together. Everything that was received is durable when
// it returns OK. `generation`: of the job's topics (JobRegistry). `setup`: for the points in
// `metrics`.
Status RunServer(const JobConfig& config, const JobFeatures& features, const JobTraining& training,
                 uint64_t generation, const MetricPoint::Setup& setup,
                 const std::atomic<bool>& stop);

}  // namespace millrace
