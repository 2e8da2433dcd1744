#include "benchmarks/kafka/bare.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>

namespace millrace::bare {

void Fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

rd_kafka_t* MakeClient(rd_kafka_type_t type, const std::string& brokers, const Settings& settings) {
  rd_kafka_conf_t* const conf = rd_kafka_conf_new();
  std::array<char, 512> error{};
  Settings all = {{"bootstrap.servers", brokers}, {"socket.nagle.disable", "true"}};
  all.insert(all.end(), settings.begin(), settings.end());
  for (const auto& [name, value] : all) {
    if (rd_kafka_conf_set(conf, name.c_str(), value.c_str(), error.data(), error.size()) !=
        RD_KAFKA_CONF_OK) {
      Fail(error.data());
    }
  }
  // A floor that lost a record would wait for it for ever.
  if (type == RD_KAFKA_PRODUCER) {
    rd_kafka_conf_set_dr_msg_cb(conf, [](rd_kafka_t*, const rd_kafka_message_t* message, void*) {
      if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) Fail(rd_kafka_err2str(message->err));
    });
  }
  rd_kafka_t* const client = rd_kafka_new(type, conf, error.data(), error.size());
  if (client == nullptr) Fail(error.data());
  return client;
}

Settings PromptProducer() {
  return {{"enable.idempotence", "true"}, {"acks", "all"}, {"linger.ms", "0"}};
}

Settings BulkProducer() {
  return {{"enable.idempotence", "true"},
          {"acks", "all"},
          {"linger.ms", "20"},
          {"compression.type", "lz4"}};
}

Settings Consumer() {
  return {{"enable.partition.eof", "true"},
          {"fetch.wait.max.ms", "10"},
          {"auto.offset.reset", "error"},
          {"enable.auto.commit", "false"}};
}

namespace {

// A broker that has heard of a new topic may not yet lead it. It then refuses the first batch of an
// idempotent producer and takes the second, and librdkafka believes to have delivered both.
void WaitForLeader(rd_kafka_t* client, const std::string& topic, int partition) {
  int64_t low = 0;
  int64_t high = 0;
  for (int i = 0; i < 100; ++i) {
    if (rd_kafka_query_watermark_offsets(client, topic.c_str(), partition, &low, &high, 1000) ==
        RD_KAFKA_RESP_ERR_NO_ERROR) {
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  Fail("topic " + topic + " has no leader");
}

// Of the one admin call that reports to the queue, which goes with it.
void TakeResult(rd_kafka_queue_t* queue, const char* failure) {
  rd_kafka_event_t* const event = rd_kafka_queue_poll(queue, 30'000);
  if (event == nullptr || rd_kafka_event_error(event) != RD_KAFKA_RESP_ERR_NO_ERROR) Fail(failure);
  rd_kafka_event_destroy(event);
  rd_kafka_queue_destroy(queue);
}

}  // namespace

void CreateTopics(const std::string& brokers,
                  const std::vector<std::pair<std::string, int>>& topics) {
  rd_kafka_t* const client = MakeClient(RD_KAFKA_PRODUCER, brokers, {});
  std::vector<rd_kafka_NewTopic_t*> wanted;
  std::array<char, 512> error{};
  for (const auto& [name, partitions] : topics) {
    wanted.push_back(
        rd_kafka_NewTopic_new(name.c_str(), partitions, 1, error.data(), error.size()));
    if (wanted.back() == nullptr) Fail(error.data());
    rd_kafka_NewTopic_set_config(wanted.back(), "retention.bytes", "134217728");
    rd_kafka_NewTopic_set_config(wanted.back(), "segment.bytes", "33554432");
  }
  rd_kafka_queue_t* const queue = rd_kafka_queue_new(client);
  rd_kafka_CreateTopics(client, wanted.data(), wanted.size(), nullptr, queue);
  TakeResult(queue, "topics could not be created");
  rd_kafka_NewTopic_destroy_array(wanted.data(), wanted.size());
  for (const auto& [name, partitions] : topics) {
    for (int partition = 0; partition < partitions; ++partition) {
      WaitForLeader(client, name, partition);
    }
  }
  rd_kafka_destroy(client);
}

void DeleteTopics(const std::string& brokers, const std::string& prefix) {
  rd_kafka_t* const client = MakeClient(RD_KAFKA_PRODUCER, brokers, {});
  const rd_kafka_metadata_t* metadata = nullptr;
  if (rd_kafka_metadata(client, 1, nullptr, &metadata, 10'000) != RD_KAFKA_RESP_ERR_NO_ERROR) {
    Fail("topics cannot be looked up");
  }
  std::vector<rd_kafka_DeleteTopic_t*> unwanted;
  for (int i = 0; i < metadata->topic_cnt; ++i) {
    const char* const name = metadata->topics[i].topic;
    if (std::string_view(name).starts_with(prefix)) {
      unwanted.push_back(rd_kafka_DeleteTopic_new(name));
    }
  }
  rd_kafka_metadata_destroy(metadata);
  rd_kafka_queue_t* const queue = rd_kafka_queue_new(client);
  rd_kafka_DeleteTopics(client, unwanted.data(), unwanted.size(), nullptr, queue);
  TakeResult(queue, "topics could not be deleted");
  rd_kafka_DeleteTopic_destroy_array(unwanted.data(), unwanted.size());
  rd_kafka_destroy(client);
}

rd_kafka_topic_t* OpenTopic(rd_kafka_t* client, const std::string& name) {
  rd_kafka_topic_t* const topic = rd_kafka_topic_new(client, name.c_str(), nullptr);
  const rd_kafka_metadata_t* metadata = nullptr;
  if (topic == nullptr ||
      rd_kafka_metadata(client, 0, topic, &metadata, 10'000) != RD_KAFKA_RESP_ERR_NO_ERROR) {
    Fail("topic " + name + " cannot be looked up");
  }
  rd_kafka_metadata_destroy(metadata);
  return topic;
}

void Produce(rd_kafka_t* client, rd_kafka_topic_t* topic, int partition, const void* key,
             size_t key_size, const void* value, size_t size) {
  while (rd_kafka_produce(topic, partition, RD_KAFKA_MSG_F_COPY, const_cast<void*>(value), size,
                          key, key_size, nullptr) != 0) {
    if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR__QUEUE_FULL) {
      Fail(rd_kafka_err2str(rd_kafka_last_error()));
    }
    rd_kafka_poll(client, 10);
  }
}

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace millrace::bare
