#include "kafka/admin.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/line_sink.h"
#include "kafka/brokers_text.h"
#include "kafka/client_config.h"
#include "kafka/client_log.h"
#include "kafka/rdkafka_handles.h"
#include "kafka/status_of_error.h"
#include "kafka/topic_metadata.h"
#include "kafka/topic_rules.h"

namespace millrace {
namespace {

using kafka_internal::FoundTopic;
using kafka_internal::Handle;
using kafka_internal::StatusOfError;
using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

constexpr milliseconds kLookTimeout(5000);
constexpr milliseconds kRequestTimeout(15000);
// A broker that has just come up has no controller yet, and a new topic is not known at once.
constexpr milliseconds kMostWait(30000);
constexpr milliseconds kPause(50);
constexpr char kMinInsync[] = "min.insync.replicas";
int Milliseconds(SteadyClock::duration time) {
  const auto count = std::chrono::ceil<milliseconds>(time).count();
  return static_cast<int>(std::clamp<int64_t>(count, 1, 1 << 30));
}

std::map<std::string, std::string, std::less<>> SettingsOf(
    const rd_kafka_ConfigResource_t* resource) {
  std::map<std::string, std::string, std::less<>> settings;
  size_t count = 0;
  const rd_kafka_ConfigEntry_t** const configs = rd_kafka_ConfigResource_configs(resource, &count);
  for (size_t i = 0; i < count; ++i) {
    const char* const value = rd_kafka_ConfigEntry_value(configs[i]);
    settings[rd_kafka_ConfigEntry_name(configs[i])] = value != nullptr ? value : "";
  }
  return settings;
}

class LibrdkafkaAdmin final : public KafkaAdmin {
 public:
  Status Open(const KafkaOptions& kafka, const std::string& client_id);

  Status WaitForBroker(const std::function<bool()>& cancelled) override;
  Status EnsureTopics(const std::vector<TopicSettings>& topics, int replication_factor) override;
  StatusOr<int32_t> PartitionCount(const std::string& topic) override;
  StatusOr<std::vector<std::string>> ListTopics() override;
  Status DeleteRecordsBefore(const std::string& topic, int32_t partition, Offset offset,
                             milliseconds timeout) override;
  Status DeleteTopics(const std::vector<std::string>& topics, milliseconds timeout) override;

 private:
  // Makes an admin request by `send`, which puts its answer into the queue it is given.
  template <typename Send>
  StatusOr<Handle<rd_kafka_event_t>> Request(rd_kafka_admin_op_t kind, milliseconds timeout,
                                             const std::string& context, const Send& send);
  // Adds the names of the topics that it has created.
  Status Create(const std::vector<const TopicSettings*>& topics, int replication_factor,
                std::set<std::string>& created);
  StatusOr<FoundTopic> LookUp(const std::string& topic);
  // In the order of the topics. NotFound too when one is so new that no broker knows its partitions
  // yet.
  std::vector<StatusOr<FoundTopic>> Describe(const std::vector<const TopicSettings*>& topics);
  // Adds the settings of those that were found, all by one request.
  Status AddSettings(const std::vector<const TopicSettings*>& topics,
                     std::vector<StatusOr<FoundTopic>>& found);
  Status SetMinInsync(const TopicSettings& topic, FoundTopic& found);

