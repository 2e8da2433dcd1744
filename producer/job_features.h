// The features as a job publishes them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/status.h"
#include "features/feature_encoder.h"
#include "messages/features.pb.h"
#include "messages/job.pb.h"
#include "messages/records.pb.h"
#include "topics/partitioning.h"

namespace millrace {

// The same with every default written out: published features must mean the same to programs with
// other defaults, and compare field by field with those that are given later.
FeatureSpec CompleteSpec(FeatureSpec spec);

// An encoder that requires the columns of `spec`, whose classes and edges may not be known yet.
// InvalidArgument: those of FeatureEncoder::Create().
StatusOr<FeatureEncoder> EncoderOfColumns(FeatureSpec spec);

// Sets the default numbers of hashed features of a new job, whose classes are known, where the spec
// has none. May be empty.
using SetBuckets = std::function<void(FeatureSpec&)>;

// Sets the numbers of hashed features that are not `given` to those that the job has published,
// whose defaults may have been others, or of a new job (null) to the defaults.
void AgreeOnBuckets(const FeatureSpec* published, const FeatureSpec& given,
                    const SetBuckets& set_defaults, FeatureSpec& spec);

// The same without the label among the columns of its features: crosses of it are left out, too.
FeatureSpec WithoutLabel(FeatureSpec spec);

// What decides, beside the settings, how the rows of a new job are dealt.
struct StreamTraits {
  // Nobody knows how fast rows come: the input is a pipe or a file that is followed, or only
  // features are published.
  bool is_live = false;
  bool is_for_one_worker = false;  // the label's level moves (LevelVerdict)
};

// How the rows of a new job are dealt. What tells most about a row are its neighbours in the
// stream, so turns are long where rows come as fast as they are taken, and become longer. Where
// they come at a rate, a turn lasts a tenth of a second and has no more rows than the default
// batch, since a round of all workers waits for all turns of it. Of a live stream it is one row.
// If it is for one worker, all rows are dealt to worker 0, which learns from each before the next
// one; the others have none.
Dealing DealingOfNewJob(const JobConfig& config, const StreamTraits& traits);

// The same, but the job keeps what it has published, unless another number of rows is given:
// publishing refuses that. DataLoss: what is published makes no sense.
StatusOr<Dealing> AgreeOnDealing(const JobConfig& config, const StreamTraits& traits,
                                 const std::optional<JobFeatures>& published);

// What is published of a spec that is complete. Errors: those of AgreeOnDealing; InvalidArgument:
// the spec is not.
StatusOr<JobFeatures> FeaturesOf(const JobConfig& config, const FeatureSpec& spec,
                                 const StreamTraits& traits,
                                 const std::optional<JobFeatures>& published);

// The same of a job that has published its features: what `config` does not say is as it was then
// (classes, edges, buckets, turns).
StatusOr<JobFeatures> FeaturesAsBegun(const JobConfig& config, const JobFeatures& published);

}  // namespace millrace
