// The floor of a hop through Kafka: a bare producer sends small records at a rate, and a bare
// consumer in the same process reads each. Prints `begin` and `end` of what is measured, then the
// count, and median, 99th and 99.9th percentile in milliseconds from a record's sending until the
// consumer has it.
#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "benchmarks/kafka/bare.h"
#include "benchmarks/kafka/percentiles.h"

namespace millrace::bare {
namespace {

constexpr size_t kBytes = 100;  // as a row has

struct Options {
  std::string brokers;
  std::string topic;
  double rate = 200;  // records per second
  double warm_up = 3;
  double seconds = 8;
};

// Each record begins with the time when it was sent.
void Send(const Options& options, double end, const std::atomic<bool>& is_reading) {
  rd_kafka_t* const producer = MakeClient(RD_KAFKA_PRODUCER, options.brokers, PromptProducer());
  rd_kafka_topic_t* const topic = OpenTopic(producer, options.topic);
  std::vector<char> value(kBytes);
  for (double next = Now(); is_reading; next += 1 / options.rate) {
    while (Now() < next) rd_kafka_poll(producer, 1);
    const double now = Now();
    if (now > end) break;
    std::memcpy(value.data(), &now, sizeof(now));
    Produce(producer, topic, 0, nullptr, 0, value.data(), value.size());
  }
  rd_kafka_flush(producer, 10'000);
}

void Run(const Options& options) {
  CreateTopics(options.brokers, {{options.topic, 1}});
  rd_kafka_t* const consumer = MakeClient(RD_KAFKA_CONSUMER, options.brokers, Consumer());
  rd_kafka_topic_t* const topic = OpenTopic(consumer, options.topic);
  rd_kafka_consume_start(topic, 0, 0);
  const double begin = Now() + options.warm_up;
  const double end = begin + options.seconds;
  std::atomic<bool> is_reading = true;
  std::thread sender([&] { Send(options, end, is_reading); });
  std::vector<double> ms;
  bool has_begun = false;
  constexpr double kLast = 1;  // after the end, for what is under way
  while (Now() < end + kLast) {
    if (!has_begun && Now() >= begin) {
      has_begun = true;
      SayNow("begin");
    }
    rd_kafka_message_t* const message = rd_kafka_consume(topic, 0, 10);
    if (message == nullptr) continue;
    if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
      double sent = 0;
      std::memcpy(&sent, message->payload, sizeof(sent));
      if (sent >= begin) ms.push_back((Now() - sent) * 1000);
    } else if (message->err != RD_KAFKA_RESP_ERR__PARTITION_EOF) {
      Fail(rd_kafka_message_errstr(message));
    }
    rd_kafka_message_destroy(message);
  }
  SayNow("end");
  is_reading = false;
  sender.join();
  PrintPercentiles(ms);
}

}  // namespace
}  // namespace millrace::bare

int main(int argc, char** argv) {
  CLI::App app("Sends records and reads them.");
  millrace::bare::Options options;
  app.add_option("--brokers", options.brokers)->required();
  app.add_option("--topic", options.topic)->required();
  app.add_option("--rate", options.rate);
  app.add_option("--warm-up", options.warm_up);
  app.add_option("--seconds", options.seconds);
  CLI11_PARSE(app, argc, argv);
  millrace::bare::Run(options);
  std::fflush(stdout);
  // Its clients have threads, and nothing to lose.
  std::quick_exit(0);
}