  KafkaOptions kafka_;
  Handle<rd_kafka_t> client_;
};

Status LibrdkafkaAdmin::Open(const KafkaOptions& kafka, const std::string& client_id) {
  kafka_ = kafka;
  MILLRACE_ASSIGN_OR_RETURN(auto conf, kafka_internal::MakeConfiguration(kafka, client_id, {}));
  // A producer would do as well; a consumer without a group is the client that does least.
  MILLRACE_ASSIGN_OR_RETURN(client_,
                            kafka_internal::MakeClient(RD_KAFKA_CONSUMER, std::move(conf)));
  return absl::OkStatus();
}

Status LibrdkafkaAdmin::WaitForBroker(const std::function<bool()>& cancelled) {
  constexpr std::chrono::seconds kBetweenLines(5);
  const auto began = SteadyClock::now();
  auto next_line = began + kBetweenLines;
  const std::chrono::duration<double> limit(kafka_.broker_timeout_s);
  for (;;) {
    if (cancelled && cancelled()) {
      return absl::CancelledError(
          absl::StrCat("stopped waiting for Kafka at ", BrokersText(kafka_.brokers)));
    }
    const rd_kafka_metadata_t* raw = nullptr;
    const rd_kafka_resp_err_t error = rd_kafka_metadata(client_.get(), 0, nullptr, &raw, 100);
    const Handle<const rd_kafka_metadata_t> metadata(raw);
    rd_kafka_poll(client_.get(), 0);
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR && metadata->broker_cnt > 0) return absl::OkStatus();
    const auto now = SteadyClock::now();
    if (limit.count() > 0 && now - began >= limit) {
      return absl::DeadlineExceededError(
          absl::StrFormat("no Kafka broker answered at %s for %.0f s (--broker-timeout)",
                          BrokersText(kafka_.brokers), limit.count()));
    }
    if (now >= next_line) {
      const std::chrono::duration<double> waited = now - began;
      const std::string line = absl::StrFormat("waiting for Kafka at %s for %.0f s ...",
                                               BrokersText(kafka_.brokers), waited.count());
      if (!GiveToLineSink(line)) std::fprintf(stderr, "%s\n", line.c_str());
      next_line += kBetweenLines;
    }
    // Some errors come at once (a name that nobody resolves).
    if (error != RD_KAFKA_RESP_ERR__TIMED_OUT) std::this_thread::sleep_for(kPause);
  }
}

StatusOr<int32_t> LibrdkafkaAdmin::PartitionCount(const std::string& topic) {
  MILLRACE_ASSIGN_OR_RETURN(const FoundTopic found, LookUp(topic));
  return found.partitions;
}

StatusOr<FoundTopic> LibrdkafkaAdmin::LookUp(const std::string& topic) {
  const std::string context = absl::StrCat("looking up topic '", topic, "'");
  Handle<const rd_kafka_metadata_t> metadata;
  const rd_kafka_resp_err_t error = kafka_internal::RequestTopicMetadata(
      client_.get(), topic, Milliseconds(kLookTimeout), metadata);
  MILLRACE_RETURN_IF_ERROR(StatusOfError(error, context));
  const rd_kafka_metadata_topic_t& told = metadata->topics[0];
  FoundTopic found;
  found.brokers = metadata->broker_cnt;
  found.partitions = told.partition_cnt;
  for (int i = 0; i < told.partition_cnt; ++i) {
    const int replicas = told.partitions[i].replica_cnt;
    found.replicas = i == 0 ? replicas : std::min(found.replicas, replicas);
  }
  return found;
}

StatusOr<std::vector<std::string>> LibrdkafkaAdmin::ListTopics() {
  const rd_kafka_metadata_t* raw = nullptr;
  const rd_kafka_resp_err_t error =
      rd_kafka_metadata(client_.get(), 1, nullptr, &raw, Milliseconds(kLookTimeout));
  const Handle<const rd_kafka_metadata_t> metadata(raw);
  MILLRACE_RETURN_IF_ERROR(StatusOfError(error, "listing the topics"));
  std::vector<std::string> names;
  for (int i = 0; i < metadata->topic_cnt; ++i) names.emplace_back(metadata->topics[i].topic);
  return names;
}

template <typename Send>
StatusOr<Handle<rd_kafka_event_t>> LibrdkafkaAdmin::Request(rd_kafka_admin_op_t kind,
                                                            milliseconds timeout,
                                                            const std::string& context,
                                                            const Send& send) {
  const Handle<rd_kafka_AdminOptions_t> options(rd_kafka_AdminOptions_new(client_.get(), kind));
  std::array<char, 256> text{};
  if (const rd_kafka_resp_err_t error = rd_kafka_AdminOptions_set_request_timeout(
          options.get(), Milliseconds(timeout), text.data(), text.size());
      error != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return StatusOfError(error, context, text.data());
  }
  const Handle<rd_kafka_queue_t> answers(rd_kafka_queue_new(client_.get()));
  send(options.get(), answers.get());
  // librdkafka answers when the time is up, too; the second more is for a busy machine.
  Handle<rd_kafka_event_t> answer(
      rd_kafka_queue_poll(answers.get(), Milliseconds(timeout + milliseconds(1000))));
  if (answer == nullptr) return StatusOfError(RD_KAFKA_RESP_ERR__TIMED_OUT, context);
  if (const rd_kafka_resp_err_t error = rd_kafka_event_error(answer.get());
      error != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return StatusOfError(error, context, rd_kafka_event_error_string(answer.get()));
  }
  return answer;
}

Status LibrdkafkaAdmin::EnsureTopics(const std::vector<TopicSettings>& topics,
                                     int replication_factor) {
  const auto deadline = SteadyClock::now() + kMostWait;
  std::vector<const TopicSettings*> unchecked;
  for (const TopicSettings& topic : topics) unchecked.push_back(&topic);
  std::set<std::string> created;
  kafka_internal::DurabilityReport report;
  for (;;) {
    std::vector<const TopicSettings*> missing;
    Status trouble;
    std::vector<StatusOr<FoundTopic>> described = Describe(unchecked);
    for (size_t i = 0; i < unchecked.size(); ++i) {
      const TopicSettings* const topic = unchecked[i];
      StatusOr<FoundTopic>& found = described[i];
      if (!found.ok()) {
        missing.push_back(topic);
        if (absl::IsNotFound(found.status())) continue;
        trouble = found.status();
        if (!IsAway(trouble)) return trouble;
        continue;
      }
      if (created.contains(topic->name)) {
        MILLRACE_RETURN_IF_ERROR(SetMinInsync(*topic, *found));
      }
      MILLRACE_RETURN_IF_ERROR(kafka_internal::CheckTopic(*topic, *found));
      report.Add(topic->name, *found);
    }
    if (missing.empty()) break;
    if (trouble.ok()) trouble = Create(missing, replication_factor, created);
    if (!trouble.ok() && !IsAway(trouble)) return trouble;
    if (SteadyClock::now() >= deadline) {
      if (!trouble.ok()) return trouble;
      return absl::DeadlineExceededError(
          absl::StrCat("topic '", missing.front()->name,
                       "' was created, but no broker reports it yet; check the brokers' logs"));
    }
    unchecked = std::move(missing);
    std::this_thread::sleep_for(kPause);
  }
  for (const std::string& sentence : report.Sentences()) {
    kafka_internal::ClientLog::OfProcess().WarnOnce(sentence);
  }
  return absl::OkStatus();
}

Status LibrdkafkaAdmin::Create(const std::vector<const TopicSettings*>& topics,
                               int replication_factor, std::set<std::string>& created) {
  const std::string context = "creating topics";
  std::vector<Handle<rd_kafka_NewTopic_t>> owners;
  std::vector<rd_kafka_NewTopic_t*> wanted;
  std::array<char, 256> text{};
  for (const TopicSettings* topic : topics) {
    owners.emplace_back(rd_kafka_NewTopic_new(topic->name.c_str(), topic->partitions,
                                              replication_factor, text.data(), text.size()));
    if (owners.back() == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("topic '", topic->name, "': ", text.data()));
    }
    for (const auto& [name, value] : topic->config) {
      rd_kafka_NewTopic_set_config(owners.back().get(), name.c_str(), value.c_str());
    }
    wanted.push_back(owners.back().get());
  }
  MILLRACE_ASSIGN_OR_RETURN(
      const Handle<rd_kafka_event_t> answer,
      Request(RD_KAFKA_ADMIN_OP_CREATETOPICS, kRequestTimeout, context,
              [&](const rd_kafka_AdminOptions_t* options, rd_kafka_queue_t* answers) {
                rd_kafka_CreateTopics(client_.get(), wanted.data(), wanted.size(), options,
                                      answers);
              }));
  size_t count = 0;
  const rd_kafka_topic_result_t** const results =
      rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(answer.get()), &count);
  Status status;
  for (size_t i = 0; i < count; ++i) {
    const rd_kafka_resp_err_t error = rd_kafka_topic_result_error(results[i]);
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) created.insert(rd_kafka_topic_result_name(results[i]));
    // Another process was faster.
    if (error == RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS) continue;
    const char* const detail = rd_kafka_topic_result_error_string(results[i]);
    const Status result = StatusOfError(
        error, absl::StrCat("creating topic '", rd_kafka_topic_result_name(results[i]), "'"),
        detail != nullptr ? detail : rd_kafka_err2str(error));
    // Of several errors the one that no retry mends.
    if (!result.ok() && (status.ok() || IsAway(status))) status = result;
  }
  return status;
}

