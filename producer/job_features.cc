#include "producer/job_features.h"

namespace millrace {

FeatureSpec CompleteSpec(FeatureSpec spec) {
  // An unset field reads as its default.
  spec.set_categorical_buckets(spec.categorical_buckets());
  spec.set_text_buckets(spec.text_buckets());
  spec.set_missing(spec.missing());
  if (spec.text().empty()) spec.clear_text();
  return spec;
}

}  // namespace millrace
