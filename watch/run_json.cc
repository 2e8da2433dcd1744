#include "watch/run_json.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "base/utc_time.h"
#include "metrics/source_counts.h"

namespace millrace {
namespace {

using Json = nlohmann::ordered_json;

Json Time(std::optional<int64_t> ms) { return ms ? Json(UtcTime(*ms)) : Json(); }

// By flag; of a switch true.
Json SettingsJson(const JobProgress& job) {
  Json all = Json::object();
  const auto add = [&all](const MetricPoint::Setup& setup) {
    for (const MetricPoint::Setup::Setting& setting : setup.setting()) {
      all[setting.flag()] = setting.value().empty() ? Json(true) : Json(setting.value());
    }
  };
  if (job.server()) add(job.server()->setup());
  if (job.producer()) add(job.producer()->setup());
  return all;
}

Json LabelsJson(const SourceState::Labels& labels) {
  return {{"topic", labels.topic()},
          {"matched", labels.matched()},
          {"defaulted", labels.defaulted()},
          {"unmatched", labels.unmatched()},
          {"labels", labels.labels()},
          {"unused", labels.unused()},
          {"dead_letters", labels.dead_letters()},
          {"tombstones", labels.tombstones()},
          {"lost", labels.lost()}};
}

// Null: the rows are not those of a topic, or it is not known.
Json SourceJson(const JobProgress& job) {
  if (!job.producer()) return nullptr;
  const std::optional<SourceState> source = SourceCountsOf(*job.producer());
  if (!source) return nullptr;
  return {{"topic", source->topic()},
          {"rows", source->rows()},
          {"dead_letters", source->dead_letters()},
          {"tombstones", source->tombstones()},
          {"lost", source->lost()},
          {"labels", source->has_labels() ? LabelsJson(source->labels()) : Json()}};
}

}  // namespace

Json RunJson(const JobProgress& job) {
  Json versions = Json::object();
  for (const auto& [program, known] : job.versions()) versions[program] = known;
  Json json = {{"started_at", Time(job.started_ms())},
               {"ended_at", Time(job.ended_ms())},
               {"versions", std::move(versions)},
               {"shards", nullptr},
               {"seed", nullptr},
               {"feature_count", nullptr},
               {"class_count", nullptr},
               {"settings", nullptr},
               {"source", SourceJson(job)}};
  if (!job.server()) return json;
  const MetricPoint::Setup& setup = job.server()->setup();
  json["shards"] = job.server()->shards();
  json["seed"] = job.server()->training().embedding().seed();
  if (setup.feature_count() > 0) json["feature_count"] = setup.feature_count();
  if (setup.class_count() > 0) json["class_count"] = setup.class_count();
  if (job.server()->has_setup()) json["settings"] = SettingsJson(job);
  return json;
}

}  // namespace millrace
