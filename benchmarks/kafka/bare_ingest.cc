// The floors of moving rows: a bare consumer of a job's input-data, and a bare producer of the same
// records. Prints the rows per second.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "benchmarks/kafka/bare.h"

namespace millrace::bare {
namespace {

constexpr int kPartitions = 4;

struct Record {
  int partition;
  std::string key;
  std::string value;
};

// Reads the whole topic, calls visit(message) for each record, and returns how long it took from
// the start of reading to the last record.
template <typename Visit>
double ReadAll(const std::string& brokers, const std::string& name, Visit visit) {
  rd_kafka_t* const consumer = MakeClient(RD_KAFKA_CONSUMER, brokers, Consumer());
  rd_kafka_topic_t* const topic = OpenTopic(consumer, name);
  rd_kafka_queue_t* const queue = rd_kafka_queue_new(consumer);
  const double begin = Now();
  for (int partition = 0; partition < kPartitions; ++partition) {
    rd_kafka_consume_start_queue(topic, partition, 0, queue);
  }
  std::vector<rd_kafka_message_t*> batch(256);
  double last = begin;
  for (int at_end = 0; at_end < kPartitions;) {
    const ssize_t count = rd_kafka_consume_batch_queue(queue, 10, batch.data(), batch.size());
    for (ssize_t i = 0; i < count; ++i) {
      rd_kafka_message_t* const message = batch[static_cast<size_t>(i)];
      if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) visit(*message);
      if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) ++at_end;
      rd_kafka_message_destroy(message);
    }
    last = Now();
  }
  return last - begin;
}

// Of a record of input-data, whose key ends with their number.
size_t RowsOf(const void* key, size_t size) {
  constexpr size_t kNumber = 4;
  size_t rows = 0;
  const auto* const bytes = static_cast<const unsigned char*>(key);
  for (size_t i = size - std::min(size, kNumber); i < size; ++i) rows = rows << 8 | bytes[i];
  return rows;
}

void Consume(const std::string& brokers, const std::string& topic) {
  size_t rows = 0;
  size_t bytes = 0;
  const double seconds = ReadAll(brokers, topic, [&](const rd_kafka_message_t& message) {
    rows += RowsOf(message.key, message.key_len);
    bytes += message.len;
  });
  std::printf("%.0f rows/s, %.0f bytes a row\n", static_cast<double>(rows) / seconds,
              static_cast<double>(bytes) / static_cast<double>(rows));
}

// About in the order in which CsvProducer sent them: dealt to the partitions in turn.
std::vector<Record> InTurn(std::vector<std::vector<Record>> partitions) {
  std::vector<Record> all;
  size_t longest = 0;
  for (const auto& records : partitions) longest = std::max(longest, records.size());
  for (size_t i = 0; i < longest; ++i) {
    for (auto& records : partitions) {
      if (i < records.size()) all.push_back(std::move(records[i]));
    }
  }
  return all;
}

void Copy(const std::string& brokers, const std::string& from, const std::string& to) {
  std::vector<std::vector<Record>> partitions(kPartitions);
  ReadAll(brokers, from, [&](const rd_kafka_message_t& message) {
    partitions[static_cast<size_t>(message.partition)].push_back(
        {message.partition, std::string(static_cast<char*>(message.key), message.key_len),
         std::string(static_cast<char*>(message.payload), message.len)});
  });
  const std::vector<Record> records = InTurn(std::move(partitions));
  CreateTopics(brokers, {{to, kPartitions}});
  rd_kafka_t* const producer = MakeClient(RD_KAFKA_PRODUCER, brokers, BulkProducer());
  rd_kafka_topic_t* const topic = OpenTopic(producer, to);
  const double begin = Now();
  for (size_t i = 0; i < records.size(); ++i) {
    const Record& record = records[i];
    Produce(producer, topic, record.partition, record.key.data(), record.key.size(),
            record.value.data(), record.value.size());
    if (i % 32 == 0) rd_kafka_poll(producer, 0);
  }
  if (rd_kafka_flush(producer, 60'000) != RD_KAFKA_RESP_ERR_NO_ERROR) Fail("flush");
  size_t rows = 0;
  for (const Record& record : records) rows += RowsOf(record.key.data(), record.key.size());
  std::printf("%.0f rows/s\n", static_cast<double>(rows) / (Now() - begin));
}

}  // namespace
}  // namespace millrace::bare

int main(int argc, char** argv) {
  CLI::App app("The floors of moving rows: a bare consumer and a bare producer.");
  std::string brokers;
  std::string from;
  std::string to;
  app.add_option("--brokers", brokers)->required();
  app.add_option("--from", from, "The topic to read")->required();
  app.add_option("--copy-to", to, "Measure sending its records to this new topic instead");
  CLI11_PARSE(app, argc, argv);
  if (to.empty()) {
    millrace::bare::Consume(brokers, from);
  } else {
    millrace::bare::Copy(brokers, from, to);
  }
  std::fflush(stdout);
  // Its clients have threads, and nothing to lose.
  std::quick_exit(0);
}