std::vector<StatusOr<FoundTopic>> LibrdkafkaAdmin::Describe(
    const std::vector<const TopicSettings*>& topics) {
  std::vector<StatusOr<FoundTopic>> all;
  for (const TopicSettings* const topic : topics) {
    StatusOr<FoundTopic>& found = all.emplace_back(LookUp(topic->name));
    if (!found.ok()) continue;
    const std::string context = absl::StrCat("looking up topic '", topic->name, "'");
    if (found->partitions == 0) {
      found = absl::NotFoundError(context + ": no broker reports its partitions yet");
    } else if (found->brokers == 0 || found->replicas == 0) {
      // A controller that has not heard from a broker for some seconds leaves it out (it is
      // fenced).
      found = absl::UnavailableError(
          context + ": the cluster says that no broker is in service; check the brokers' logs");
    }
  }
  if (const Status added = AddSettings(topics, all); !added.ok()) {
    for (StatusOr<FoundTopic>& found : all) {
      if (found.ok()) found = added;
    }
  }
  return all;
}

Status LibrdkafkaAdmin::AddSettings(const std::vector<const TopicSettings*>& topics,
                                    std::vector<StatusOr<FoundTopic>>& found) {
  const std::string context = "looking up the settings of topics";
  std::vector<Handle<rd_kafka_ConfigResource_t>> owners;
  std::vector<rd_kafka_ConfigResource_t*> wanted;
  std::map<std::string_view, StatusOr<FoundTopic>*> by_name;
  for (size_t i = 0; i < topics.size(); ++i) {
    if (!found[i].ok()) continue;
    owners.emplace_back(
        rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topics[i]->name.c_str()));
    wanted.push_back(owners.back().get());
    by_name[topics[i]->name] = &found[i];
  }
  if (wanted.empty()) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(
      const Handle<rd_kafka_event_t> answer,
      Request(RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS, kRequestTimeout, context,
              [&](const rd_kafka_AdminOptions_t* options, rd_kafka_queue_t* answers) {
                rd_kafka_DescribeConfigs(client_.get(), wanted.data(), wanted.size(), options,
                                         answers);
              }));
  size_t count = 0;
  const rd_kafka_ConfigResource_t** const resources = rd_kafka_DescribeConfigs_result_resources(
      rd_kafka_event_DescribeConfigs_result(answer.get()), &count);
  for (size_t i = 0; i < count; ++i) {
    const std::string_view name = rd_kafka_ConfigResource_name(resources[i]);
    const auto asked = by_name.find(name);
    if (asked == by_name.end()) continue;
    StatusOr<FoundTopic>& topic = *asked->second;
    const Status described =
        StatusOfError(rd_kafka_ConfigResource_error(resources[i]),
                      absl::StrCat("looking up the settings of topic '", std::string(name), "'"));
    if (described.ok()) {
      topic->settings = SettingsOf(resources[i]);
    } else {
      topic = described;
    }
  }
  return absl::OkStatus();
}

