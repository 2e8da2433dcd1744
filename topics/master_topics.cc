#include "topics/master_topics.h"

#include "base/check.h"

namespace millrace {

std::string MasterTopicName(std::string_view job, MasterTopic topic) {
  return std::string(job) + (topic == MasterTopic::kControl ? ".control" : ".plan");
}

std::vector<std::pair<std::string, std::string>> MasterTopicConfig(MasterTopic topic) {
  // As those of the other topics (topics/topics.cc). Brokers free whole segments only.
  std::vector<std::pair<std::string, std::string>> settings = {
      {"max.message.bytes", "1048588"},
      {"segment.bytes", "33554432"},
      {"unclean.leader.election.enable", "false"}};
  switch (topic) {
    case MasterTopic::kControl:
      // Neither time nor size may take what is not folded yet: only the master deletes.
      settings.insert(
          settings.end(),
          {{"cleanup.policy", "delete"}, {"retention.ms", "-1"}, {"retention.bytes", "-1"}});
      return settings;
    case MasterTopic::kPlan:
      // As `parameters`: what a reader has not reached yet is not compacted away under it, and what
      // it has to read stays short, although the state is written each second.
      settings.insert(settings.end(), {{"cleanup.policy", "compact"},
                                       {"min.compaction.lag.ms", "60000"},
                                       {"max.compaction.lag.ms", "300000"},
                                       {"delete.retention.ms", "604800000"}});
      return settings;
  }
  MILLRACE_CHECK(false);
}

}  // namespace millrace
