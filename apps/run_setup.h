// What tells a job's run from others, for the points of ServerApp and CsvProducer in `metrics`.
#pragma once

#include <cstdint>

#include "messages/job.pb.h"
#include "messages/records.pb.h"

namespace millrace {

// The job's settings, which all programs share, and ServerApp's own. `training_published_ms`: see
// JobRegistry.
MetricPoint::Setup ServerSetup(const JobConfig& config, const JobFeatures& features,
                               const JobTraining& training, int64_t training_published_ms);

// CsvProducer's own settings: how it streams.
MetricPoint::Setup ProducerSetup(const JobConfig& config);

}  // namespace millrace
