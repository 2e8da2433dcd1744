// Predictor's run on a file.
#pragma once

#include <atomic>
#include <memory>

#include "apps/predictor_flags.h"
#include "base/status.h"
#include "exports/model_scorer.h"

namespace millrace {

// Scores flags.input, and says on standard error how. `challenger` is compared with the model;
// null: there is none. Errors: those of ScoreFile; InvalidArgument for flags that name one file
// twice.
Status PredictFile(const PredictorFlags& flags, const std::shared_ptr<const ModelScorer>& model,
                   const std::shared_ptr<const ModelScorer>& challenger,
                   const std::atomic<bool>& stop);

}  // namespace millrace
