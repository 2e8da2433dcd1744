#include "producer/job_features.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "features/category_hasher.h"
#include "features/missing_tokens.h"
#include "features/name_list.h"
#include "features/quantile_bins.h"
#include "features/spec_checks.h"
#include "features/time_parts.h"
#include "topics/partitioning.h"

namespace millrace {
namespace {

// Those of each time of which none is named.
void AddTimeParts(FeatureSpec& spec) {
  for (const std::string& time : spec.times()) {
    if (UsesTimeParts(spec, time)) continue;
    for (const TimePart part : kTimeParts) {
      const std::string name = NameOfTimePart(time, part);
      if (part == TimePart::kDays) {
        spec.add_numeric(name);
      } else {
        spec.add_categorical(TermOfColumn(name));
      }
    }
  }
}

// A column in a term of bins, where "all" would be others.
std::string BinsOf(const std::string& column) {
  return column == "all" ? "\"all\"" : TermOfColumn(column);
}

void TakeBuckets(const FeatureSpec& from, const FeatureSpec& given, FeatureSpec& spec) {
  if (!given.has_categorical_buckets()) spec.set_categorical_buckets(from.categorical_buckets());
  if (!given.has_text_buckets()) spec.set_text_buckets(from.text_buckets());
}

}  // namespace

FeatureSpec CompleteSpec(FeatureSpec spec) {
  // An unset field reads as its default.
  spec.set_categorical_buckets(spec.categorical_buckets());
  spec.set_text_buckets(spec.text_buckets());
  spec.set_missing(spec.missing());
  for (const std::string& column : spec.booleans()) {
    const auto& numeric = spec.numeric();
    if (std::find(numeric.begin(), numeric.end(), column) == numeric.end()) {
      spec.add_numeric(column);
    }
  }
  AddTimeParts(spec);
  if (!spec.decimal_comma()) spec.clear_decimal_comma();
  // Where they mean nothing they are no difference.
  const bool has_numbers = !spec.numeric().empty() || !spec.bins().empty() || !spec.times().empty();
  const bool means_nothing = !has_numbers || spec.missing() == FeatureSpec::REJECT;
  if (means_nothing) {
    spec.clear_missing_tokens();
  } else if (spec.missing_tokens().empty()) {
    for (const std::string_view token : CommonMissingTokens()) {
      spec.add_missing_tokens(std::string(token));
    }
  }
  // What is wrong with them ValidateColumns() says.
  if (const auto columns = BinnedColumns(spec); columns.ok()) {
    spec.clear_bins();
    for (const BinnedColumn& each : *columns) {
      spec.add_bins(absl::StrCat(BinsOf(each.column), ":", each.bins));
    }
  }
  return spec;
}

StatusOr<FeatureEncoder> EncoderOfColumns(FeatureSpec spec) {
  if (spec.bin_edges().empty()) {
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<BinnedColumn> binned, BinnedColumns(spec));
    for (const BinnedColumn& each : binned) spec.add_bin_edges()->set_column(each.column);
  }
  const bool classes_known = spec.classes_size() > 0 || spec.regression();
  return classes_known ? FeatureEncoder::Create(spec) : FeatureEncoder::CreateWithoutClasses(spec);
}

void AgreeOnBuckets(const FeatureSpec* published, const FeatureSpec& given,
                    const SetBuckets& set_defaults, FeatureSpec& spec) {
  if (published != nullptr) return TakeBuckets(*published, given, spec);
  FeatureSpec chosen = spec;
  if (!given.has_categorical_buckets()) chosen.clear_categorical_buckets();
  if (!given.has_text_buckets()) chosen.clear_text_buckets();
  if (set_defaults) set_defaults(chosen);
  TakeBuckets(chosen, given, spec);
}

FeatureSpec WithoutLabel(FeatureSpec spec) {
  const std::string& label = spec.label();
  const auto erase = [](google::protobuf::RepeatedPtrField<std::string>* names,
                        const auto& is_unwanted) {
    names->erase(std::remove_if(names->begin(), names->end(), is_unwanted), names->end());
  };
  const auto is_label = [&](const std::string& name) { return name == label; };
  const std::vector<std::string> labels = {label};
  const auto is_of_label = [&](const std::string& name) {
    return name == label || FindTimePart(labels, name).has_value();
  };
  const bool is_time =
      std::find(spec.times().begin(), spec.times().end(), label) != spec.times().end();
  const auto has_label = [&](const std::string& term) {
    const std::vector<std::string> columns = ColumnsOfTerm(term);
    return is_time ? std::any_of(columns.begin(), columns.end(), is_of_label)
                   : std::any_of(columns.begin(), columns.end(), is_label);
  };
  const auto bins_label = [&](const std::string& item) {
    FeatureSpec alone;
    alone.add_bins(item);
    const auto columns = BinnedColumns(alone);  // an error: of "all"
    return columns.ok() && is_label(columns->front().column);
  };
  for (auto* names : {spec.mutable_numeric(), spec.mutable_booleans(), spec.mutable_text()}) {
    erase(names, is_label);
  }
  if (is_time) erase(spec.mutable_numeric(), is_of_label);
  erase(spec.mutable_categorical(), has_label);
  erase(spec.mutable_ids(), has_label);
  erase(spec.mutable_bins(), bins_label);
  erase(spec.mutable_times(), is_label);
  return spec;
}

