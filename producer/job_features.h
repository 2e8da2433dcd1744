// The features as a job publishes them.
#pragma once

#include <cstdint>

#include "messages/features.pb.h"
#include "messages/job.pb.h"

namespace millrace {

// The same with every default written out: published features must mean the same to programs with
// other defaults, and compare field by field with those that are given later.
FeatureSpec CompleteSpec(FeatureSpec spec);

// Sets the numbers of hashed features that are not `given` to those of `from`: the defaults of a
// new job, or what the job has published, whose defaults may have been others.
void TakeBuckets(const FeatureSpec& from, const FeatureSpec& given, FeatureSpec& spec);

// The same without the label among the columns of its features: crosses of it are left out, too.
FeatureSpec WithoutLabel(FeatureSpec spec);

// Dealing::rows_per_turn of a new job. What tells most about a row are its neighbours in the
// stream, so turns are long where rows come as fast as they are taken. Where they come at a rate, a
// turn lasts a tenth of a second and has no more rows than the default batch, since a round of all
// workers waits for all turns of it. Where nobody knows how fast they come, since the input is a
// pipe or a file that is followed, it is one row.
uint32_t RowsPerTurnOf(const Producer& settings, bool is_live);

}  // namespace millrace
