// Predictor's run from topic to topic.
#pragma once

#include <atomic>

#include "apps/predictor_flags.h"
#include "base/status.h"
#include "messages/job.pb.h"
#include "predictor/model_source.h"

namespace millrace {

// Scores flags.topics.input on the Kafka of `config`, and says on standard error how. Errors: those
// of TopicRun. REQUIRES: `models` has a model.
Status PredictTopic(const PredictorFlags& flags, const JobConfig& config, const ModelSource& models,
                    const std::atomic<bool>& stop);

}  // namespace millrace
