// What the floors have in common: librdkafka as bare as it comes, with the settings that make it
// fast, errors that end the program.
#pragma once

#include <librdkafka/rdkafka.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace millrace::bare {

using Settings = std::vector<std::pair<std::string, std::string>>;

// Prints and exits with 1.
[[noreturn]] void Fail(const std::string& what);

// A client with these settings over the ones that all share.
rd_kafka_t* MakeClient(rd_kafka_type_t type, const std::string& brokers, const Settings& settings);
// Those of a producer that waits for nothing, and of one that sends in bulk.
Settings PromptProducer();
Settings BulkProducer();
Settings Consumer();

// Creates topics of so many partitions; of a kind that is thrown away soon.
void CreateTopics(const std::string& brokers,
                  const std::vector<std::pair<std::string, int>>& topics);
// Deletes all topics whose names begin so.
void DeleteTopics(const std::string& brokers, const std::string& prefix);
// A handle that is warm: the topic has been looked up.
rd_kafka_topic_t* OpenTopic(rd_kafka_t* client, const std::string& name);

// Hands a record to librdkafka, which copies it. Waits while its queue is full.
void Produce(rd_kafka_t* client, rd_kafka_topic_t* topic, int partition, const void* key,
             size_t key_size, const void* value, size_t size);

double Now();  // seconds

}  // namespace millrace::bare
