#include "producer/source_checks.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "producer/late_labels.h"
#include "topics/master_topics.h"
#include "topics/topics.h"

namespace millrace {

Status CheckSourceOptions(const JobConfig& config, const SourceRun::Options& options) {
  if (options.topic.empty()) return absl::InvalidArgumentError("no topic: give --topic NAME");
  std::vector<std::string> own;
  for (const Topic topic : kAllTopics) own.push_back(TopicName(config.name(), topic));
  for (const MasterTopic topic : kMasterTopics) {
    own.push_back(MasterTopicName(config.name(), topic));
  }
  for (const std::string& name : own) {
    if (name != options.topic && name != options.labels.topic) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name == options.topic ? "--topic: " : "--labels-from: ", name,
                     " is a topic of the job itself"));
  }
  return CheckLateLabels(options.labels, options.topic);
}

}  // namespace millrace
