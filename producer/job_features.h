// The features that a job is published with.
#pragma once

#include "messages/features.pb.h"

namespace millrace {

// The same with every field that has a default written out: what is published must mean the same
// to programs with other defaults, and be equal field by field to what is given later.
FeatureSpec CompleteSpec(FeatureSpec spec);

}  // namespace millrace
