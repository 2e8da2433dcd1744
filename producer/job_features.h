// The features as a job publishes them.
#pragma once

#include "messages/features.pb.h"

namespace millrace {

// The same with every default written out: published features must mean the same to programs with
// other defaults, and compare field by field with those that are given later.
FeatureSpec CompleteSpec(FeatureSpec spec);

}  // namespace millrace