Dealing DealingOfNewJob(const JobConfig& config, const StreamTraits& traits) {
  constexpr double kLongestTurnS = 0.1;
  constexpr uint32_t kMostPaced = 32;  // rows of the default batch
  const Producer& settings = config.producer();
  Dealing dealing{.workers = config.workers()};
  if (settings.has_rows_per_turn()) {
    dealing.rows_per_turn = settings.rows_per_turn();
  } else if (settings.rate() > 0) {
    dealing.rows_per_turn =
        static_cast<uint32_t>(std::clamp(kLongestTurnS * settings.rate(), 1.0, double{kMostPaced}));
  } else if (!traits.is_live && settings.time_column().empty()) {
    dealing.rows_per_turn = 256;
    dealing.most_rows_per_turn = 1024;
  }
  if (traits.is_for_one_worker) dealing.workers = 1;
  return dealing;
}

StatusOr<Dealing> AgreeOnDealing(const JobConfig& config, const StreamTraits& traits,
                                 const std::optional<JobFeatures>& published) {
  const Producer& settings = config.producer();
  if (!published) return DealingOfNewJob(config, traits);
  Dealing dealing = DealingOf(*published);
  if (published->dealt_workers() == 0) dealing.workers = config.workers();
  if (settings.has_rows_per_turn() && settings.rows_per_turn() != dealing.rows_per_turn) {
    return DealingOfNewJob(config, traits);
  }
  const auto wrong = [](const std::string& what) {
    return absl::DataLossError(
        absl::StrCat("the job topic holds invalid settings: ", what,
                     ". Another program may have written them. Start a new job (another --job)"));
  };
  const uint32_t most = std::max(dealing.rows_per_turn, dealing.most_rows_per_turn);
  if (most > Dealing::kMostRowsPerTurn) return wrong(absl::StrCat("turns of ", most, " rows"));
  if (published->dealt_workers() > published->workers()) {
    return wrong(absl::StrCat("rows for ", published->dealt_workers(), " workers of ",
                              published->workers()));
  }
  return dealing;
}

StatusOr<JobFeatures> FeaturesOf(const JobConfig& config, const FeatureSpec& spec,
                                 const StreamTraits& traits,
                                 const std::optional<JobFeatures>& published) {
  MILLRACE_ASSIGN_OR_RETURN(const Dealing dealing, AgreeOnDealing(config, traits, published));
  MILLRACE_ASSIGN_OR_RETURN(const FeatureEncoder encoder, FeatureEncoder::Create(spec));
  JobFeatures features;
  features.set_job(config.name());
  features.set_epoch(config.epoch());
  features.set_workers(config.workers());
  const bool is_same = published && DealingOf(*published) == dealing;
  features.set_rows_per_turn(is_same ? published->rows_per_turn() : dealing.rows_per_turn);
  features.set_most_rows_per_turn(is_same ? published->most_rows_per_turn()
                                          : dealing.most_rows_per_turn);
  if (dealing.workers < config.workers()) features.set_dealt_workers(dealing.workers);
  *features.mutable_spec() = spec;
  features.set_feature_count(encoder.feature_count());
  return features;
}

StatusOr<JobFeatures> FeaturesAsBegun(const JobConfig& config, const JobFeatures& published) {
  FeatureSpec spec =
      CompleteSpec(config.producer().label_may_be_listed() ? WithoutLabel(config.features())
                                                           : config.features());
  if (spec.classes_size() == 0 && !spec.regression()) {
    *spec.mutable_classes() = published.spec().classes();
  }
  if (!spec.bins().empty() && spec.bin_edges().empty()) {
    *spec.mutable_bin_edges() = published.spec().bin_edges();
  }
  AgreeOnBuckets(&published.spec(), config.features(), {}, spec);
  return FeaturesOf(config, spec, {.is_live = true}, published);
}

}  // namespace millrace
