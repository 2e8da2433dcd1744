#include "topics/topics.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "messages/job.pb.h"
#include "topics/frame.h"

namespace millrace {
namespace {

constexpr std::string_view kLayout = ".layout-";

std::string_view Suffix(Topic topic) {
  switch (topic) {
    case Topic::kJob:
      return "job";
    case Topic::kInputData:
      return "input-data";
    case Topic::kGradients:
      return "gradients";
    case Topic::kWeights:
      return "weights";
    case Topic::kParameters:
      return "parameters";
    case Topic::kMetrics:
      return "metrics";
    case Topic::kDeadLetter:
      return "dead-letter";
  }
  MILLRACE_CHECK(false);
}

uint32_t Partitions(Topic topic, uint32_t workers, const TopicSizes& sizes) {
  switch (topic) {
    case Topic::kInputData:
      return workers;
    case Topic::kWeights:
      return sizes.most_workers + sizes.groups;  // SharedWeightsPartition
    case Topic::kGradients:
    case Topic::kParameters:
      return sizes.shards;
    case Topic::kJob:
    case Topic::kMetrics:
    case Topic::kDeadLetter:
      return 1;
  }
  MILLRACE_CHECK(false);
}

using Settings = std::vector<std::pair<std::string, std::string>>;

Settings KindConfig(Topic topic) {
  // Kafka's default, so that a cluster with a lower one takes our frames too.
  const std::pair<std::string, std::string> frames = {"max.message.bytes", "1048588"};
  // Brokers free whole segments only, so what is deleted soon stands in small ones.
  const std::pair<std::string, std::string> small_segments = {"segment.bytes", "33554432"};
  const std::pair<std::string, std::string> for_ever = {"retention.ms", "-1"};
  const std::pair<std::string, std::string> any_size = {"retention.bytes", "-1"};
  const std::pair<std::string, std::string> deleted = {"cleanup.policy", "delete"};
  const std::pair<std::string, std::string> compacted = {"cleanup.policy", "compact"};
  switch (topic) {
    case Topic::kInputData:
      // Neither time nor size may take what a task still needs: only its owner deletes.
      return {deleted, for_ever, any_size, small_segments, frames};
    case Topic::kGradients:
      // The log's time says which embedding rows have expired: no worker's clock may set it.
      return {deleted,        for_ever, any_size,
              small_segments, frames,   {"message.timestamp.type", "LogAppendTime"}};
    case Topic::kWeights:
      return {deleted,
              {"retention.ms", "600000"},
              {"retention.bytes", "134217728"},
              small_segments,
              frames};
    case Topic::kParameters:
      // A reader that starts at the beginning is consistent only at the end, so nothing newer than
      // such a read lasts is compacted away (min.compaction.lag.ms).
      return {compacted,
              {"segment.bytes", "33554432"},
              {"min.compaction.lag.ms", "60000"},
              {"max.compaction.lag.ms", "300000"},
              {"delete.retention.ms", "604800000"},
              frames};
    case Topic::kJob:
      return {compacted, frames};
    case Topic::kMetrics:
      return {deleted, {"retention.ms", "604800000"}, small_segments, frames};
    case Topic::kDeadLetter:
      // Whole records, so they hold what rows hold: long enough to be looked at, but no longer.
      return {deleted, {"retention.ms", "2592000000"}, any_size, frames};
  }
  MILLRACE_CHECK(false);
}

Settings Config(Topic topic) {
  Settings settings = KindConfig(topic);
  // A replica that lags never becomes the leader: acknowledged records would vanish, and their
  // offsets would name others.
  settings.emplace_back("unclean.leader.election.enable", "false");
  return settings;
}

}  // namespace

std::string TopicName(std::string_view job, Topic topic) {
  return std::string(job) + "." + std::string(Suffix(topic));
}

// Those whose partitions depend on the number of shards, and `weights`, in which a late answer of a
// shard of another layout must not be met.
bool IsOfLayout(Topic topic) {
  return topic == Topic::kGradients || topic == Topic::kParameters || topic == Topic::kWeights;
}

std::string TopicName(const JobConfig& config, Topic topic) {
  return TopicName(IsOfLayout(topic) ? LayoutName(config) : config.name(), topic);
}

std::string LayoutName(std::string_view job, uint32_t layout) {
  return layout == 0 ? std::string(job)
                     : std::string(job) + std::string(kLayout) + std::to_string(layout);
}

bool IsNameOfLayout(std::string_view name) {
  const size_t at = name.rfind(kLayout);
  if (at == std::string_view::npos) return false;
  const std::string_view number = name.substr(at + kLayout.size());
  return !number.empty() &&
         std::ranges::all_of(number, [](char c) { return '0' <= c && c <= '9'; });
}

std::string LayoutName(const JobConfig& config) {
  return LayoutName(config.name(), config.layout());
}

std::vector<TopicPlan> PlanTopics(std::string_view job, uint32_t workers,
                                  const std::optional<TopicSizes>& sizes, uint32_t layout) {
  MILLRACE_CHECK(workers >= 1 && (!sizes || (sizes->shards >= 1 && sizes->most_workers >= 1 &&
                                             sizes->groups >= 1)));
  std::vector<TopicPlan> plans;
  for (Topic topic : kAllTopics) {
    if (IsOfLayout(topic) && !sizes) continue;
    const std::string name = IsOfLayout(topic) ? LayoutName(job, layout) : std::string(job);
    plans.push_back({topic, TopicName(name, topic),
                     Partitions(topic, workers, sizes.value_or(TopicSizes())), Config(topic)});
  }
  return plans;
}

}  // namespace millrace
