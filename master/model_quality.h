// What a job's figures say of its model.
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "base/status.h"
#include "messages/job.pb.h"

namespace millrace {

// Reads the end of `metrics`: that the model is worse than one that knows nothing of the features,
// in words (topics/figures_verdict.h). Empty: it is not, or nothing is known of it: there is no
// such topic, or no server has told figures lately. Errors: Cancelled when `stop` is set; those of
// the broker, which is asked once.
StatusOr<std::optional<std::string>> ReadWorseThanPrior(const JobConfig& config,
                                                        const std::atomic<bool>& stop);

}  // namespace millrace
