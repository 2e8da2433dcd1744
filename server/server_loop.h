// The run loop of ServerApp: one thread that folds gradients and answers, with the help of others
// where there are several shards; further threads work in the background.
#pragma once

#include <atomic>
#include <optional>

#include "base/status.h"
#include "job/job_registry.h"
#include "job/job_topics.h"
#include "messages/job.pb.h"
#include "messages/records.pb.h"
#include "topics/planned_hosts.h"

namespace millrace {

// Hosts the shards of config.server().server_ids (all when empty) until every worker has left every
// shard of the job, or `stop`. Returns OK in both cases, Cancelled when stopped while starting;
// FailedPrecondition when another instance has taken a shard over; DataLoss when a store,
// `parameters` and `gradients` do not belong together. Everything that was received is durable when
// it returns OK. `registry` and `topics`: of the job, which nobody else uses meanwhile. `setup`:
// for the points in `metrics`. `self`: the shards are those that a master's plan gives to this
// process, whatever server_ids says, and they may change at any time: then what is hosted is made
// durable, and the process goes on with the others.
Status RunServer(const JobConfig& config, const JobFeatures& features, const JobTraining& training,
                 JobRegistry& registry, JobTopics& topics, const MetricPoint::Setup& setup,
                 const std::optional<Incarnation>& self, const std::atomic<bool>& stop);

}  // namespace millrace