// How many replicas a topic has is only known when it is there: the cluster may have chosen. (Kafka
// takes all settings of a topic at once, so what it was created with is given again; only who has
// just created it may do that.)
Status LibrdkafkaAdmin::SetMinInsync(const TopicSettings& topic, FoundTopic& found) {
  const int wanted = kafka_internal::WantedMinInsync(found.replicas);
  if (found.min_insync() >= wanted && found.min_insync() <= found.replicas) return absl::OkStatus();
  const Handle<rd_kafka_ConfigResource_t> resource(
      rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic.name.c_str()));
  const std::string min_insync = absl::StrCat(wanted);
  rd_kafka_ConfigResource_set_config(resource.get(), kMinInsync, min_insync.c_str());
  for (const auto& [name, value] : topic.config) {
    if (name == kMinInsync) continue;
    rd_kafka_ConfigResource_set_config(resource.get(), name.c_str(), value.c_str());
  }
  const std::string context =
      absl::StrCat("setting min.insync.replicas=", wanted, " of topic '", topic.name, "'");
  MILLRACE_ASSIGN_OR_RETURN(
      const Handle<rd_kafka_event_t> answer,
      Request(RD_KAFKA_ADMIN_OP_ALTERCONFIGS, kRequestTimeout, context,
              [&](const rd_kafka_AdminOptions_t* options, rd_kafka_queue_t* answers) {
                rd_kafka_ConfigResource_t* one = resource.get();
                rd_kafka_AlterConfigs(client_.get(), &one, 1, options, answers);
              }));
  size_t count = 0;
  const rd_kafka_ConfigResource_t** const resources = rd_kafka_AlterConfigs_result_resources(
      rd_kafka_event_AlterConfigs_result(answer.get()), &count);
  for (size_t i = 0; i < count; ++i) {
    Status set = StatusOfError(rd_kafka_ConfigResource_error(resources[i]), context);
    // Who may create topics, but not change them, has the cluster's default: CheckTopic judges it.
    if (absl::IsPermissionDenied(set)) return absl::OkStatus();
    MILLRACE_RETURN_IF_ERROR(set);
  }
  found.settings[kMinInsync] = min_insync;
  return absl::OkStatus();
}

