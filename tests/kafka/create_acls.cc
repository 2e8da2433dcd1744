// Creates ACLs, as Kafka's kafka-acls does, without a JVM for each, and waits until a broker obeys
// them, which it does a moment after it has confirmed them. Reads lines "PRINCIPAL TYPE PATTERN
// NAME OPERATION", such as "User:server topic prefixed job. Describe". kafka_create_acls BROKERS
// [KEY=VALUE...]: librdkafka's settings.
#include <librdkafka/rdkafka.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

namespace {

const std::map<std::string, rd_kafka_ResourceType_t> kTypes = {
    {"topic", RD_KAFKA_RESOURCE_TOPIC},
    // (librdkafka 2.0.2 knows no ACLs of transactional ids.)
    {"group", RD_KAFKA_RESOURCE_GROUP}};
const std::map<std::string, rd_kafka_ResourcePatternType_t> kPatterns = {
    {"literal", RD_KAFKA_RESOURCE_PATTERN_LITERAL},
    {"prefixed", RD_KAFKA_RESOURCE_PATTERN_PREFIXED}};
const std::map<std::string, rd_kafka_AclOperation_t> kOperations = {
    {"Read", RD_KAFKA_ACL_OPERATION_READ},
    {"Write", RD_KAFKA_ACL_OPERATION_WRITE},
    {"Create", RD_KAFKA_ACL_OPERATION_CREATE},
    {"Delete", RD_KAFKA_ACL_OPERATION_DELETE},
    {"Describe", RD_KAFKA_ACL_OPERATION_DESCRIBE},
    {"DescribeConfigs", RD_KAFKA_ACL_OPERATION_DESCRIBE_CONFIGS},
    {"AlterConfigs", RD_KAFKA_ACL_OPERATION_ALTER_CONFIGS}};

constexpr int kAnswerMs = 120'000;

int Fail(const std::string& what) {
  std::fprintf(stderr, "kafka_create_acls: %s\n", what.c_str());
  return 1;
}

// Principal, type, pattern, name, operation.
using Acl = std::tuple<std::string, int, int, std::string, int>;

Acl AclOf(const rd_kafka_AclBinding_t* binding) {
  return {rd_kafka_AclBinding_principal(binding), rd_kafka_AclBinding_restype(binding),
          rd_kafka_AclBinding_resource_pattern_type(binding), rd_kafka_AclBinding_name(binding),
          rd_kafka_AclBinding_operation(binding)};
}

// Adds those of a type that a broker obeys. False: it does not answer.
bool AddPresent(rd_kafka_t* client, rd_kafka_ResourceType_t type, std::set<Acl>& present) {
  std::array<char, 512> text{};
  rd_kafka_AclBindingFilter_t* const filter = rd_kafka_AclBindingFilter_new(
      type, nullptr, RD_KAFKA_RESOURCE_PATTERN_ANY, nullptr, nullptr, RD_KAFKA_ACL_OPERATION_ANY,
      RD_KAFKA_ACL_PERMISSION_TYPE_ANY, text.data(), text.size());
  rd_kafka_queue_t* const answers = rd_kafka_queue_new(client);
  rd_kafka_DescribeAcls(client, filter, nullptr, answers);
  rd_kafka_event_t* const answer = rd_kafka_queue_poll(answers, kAnswerMs);
  const bool is_there =
      answer != nullptr && rd_kafka_event_error(answer) == RD_KAFKA_RESP_ERR_NO_ERROR;
  if (is_there) {
    size_t count = 0;
    const rd_kafka_AclBinding_t** const found =
        rd_kafka_DescribeAcls_result_acls(rd_kafka_event_DescribeAcls_result(answer), &count);
    for (size_t i = 0; i < count; ++i) present.insert(AclOf(found[i]));
  }
  if (answer != nullptr) rd_kafka_event_destroy(answer);
  rd_kafka_queue_destroy(answers);
  rd_kafka_AclBinding_destroy(filter);
  return is_there;
}

bool WaitUntilPresent(rd_kafka_t* client, const std::set<Acl>& wanted) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kAnswerMs);
  std::set<Acl> present;
  do {
    for (const auto& [name, type] : kTypes) {
      if (!AddPresent(client, type, present)) return false;
    }
    if (std::ranges::includes(present, wanted)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return Fail("which brokers?");
  std::array<char, 512> text{};
  rd_kafka_conf_t* const conf = rd_kafka_conf_new();
  rd_kafka_conf_set(conf, "bootstrap.servers", argv[1], text.data(), text.size());
  for (int i = 2; i < argc; ++i) {
    const std::string setting = argv[i];
    const size_t equals = setting.find('=');
    if (rd_kafka_conf_set(conf, setting.substr(0, equals).c_str(),
                          setting.substr(equals + 1).c_str(), text.data(),
                          text.size()) != RD_KAFKA_CONF_OK) {
      return Fail(text.data());
    }
  }
  rd_kafka_t* const client = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text.data(), text.size());
  if (client == nullptr) return Fail(text.data());
  std::vector<rd_kafka_AclBinding_t*> bindings;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string principal, type, pattern, name, operation;
    words >> principal >> type >> pattern >> name >> operation;
    if (!kTypes.contains(type) || !kPatterns.contains(pattern) ||
        !kOperations.contains(operation)) {
      return Fail("no ACL: " + line);
    }
    bindings.push_back(rd_kafka_AclBinding_new(
        kTypes.at(type), name.c_str(), kPatterns.at(pattern), principal.c_str(), "*",
        kOperations.at(operation), RD_KAFKA_ACL_PERMISSION_TYPE_ALLOW, text.data(), text.size()));
    if (bindings.back() == nullptr) return Fail(line + ": " + text.data());
  }
  rd_kafka_queue_t* const answers = rd_kafka_queue_new(client);
  rd_kafka_CreateAcls(client, bindings.data(), bindings.size(), nullptr, answers);
  rd_kafka_event_t* const answer = rd_kafka_queue_poll(answers, kAnswerMs);
  if (answer == nullptr) return Fail("no answer");
  if (rd_kafka_event_error(answer) != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return Fail(rd_kafka_event_error_string(answer));
  }
  size_t count = 0;
  const rd_kafka_acl_result_t** const results =
      rd_kafka_CreateAcls_result_acls(rd_kafka_event_CreateAcls_result(answer), &count);
  for (size_t i = 0; i < count; ++i) {
    const rd_kafka_error_t* const error = rd_kafka_acl_result_error(results[i]);
    if (error != nullptr) return Fail(rd_kafka_error_string(error));
  }
  rd_kafka_event_destroy(answer);
  rd_kafka_queue_destroy(answers);
  std::set<Acl> wanted;
  for (const rd_kafka_AclBinding_t* binding : bindings) wanted.insert(AclOf(binding));
  if (!WaitUntilPresent(client, wanted)) return Fail("no broker obeys them yet");
  for (rd_kafka_AclBinding_t* binding : bindings) rd_kafka_AclBinding_destroy(binding);
  rd_kafka_destroy(client);
  return 0;
}
