// A run of TopicSource, all but its command line.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "messages/job.pb.h"
#include "messages/records.pb.h"
#include "producer/job_features.h"
#include "producer/late_labels.h"
#include "producer/source_format.h"
#include "producer/start_point.h"

namespace millrace {

// Used by one thread.
class SourceRun {
 public:
  struct Options {
    std::string topic;
    std::string brokers;           // of the topic; empty: those of the job
    SourceFormat::Options format;  // but the stop flag, which is that below
    LateLabelOptions labels;       // that come later, on another topic of the same cluster
    StartPoint start;              // of a job's first run
    bool until_end = false;        // read what is there now, and end the stream
    bool continue_on_data_loss = false;
    std::chrono::milliseconds linger{100};  // between two transactions, at least
    SetBuckets set_default_buckets;
    bool reasons_only = false;  // in dead letters
    bool quiet = false;
    // For the points in `metrics`.
    MetricPoint::Setup setup;
    // true: write what was read, return Cancelled. Outlives the run.
    const std::atomic<bool>* stop = nullptr;
  };

  // Checks all that can be checked without a broker, and connects to none. InvalidArgument for
  // settings that make no sense, in one line.
  static StatusOr<std::unique_ptr<SourceRun>> Create(const JobConfig& config,
                                                     const Options& options);
  virtual ~SourceRun() = default;

  // Waits for a broker, publishes the job's features, and copies rows until it is stopped or, with
  // until_end, has come to the end. A run after an interrupted one continues after its last rows.
  virtual Status Run() = 0;
};

}  // namespace millrace
