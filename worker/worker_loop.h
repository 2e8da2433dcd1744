// The run loop of WorkerApp: one thread that hosts the logical workers its group gives it.
#pragma once

#include <atomic>

#include "base/status.h"
#include "messages/job.pb.h"
#include "messages/records.pb.h"

namespace millrace {

// Runs until the job has ended (OK), or `stop` (Cancelled; everything is saved). DataLoss on a gap
// in the rows.
Status RunWorker(const JobConfig& config, const JobFeatures& features, const JobTraining& training,
                 const std::atomic<bool>& stop);

}  // namespace millrace
