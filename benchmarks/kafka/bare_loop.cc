// The floor of a training round: what a sequential round sends, sent by bare librdkafka, and
// nothing computed, decoded or kept. Processes and hops are as in a job of --shards servers and two
// WorkerApps with two logical workers each:
//
//   server   reads its partition of `gradients`; each time four messages have come, sends one to
//            each partition of `weights`
//   worker   reads two partitions of `weights`; each time a message of every server has come to
//            one, sends one to each partition of `gradients`
//
// With --once the floor is that of another design, in which what is the same for all workers is
// sent once: a server sends one message to a further partition of `weights`, which all workers
// read.
//
// The messages that a worker sends or gets have --bytes bytes, all servers' together; or, with
// --ids, as many as that many embedding rows of 16 floats and their ids have, and of `gradients`
// the ids that are wanted next, too. Then the servers keep --rows rows in unordered maps, add what
// has come to those that are named, and copy out those that are wanted. A message that is larger
// than a record may be is sent in several.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "benchmarks/kafka/bare.h"

namespace millrace::bare {
namespace {

constexpr size_t kWidth = 16;
constexpr size_t kRowBytes = kWidth * sizeof(float);
constexpr size_t kRecordBytes = 950'000;  // as in topics/frame.h

struct Options {
  std::string brokers;
  std::string prefix;
  size_t bytes = 24'600;
  size_t ids = 0;
  uint64_t rows = 1'000'000;
  int workers = 4;
  int shards = 1;
  bool once = false;
  double warm_up = 3;
  double seconds = 8;
  int shard = 0;                // of a server
  std::vector<int> partitions;  // of a worker process

