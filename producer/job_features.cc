#include "producer/job_features.h"

#include <string>
#include <string_view>

#include "features/missing_tokens.h"

namespace millrace {

FeatureSpec CompleteSpec(FeatureSpec spec) {
  // An unset field reads as its default.
  spec.set_categorical_buckets(spec.categorical_buckets());
  spec.set_text_buckets(spec.text_buckets());
  spec.set_missing(spec.missing());
  // Where they mean nothing they are no difference.
  const bool means_nothing = spec.numeric().empty() || spec.missing() == FeatureSpec::REJECT;
  if (means_nothing) {
    spec.clear_missing_tokens();
  } else if (spec.missing_tokens().empty()) {
    for (const std::string_view token : CommonMissingTokens()) {
      spec.add_missing_tokens(std::string(token));
    }
  }
  if (spec.text().empty()) spec.clear_text();
  return spec;
}

}  // namespace millrace
