#include "apps/run_setup.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "apps/flag_field.h"
#include "apps/flag_table.h"
#include "apps/version.h"
#include "base/crc32c.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "metrics/job_progress.h"
#include "topics/metric_point_codec.h"
#include "topics/partitioning.h"

namespace millrace {
namespace {

// Most texts are folders, addresses and files, which are nobody's business who may read `metrics`.
constexpr std::string_view kTexts[] = {"features.label", "producer.time_column", "csv.delimiter"};
// Of these, without their folders.
constexpr std::string_view kFiles[] = {"producer.input", "server.test_file"};

// Fit to be shown and to be sent. Long lists that differ must not become equal.
std::string Fit(const std::string& text) {
  constexpr size_t kLongest = kMostTextBytes - 100;
  const bool is_plain = IsValidUtf8(text) && !HasControls(text);
  std::string fit = is_plain ? text : Printable(text, kMostTextBytes);
  if (text.size() <= kLongest && fit.size() <= kLongest) return fit;
  fit.resize(std::min(fit.size(), kLongest));
  while (!IsValidUtf8(fit)) fit.pop_back();
  return absl::StrFormat("%s... (%d bytes, CRC-32C %08x)", fit, text.size(), Crc32c(text));
}

std::optional<std::string> SettingText(const Flag& flag, const JobConfig& config) {
  const std::string_view path = flag.field;
  if (path == "training.consistency") {
    const std::string name = ConsistencyName(config.training());
    return name == flag.otherwise ? std::nullopt : std::optional<std::string>(name);
  }
  const FlagField field{std::string(path)};
  if (field.is_message()) return std::nullopt;  // settings of Kafka: some are passwords
  const bool is_file = std::ranges::count(kFiles, path) > 0;
  if (field.type_name() == "TEXT" && !is_file && std::ranges::count(kTexts, path) == 0) {
    return std::nullopt;
  }
  std::optional<std::string> text = field.TextOf(config);
  if (text && is_file) text = std::filesystem::path(*text).filename().string();
  return text;
}

void AddSetting(const std::string& flag, const std::string& value, MetricPoint::Setup& setup) {
  MetricPoint::Setup::Setting& setting = *setup.add_setting();
  setting.set_flag(flag);
  setting.set_value(Fit(value));
}

void AddSettings(const JobConfig& config, const std::set<FlagUser>& users,
                 MetricPoint::Setup& setup) {
  for (const FlagGroup& group : FlagGroups()) {
    if (!users.contains(group.user)) continue;
    for (const Flag& flag : group.flags) {
      const std::vector<std::string> names = absl::StrSplit(flag.name, ',');
      if (const auto text = SettingText(flag, config)) AddSetting(names.front(), *text, setup);
    }
  }
}

}  // namespace

MetricPoint::Setup ServerSetup(const JobConfig& config, const JobFeatures& features,
                               const JobTraining& training, int64_t training_published_ms) {
  MetricPoint::Setup setup;
  setup.set_version(MillraceVersion());
  if (training_published_ms <= kMostTimestampMs) setup.set_job_started_ms(training_published_ms);
  setup.set_feature_count(features.feature_count());
  if (!features.spec().regression()) {
    setup.set_class_count(static_cast<uint32_t>(features.spec().classes_size()));
  }
  JobConfig agreed = config;
  *agreed.mutable_features() = features.spec();
  *agreed.mutable_training() = training.training();
  AddSettings(agreed, {FlagUser::kAll, FlagUser::kFeatures, FlagUser::kTraining, FlagUser::kServer},
              setup);
  const Dealing dealing = DealingOf(features);
  if (dealing.workers < features.workers()) {
    AddSetting(FlagOfField("producer.rows_per_turn"),
               absl::StrCat("all to ", dealing.workers, " of ", features.workers(), " workers"),
               setup);
  } else if (dealing.most_rows_per_turn > dealing.rows_per_turn) {
    AddSetting(FlagOfField("producer.rows_per_turn"),
               absl::StrCat(dealing.rows_per_turn, " to ", dealing.most_rows_per_turn), setup);
  } else if (dealing.rows_per_turn > 1) {
    AddSetting(FlagOfField("producer.rows_per_turn"), absl::StrCat(dealing.rows_per_turn), setup);
  }
  if (!training.start().empty()) {
    AddSetting(FlagOfField("server.from_snapshot"), training.start(), setup);
  }
  return setup;
}

MetricPoint::Setup ProducerSetup(const JobConfig& config) {
  MetricPoint::Setup setup;
  setup.set_version(MillraceVersion());
  AddSettings(config, {FlagUser::kProducer}, setup);
  return setup;
}

}  // namespace millrace
