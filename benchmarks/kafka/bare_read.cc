// The floor of reading a shard from `parameters`: a bare consumer of one partition, from its
// beginning to its end as it is then.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "benchmarks/kafka/bare.h"

namespace millrace::bare {
namespace {

void Read(const std::string& brokers, const std::string& name, int partition) {
  rd_kafka_t* const consumer = MakeClient(RD_KAFKA_CONSUMER, brokers, Consumer());
  rd_kafka_topic_t* const topic = OpenTopic(consumer, name);
  rd_kafka_queue_t* const queue = rd_kafka_queue_new(consumer);
  rd_kafka_consume_start_queue(topic, partition, 0, queue);
  std::vector<rd_kafka_message_t*> batch(256);
  size_t records = 0;
  size_t bytes = 0;
  for (bool at_end = false; !at_end;) {
    const ssize_t count = rd_kafka_consume_batch_queue(queue, 10, batch.data(), batch.size());
    for (ssize_t i = 0; i < count; ++i) {
      rd_kafka_message_t* const message = batch[static_cast<size_t>(i)];
      if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
        ++records;
        bytes += message->key_len + message->len;
      } else if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
        at_end = true;
      } else {
        Fail(rd_kafka_message_errstr(message));
      }
      rd_kafka_message_destroy(message);
    }
  }
  std::printf("  %zu records, %.1f MiB\n", records, static_cast<double>(bytes) / (1 << 20));
}

}  // namespace
}  // namespace millrace::bare

int main(int argc, char** argv) {
  CLI::App app("Reads a partition to its end.");
  std::string brokers;
  std::string topic;
  int partition = 0;
  app.add_option("--brokers", brokers)->required();
  app.add_option("--topic", topic)->required();
  app.add_option("--partition", partition)->required();
  CLI11_PARSE(app, argc, argv);
  millrace::bare::Read(brokers, topic, partition);
  std::fflush(stdout);
  // Its clients have threads, and nothing to lose.
  std::quick_exit(0);
}
