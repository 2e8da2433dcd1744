#include "kafka/topic_rules.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "kafka/client_log.h"

namespace millrace::kafka_internal {
namespace {

int64_t Number(std::string_view text) {
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::vector<std::string> SortedPolicies(std::string_view text) {
  std::vector<std::string> parts{""};
  for (const char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else if (c != ' ') {
      parts.back() += c;
    }
  }
  std::ranges::sort(parts);
  return parts;
}

// Whether a topic with the setting `found` takes and keeps all that one with `wanted` does, with
// the times that the job needs.
bool KeepsData(std::string_view name, std::string_view wanted, std::string_view found) {
  if (name == "cleanup.policy") return SortedPolicies(found) == SortedPolicies(wanted);
  if (name == "max.message.bytes") return Number(found) >= Number(wanted);
  if (name == "unclean.leader.election.enable") return found == wanted || found == "false";
  if (name == "message.timestamp.type") return found == wanted;
  const bool keeps_all = name.starts_with("retention.") && wanted == "-1";
  return !keeps_all || found == "-1";
}

void AddName(std::string& names, std::string_view name) {
  absl::StrAppend(&names, names.empty() ? "" : ", ", View(name));
}

}  // namespace

int FoundTopic::min_insync() const {
  const auto found = settings.find("min.insync.replicas");
  return found == settings.end() ? 1 : static_cast<int>(Number(found->second));
}

int WantedMinInsync(int replicas) { return replicas >= 3 ? 2 : 1; }

Status CheckTopic(const TopicSettings& wanted, const FoundTopic& found) {
  if (found.partitions != wanted.partitions) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "topic '%s' has %d partitions, but this job needs %d: use another job name (topic "
        "prefix), or delete the topic, or run with the number it has",
        wanted.name, found.partitions, wanted.partitions));
  }
  for (const auto& [name, value] : wanted.config) {
    const auto setting = found.settings.find(name);
    if (setting == found.settings.end() || KeepsData(name, value, setting->second)) continue;
    return absl::FailedPreconditionError(absl::StrFormat(
        "topic '%s' has %s=%s, but this job needs %s: use another job name (topic prefix), or "
        "delete the topic, or change the setting with Kafka's kafka-configs",
        wanted.name, name, setting->second, value));
  }
  if (found.replicas > 0 && found.min_insync() > found.replicas) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "topic '%s' has min.insync.replicas=%d but only %d replicas: no record could be written. "
        "Delete "
        "the topic and give --replication-factor %d, or set min.insync.replicas=%d with Kafka's "
        "kafka-configs",
        wanted.name, found.min_insync(), found.replicas, found.min_insync(),
        WantedMinInsync(found.replicas)));
  }
  return absl::OkStatus();
}

void DurabilityReport::Add(std::string_view topic, const FoundTopic& found) {
  MILLRACE_CHECK(found.replicas >= 1 && found.brokers >= 1);
  brokers_ = std::max(brokers_, found.brokers);
  if (found.min_insync() < WantedMinInsync(found.replicas)) AddName(one_broker_confirms_, topic);
  if (found.replicas == 1 && found.brokers > 1) AddName(one_replica_, topic);
}

std::vector<std::string> DurabilityReport::Sentences() const {
  std::vector<std::string> sentences;
  if (!one_broker_confirms_.empty()) {
    sentences.push_back(absl::StrCat(
        "a record of ", one_broker_confirms_,
        " counts as written when one broker has it (min.insync.replicas=1), and is lost with that "
        "broker's disk: set min.insync.replicas=2 with Kafka's kafka-configs"));
  }
  if (!one_replica_.empty()) {
    sentences.push_back(
        absl::StrCat("there is one replica of ", one_replica_, " on a cluster of ", brokers_,
                     " brokers: the job's data is lost with one disk, and the job waits while its "
                     "broker is down; give a new job --replication-factor 3"));
  }
  return sentences;
}

}  // namespace millrace::kafka_internal
