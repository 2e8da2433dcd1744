// What a job with named parameters (Training.model EXTERNAL) may be, and what its shards do with
// them.
#pragma once

#include <vector>

#include "base/status.h"
#include "messages/records.pb.h"
#include "models/optimizer.h"
#include "processors/server_options.h"

namespace millrace {

inline bool IsExternal(const Training& training) { return training.model() == Training::EXTERNAL; }

// InvalidArgument when the settings are of what such a job does not have: rows, their model, and
// who computes on them. REQUIRES IsExternal(training).
Status CheckExternalSettings(const Training& training);

// Whether these parameters can be trained by these settings: InvalidArgument with what is wrong. Of
// another model: whether there are none.
Status CheckParameters(const JobFeatures& features, const Training& training);

// Whether this program has the handlers of the parameters: FailedPrecondition that names those that
// it has. For programs that serve them; CheckParameters is for all.
Status CheckHandlers(const JobFeatures& features);

// FailedPrecondition if a trainer of one's own learns: for programs that learn from rows, and for
// those that want the model.
Status CheckLearnsRows(const JobFeatures& features);
Status CheckHasModel(const JobFeatures& features);

// REQUIRES CheckParameters and CheckHandlers. `optimizer`: the job's.
std::vector<ServedParameter> ServedParametersOf(const JobFeatures& features,
                                                const Training& training,
                                                const OptimizerOptions& optimizer);

}  // namespace millrace
