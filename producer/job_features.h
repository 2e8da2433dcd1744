// The features as a job publishes them.
#pragma once

#include <cstdint>

#include "messages/features.pb.h"
#include "messages/job.pb.h"

namespace millrace {

// The same with every default written out: published features must mean the same to programs with
// other defaults, and compare field by field with those that are given later.
FeatureSpec CompleteSpec(FeatureSpec spec);

// Dealing::rows_per_turn of a new job. What tells most about a row are its neighbours in the
// stream, so turns are long. Where the rows come at a pace of their own (`paced`), a turn is as
// long as the default batch: a sequential round then waits for no more rows than it learns from.
uint32_t RowsPerTurnOf(const Producer& settings, bool paced);

}  // namespace millrace
