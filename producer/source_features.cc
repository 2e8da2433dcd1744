#include "producer/source_features.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "features/spec_checks.h"
#include "job/job_registry.h"

namespace millrace {
namespace {

FeatureSpec SpecOf(const JobConfig& config) {
  return CompleteSpec(config.producer().label_may_be_listed() ? WithoutLabel(config.features())
                                                              : config.features());
}

Status SetClasses(const std::optional<JobFeatures>& published, const SourceSearches& searches,
                  FeatureSpec& spec) {
  if (spec.classes_size() > 0 || spec.regression()) return absl::OkStatus();
  if (published) {
    *spec.mutable_classes() = published->spec().classes();
    return absl::OkStatus();
  }
  MILLRACE_ASSIGN_OR_RETURN(const FeatureEncoder checker,
                            FeatureEncoder::CreateWithoutClasses(spec));
  MILLRACE_ASSIGN_OR_RETURN(const ClassScan scan, searches.find_classes(checker));
  spec.mutable_classes()->Assign(scan.classes.begin(), scan.classes.end());
  return absl::OkStatus();
}

Status SetEdges(const std::optional<JobFeatures>& published, FeatureSpec& spec) {
  if (spec.bins().empty() || !spec.bin_edges().empty()) return absl::OkStatus();
  if (!published) {
    return absl::FailedPreconditionError(
        "--bins needs edges, which CsvProducer finds in the first rows of a file: publish them by "
        "CsvProducer --features-only with a file of such rows, or leave --bins out");
  }
  *spec.mutable_bin_edges() = published->spec().bin_edges();
  return absl::OkStatus();
}

}  // namespace

StatusOr<FeatureEncoder> CheckSourceFeatures(const JobConfig& config) {
  const FeatureSpec spec = SpecOf(config);
  MILLRACE_RETURN_IF_ERROR(ValidateColumns(spec));
  return EncoderOfColumns(spec);
}

StatusOr<JobFeatures> AgreeOnSourceFeatures(const JobConfig& config, const SourceSearches& searches,
                                            const SetBuckets& set_default_buckets,
                                            const std::atomic<bool>& stop) {
  FeatureSpec spec = SpecOf(config);
  MILLRACE_ASSIGN_OR_RETURN(const auto registry, JobRegistry::Create(config, stop));
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<JobFeatures> published, registry->ReadFeatures());
  MILLRACE_RETURN_IF_ERROR(SetClasses(published, searches, spec));
  if (!published) MILLRACE_RETURN_IF_ERROR(CheckCrossesOfNumbers(spec));
  AgreeOnBuckets(published ? &published->spec() : nullptr, config.features(), set_default_buckets,
                 spec);
  MILLRACE_RETURN_IF_ERROR(SetEdges(published, spec));
  StreamTraits traits{.is_live = true};
  if (!published) {
    MILLRACE_ASSIGN_OR_RETURN(traits.is_for_one_worker, searches.is_for_one_worker(spec));
  }
  MILLRACE_ASSIGN_OR_RETURN(JobFeatures features, FeaturesOf(config, spec, traits, published));
  MILLRACE_RETURN_IF_ERROR(registry->PublishFeatures(features));
  return features;
}

}  // namespace millrace
