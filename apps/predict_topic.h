// Predictor's run from topic to topic.
#pragma once

#include <atomic>

#include "apps/predictor_flags.h"
#include "base/status.h"
#include "predictor/model_folder.h"

namespace millrace {

// Scores flags.topics.input, and says on standard error how. Errors: those of TopicRun, and of
// flags.config.
Status PredictTopic(const PredictorFlags& flags, const ModelFolder& folder,
                    const std::atomic<bool>& stop);

}  // namespace millrace
