// A run of CsvProducer, all but its command line.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/status.h"
#include "messages/job.pb.h"
#include "messages/records.pb.h"
#include "producer/job_features.h"

namespace millrace {

// Used by one thread.
class ProducerRun {
 public:
  struct Options {
    bool quiet = false;  // print errors and warnings only
    // Publish the job's features and send no row, so that servers and workers can join before.
    bool features_only = false;
    SetBuckets set_default_buckets;
    // For the points in `metrics`.
    MetricPoint::Setup setup;
    // true: stop reading, deliver what was handed over, return Cancelled. Outlives the run.
    const std::atomic<bool>* stop = nullptr;
  };

  // Checks all that can be checked without a broker, and connects to none. Errors are one line:
  // InvalidArgument for settings that make no sense; others for an input that cannot be read or
  // does not have the named columns.
  static StatusOr<std::unique_ptr<ProducerRun>> Create(const JobConfig& config,
                                                       const Options& options);
  virtual ~ProducerRun() = default;

  // Waits for a broker, finds the classes, publishes the job's features, and streams. A run after
  // an interrupted one continues after its last rows.
  virtual Status Run() = 0;
};

}  // namespace millrace
