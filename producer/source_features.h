// The features of a job whose rows come from another topic: agreed on, and published.
#pragma once

#include <atomic>
#include <functional>

#include "base/status.h"
#include "features/class_scan.h"
#include "features/feature_encoder.h"
#include "messages/job.pb.h"
#include "messages/records.pb.h"
#include "producer/job_features.h"

namespace millrace {

// Finds the classes in what the topic holds; `checker` is without classes.
using ClassFinder = std::function<StatusOr<ClassScan>(const FeatureEncoder& checker)>;

// Checks what can be checked before any broker; returns an encoder that requires the job's columns.
// InvalidArgument, with the remedy.
StatusOr<FeatureEncoder> CheckSourceFeatures(const JobConfig& config);

// Publishes the job's features, or compares them with those that are published, and returns them.
// What is not given is what the job has published. Else classes are those that `find` finds,
// numbers of hashed features the defaults, and nothing finds the edges of bins. Errors: those of
// `find`; FailedPrecondition: the job has other features.
StatusOr<JobFeatures> AgreeOnSourceFeatures(const JobConfig& config, const ClassFinder& find,
                                            const SetBuckets& set_default_buckets,
                                            const std::atomic<bool>& stop);

}  // namespace millrace
