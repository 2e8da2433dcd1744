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

// What is looked for in what the topic holds, of a new job.
struct SourceSearches {
  // The classes; `checker` is without.
  std::function<StatusOr<ClassScan>(const FeatureEncoder& checker)> find_classes;
  // Whether one worker gets all rows; `spec` has its classes and edges.
  std::function<StatusOr<bool>(const FeatureSpec& spec)> is_for_one_worker;
};

// Checks what can be checked before any broker; returns an encoder that requires the job's columns.
// InvalidArgument, with the remedy.
StatusOr<FeatureEncoder> CheckSourceFeatures(const JobConfig& config);

// Publishes the job's features, or compares them with those that are published, and returns them.
// What is not given is what the job has published. Else classes are those that are found, numbers
// of hashed features the defaults, and nothing finds the edges of bins. Errors: those of the
// searches; FailedPrecondition: the job has other features.
StatusOr<JobFeatures> AgreeOnSourceFeatures(const JobConfig& config, const SourceSearches& searches,
                                            const SetBuckets& set_default_buckets,
                                            const std::atomic<bool>& stop);

}  // namespace millrace