  std::string gradients() const { return prefix + ".gradients"; }
  std::string weights() const { return prefix + ".weights"; }
  // Of a message, to or from one server.
  size_t gradient_bytes() const {
    return (ids > 0 ? ids * (2 * sizeof(uint64_t) + kRowBytes) : bytes) / Shards();
  }
  size_t weights_bytes() const {
    return (ids > 0 ? ids * (sizeof(uint64_t) + kRowBytes) : bytes) / Shards();
  }
  size_t Shards() const { return static_cast<size_t>(shards); }
};

int RecordsOf(size_t message_bytes) {
  return static_cast<int>((message_bytes + kRecordBytes - 1) / kRecordBytes);
}

void Print(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

// Reads partitions of a topic from their beginning through one queue, and sends to another topic.
class Hop {
 public:
  Hop(const Options& options, const std::string& from, const std::vector<int>& partitions,
      const std::string& to, size_t bytes)
      : value_(bytes, 'x'),
        consumer_(MakeClient(RD_KAFKA_CONSUMER, options.brokers, Consumer())),
        producer_(MakeClient(RD_KAFKA_PRODUCER, options.brokers, PromptProducer())),
        from_(OpenTopic(consumer_, from)),
        to_(OpenTopic(producer_, to)),
        queue_(rd_kafka_queue_new(consumer_)) {
    for (const int partition : partitions) {
      rd_kafka_consume_start_queue(from_, partition, 0, queue_);
    }
  }

  // The partition of the next record; -1 if none has come.
  int Receive() {
    rd_kafka_poll(producer_, 0);
    rd_kafka_message_t* const message = rd_kafka_consume_queue(queue_, 50);
    if (message == nullptr) return -1;
    const int partition = message->err == RD_KAFKA_RESP_ERR_NO_ERROR ? message->partition : -1;
    rd_kafka_message_destroy(message);
    return partition;
  }

  std::string& value() { return value_; }

  // The value, in as many records as it takes.
  void Send(int partition) {
    const int key = partition;
    for (size_t begin = 0; begin < value_.size(); begin += kRecordBytes) {
      Produce(producer_, to_, partition, &key, sizeof(key), value_.data() + begin,
              std::min(kRecordBytes, value_.size() - begin));
    }
  }

 private:
  std::string value_;
  rd_kafka_t* const consumer_;
  rd_kafka_t* const producer_;
  rd_kafka_topic_t* const from_;
  rd_kafka_topic_t* const to_;
  rd_kafka_queue_t* const queue_;
};

// The table of a server that has nothing else to do.
class Table {
 public:
  explicit Table(const Options& options)
      : ids_(options.ids / options.Shards()), count_(options.rows / options.Shards()) {
    if (ids_ == 0) return;
    rows_.reserve(count_);
    for (uint64_t id = 0; id < count_; ++id) rows_[id] = {};
  }

  // What one message names: random ids.
  void Add() {
    for (size_t i = 0; i < ids_; ++i) {
      for (float& value : rows_[random_() % count_]) value += 1;
    }
  }
  void CopyTo(std::string& message) {
    for (size_t i = 0; i < ids_; ++i) {
      std::memcpy(message.data() + i * kRowBytes, rows_[random_() % count_].data(), kRowBytes);
    }
  }

 private:
  size_t ids_;
  uint64_t count_;
  std::unordered_map<uint64_t, std::array<float, kWidth>> rows_;
  std::mt19937_64 random_{1};
};

// Server 0 prints "begin" when the measurement begins, and the rounds per second when it is over.
// Ends when it is killed.
void Serve(const Options& options) {
  Table table(options);
  Hop hop(options, options.gradients(), {options.shard}, options.weights(),
          options.weights_bytes());
  const int records = RecordsOf(options.gradient_bytes());
  const int all = records * options.workers;
  int waiting_for = all;
  double begin = 0;  // from the end of a round to that of another, so that slow ones count whole
  size_t rounds = 0;
  bool is_over = false;
  const double started = Now();
  while (true) {
    if (hop.Receive() < 0) continue;
    if (--waiting_for % records == 0) table.Add();
    if (waiting_for > 0) continue;
    waiting_for = all;
    const double now = Now();
    if (begin > 0) ++rounds;
    if (begin == 0 && now >= started + options.warm_up) {
      begin = now;
      Print("begin");
    }
    if (options.shard == 0 && !is_over && rounds > 0 && now >= begin + options.seconds) {
      is_over = true;
      Print("rounds/s " + std::to_string(static_cast<double>(rounds) / (now - begin)));
    }
    if (options.once) {
      hop.Send(options.workers);
      continue;
    }
    for (int worker = 0; worker < options.workers; ++worker) {
      table.CopyTo(hop.value());
      hop.Send(worker);
    }
  }
}

// Its workers go on when a message of every server has come to the shared partition. Ends when it
// is killed.
void WorkOnShared(const Options& options) {
  Hop hop(options, options.weights(), {options.workers}, options.gradients(),
          options.gradient_bytes());
  const auto send = [&] {
    for (size_t i = 0; i < options.partitions.size(); ++i) {
      for (int shard = 0; shard < options.shards; ++shard) hop.Send(shard);
    }
  };
  const int all = RecordsOf(options.weights_bytes()) * options.shards;
  send();
  for (int waiting_for = all;;) {
    if (hop.Receive() < 0 || --waiting_for > 0) continue;
    waiting_for = all;
    send();
  }
}

// Ends when it is killed.
void Work(const Options& options) {
  Hop hop(options, options.weights(), options.partitions, options.gradients(),
          options.gradient_bytes());
  const auto send = [&] {
    for (int shard = 0; shard < options.shards; ++shard) hop.Send(shard);
  };
  const int all = RecordsOf(options.weights_bytes()) * options.shards;
  std::map<int, int> waiting_for;
  for (const int partition : options.partitions) {
    waiting_for[partition] = all;
    send();
  }
  while (true) {
    const int partition = hop.Receive();
    if (partition < 0 || --waiting_for[partition] > 0) continue;
    waiting_for[partition] = all;
    send();
  }
}

}  // namespace
}  // namespace millrace::bare

int main(int argc, char** argv) {
  CLI::App app("The floor of a training round: the same records by bare librdkafka.");
  millrace::bare::Options options;
  app.add_option("--brokers", options.brokers)->required();
  app.add_option("--prefix", options.prefix, "Of the topics' names")->required();
  app.add_option("--bytes", options.bytes, "Of a message")->capture_default_str();
  app.add_option("--ids", options.ids, "Embedding rows in a message instead of bytes");
  app.add_option("--rows", options.rows, "Of the table")->capture_default_str();
  app.add_option("--workers", options.workers, "Logical ones")->capture_default_str();
  app.add_option("--shards", options.shards, "Servers")->capture_default_str();
  app.add_flag("--once", options.once, "What is the same for all workers is sent once");
  CLI::App* const create = app.add_subcommand("create", "Create the topics");
  CLI::App* const remove =
      app.add_subcommand("remove", "Delete all topics of the prefix, whoever made them");
  CLI::App* const serve =
      app.add_subcommand("serve", "Be a server; the first prints rounds per second");
  serve->add_option("--shard", options.shard, "Which of the servers")->capture_default_str();
  serve->add_option("--warm-up", options.warm_up, "Seconds")->capture_default_str();
  serve->add_option("--seconds", options.seconds, "To be measured")->capture_default_str();
  CLI::App* const work = app.add_subcommand("work", "Be a worker process");
  work->add_option("--partitions", options.partitions, "Its logical workers")
      ->delimiter(',')
      ->required();
  app.require_subcommand(1);
  CLI11_PARSE(app, argc, argv);
  if (create->parsed()) {
    millrace::bare::CreateTopics(options.brokers, {{options.gradients(), options.shards},
                                                   {options.weights(), options.workers + 1}});
  } else if (remove->parsed()) {
    millrace::bare::DeleteTopics(options.brokers, options.prefix + ".");
  } else if (serve->parsed()) {
    millrace::bare::Serve(options);
  } else if (work->parsed()) {
    options.once ? millrace::bare::WorkOnShared(options) : millrace::bare::Work(options);
  }
  return 0;
}