Status LibrdkafkaAdmin::DeleteRecordsBefore(const std::string& topic, int32_t partition,
                                            Offset offset, milliseconds timeout) {
  const std::string context = absl::StrCat("deleting the records of ", topic, " [", partition,
                                           "] before ", int64_t{offset});
  const Handle<rd_kafka_topic_partition_list_t> list(rd_kafka_topic_partition_list_new(1));
  rd_kafka_topic_partition_list_add(list.get(), topic.c_str(), partition)->offset = offset;
  // Else librdkafka says, after some time, that there is no leader, which is another matter.
  MILLRACE_ASSIGN_OR_RETURN(const int32_t partitions, PartitionCount(topic));
  if (partition < 0 || partition >= partitions) {
    return absl::NotFoundError(absl::StrCat(context, ": it has ", partitions, " partitions"));
  }
  const Handle<rd_kafka_DeleteRecords_t> wanted(rd_kafka_DeleteRecords_new(list.get()));
  MILLRACE_ASSIGN_OR_RETURN(
      const Handle<rd_kafka_event_t> answer,
      Request(RD_KAFKA_ADMIN_OP_DELETERECORDS, timeout, context,
              [&](const rd_kafka_AdminOptions_t* options, rd_kafka_queue_t* answers) {
                rd_kafka_DeleteRecords_t* one = wanted.get();
                rd_kafka_DeleteRecords(client_.get(), &one, 1, options, answers);
              }));
  const rd_kafka_topic_partition_list_t* const offsets =
      rd_kafka_DeleteRecords_result_offsets(rd_kafka_event_DeleteRecords_result(answer.get()));
  for (int i = 0; i < offsets->cnt; ++i) {
    const rd_kafka_resp_err_t error = offsets->elems[i].err;
    if (error == RD_KAFKA_RESP_ERR_POLICY_VIOLATION) {
      return absl::FailedPreconditionError(
          absl::StrCat(context,
                       ": records of a topic that is only compacted cannot be deleted; set its "
                       "cleanup.policy=compact,delete"));
    }
    Status deleted = StatusOfError(error, context);
    // Callers try again later, without a word: nothing is lost but space. This no waiting mends.
    if (absl::IsPermissionDenied(deleted)) {
      kafka_internal::ClientLog::OfProcess().Warn(TextOf(deleted));
    }
    MILLRACE_RETURN_IF_ERROR(deleted);
  }
  return absl::OkStatus();
}

Status LibrdkafkaAdmin::DeleteTopics(const std::vector<std::string>& topics, milliseconds timeout) {
  const std::string context = "deleting topics";
  std::vector<Handle<rd_kafka_DeleteTopic_t>> owners;
  std::vector<rd_kafka_DeleteTopic_t*> unwanted;
  for (const std::string& topic : topics) {
    owners.emplace_back(rd_kafka_DeleteTopic_new(topic.c_str()));
    unwanted.push_back(owners.back().get());
  }
  MILLRACE_ASSIGN_OR_RETURN(
      const Handle<rd_kafka_event_t> answer,
      Request(RD_KAFKA_ADMIN_OP_DELETETOPICS, timeout, context,
              [&](const rd_kafka_AdminOptions_t* options, rd_kafka_queue_t* answers) {
                rd_kafka_DeleteTopics(client_.get(), unwanted.data(), unwanted.size(), options,
                                      answers);
              }));
  size_t count = 0;
  const rd_kafka_topic_result_t** const results =
      rd_kafka_DeleteTopics_result_topics(rd_kafka_event_DeleteTopics_result(answer.get()), &count);
  for (size_t i = 0; i < count; ++i) {
    const rd_kafka_resp_err_t error = rd_kafka_topic_result_error(results[i]);
    if (error == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART) continue;
    Status deleted = StatusOfError(
        error, absl::StrCat("deleting topic '", rd_kafka_topic_result_name(results[i]), "'"));
    if (absl::IsPermissionDenied(deleted)) {
      kafka_internal::ClientLog::OfProcess().Warn(TextOf(deleted));
    }
    MILLRACE_RETURN_IF_ERROR(deleted);
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<KafkaAdmin>> KafkaAdmin::Create(const KafkaOptions& kafka,
                                                         const std::string& client_id) {
  auto admin = std::make_unique<LibrdkafkaAdmin>();
  MILLRACE_RETURN_IF_ERROR(admin->Open(kafka, client_id));
  return std::unique_ptr<KafkaAdmin>(std::move(admin));
}

}  // namespace millrace
