#include "producer/job_features.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "features/missing_tokens.h"
#include "features/quantile_bins.h"

namespace millrace {

FeatureSpec CompleteSpec(FeatureSpec spec) {
  // An unset field reads as its default.
  spec.set_categorical_buckets(spec.categorical_buckets());
  spec.set_text_buckets(spec.text_buckets());
  spec.set_missing(spec.missing());
  // Where they mean nothing they are no difference.
  const bool has_numbers = !spec.numeric().empty() || !spec.bins().empty();
  const bool means_nothing = !has_numbers || spec.missing() == FeatureSpec::REJECT;
  if (means_nothing) {
    spec.clear_missing_tokens();
  } else if (spec.missing_tokens().empty()) {
    for (const std::string_view token : CommonMissingTokens()) {
      spec.add_missing_tokens(std::string(token));
    }
  }
  if (spec.text().empty()) spec.clear_text();
  // What is wrong with them ValidateColumns() says.
  if (const auto columns = BinnedColumns(spec); columns.ok()) {
    spec.clear_bins();
    for (const BinnedColumn& each : *columns) {
      spec.add_bins(absl::StrCat(each.column, ":", each.bins));
    }
  }
  return spec;
}

uint32_t RowsPerTurnOf(const Producer& settings, bool is_pipe) {
  constexpr double kLongestTurnS = 0.1;
  constexpr uint32_t kMostPaced = 32;  // rows of the default batch
  if (settings.has_rows_per_turn()) return settings.rows_per_turn();
  if (settings.rate() > 0) {
    return static_cast<uint32_t>(
        std::clamp(kLongestTurnS * settings.rate(), 1.0, double{kMostPaced}));
  }
  return is_pipe || !settings.time_column().empty() ? 1 : 256;
}

}  // namespace millrace
