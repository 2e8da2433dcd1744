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
// read. With --direct it is that of a third one: the server sends to each worker by a stream of
// gRPC (benchmarks/kafka/bare_stream.h), and nothing to `weights`. With --apart each worker has
// clients, and a thread, of its own, as trainers of the library have; by streams it always has.
//
// The messages that a worker sends or gets have --bytes bytes, all servers' together; or, with
// --ids, as many as that many embedding rows of 16 floats and their ids have, and of `gradients`
// the ids that are wanted next, too. Then the servers keep --rows rows in unordered maps, add what
// has come to those that are named, and copy out those that are wanted. A message that is larger
// than a record may be is sent in several.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "benchmarks/kafka/bare.h"
#include "benchmarks/kafka/bare_stream.h"
#include "benchmarks/kafka/round_trips.h"

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
  bool direct = false;
  double warm_up = 3;
  double seconds = 8;
  int shard = 0;                // of a server
  std::vector<int> partitions;  // of a worker process, or of a thread of it
  bool apart = false;
  int port = 0;  // where the streams are served

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

// Reads partitions of a topic from their beginning through one queue.
class Reader {
 public:
  Reader(const Options& options, const std::string& topic, const std::vector<int>& partitions)
      : client_(MakeClient(RD_KAFKA_CONSUMER, options.brokers, Consumer())),
        topic_(OpenTopic(client_, topic)),
        queue_(rd_kafka_queue_new(client_)) {
    for (const int partition : partitions) {
      rd_kafka_consume_start_queue(topic_, partition, 0, queue_);
    }
  }

  // The partition of the next record; -1 if none has come.
  int Receive() {
    rd_kafka_message_t* const message = rd_kafka_consume_queue(queue_, 50);
    if (message == nullptr) return -1;
    const int partition = message->err == RD_KAFKA_RESP_ERR_NO_ERROR ? message->partition : -1;
    rd_kafka_message_destroy(message);
    return partition;
  }

 private:
  rd_kafka_t* const client_;
  rd_kafka_topic_t* const topic_;
  rd_kafka_queue_t* const queue_;
};

// Sends one value to a topic again and again.
class Sender {
 public:
  Sender(const Options& options, const std::string& topic, size_t bytes)
      : value_(bytes, 'x'),
        client_(MakeClient(RD_KAFKA_PRODUCER, options.brokers, PromptProducer())),
        topic_(OpenTopic(client_, topic)) {}

  std::string& value() { return value_; }

  // The value, in as many records as it takes.
  void Send(int partition) {
    rd_kafka_poll(client_, 0);
    const int key = partition;
    for (size_t begin = 0; begin < value_.size(); begin += kRecordBytes) {
      Produce(client_, topic_, partition, &key, sizeof(key), value_.data() + begin,
              std::min(kRecordBytes, value_.size() - begin));
    }
  }

 private:
  std::string value_;
  rd_kafka_t* const client_;
  rd_kafka_topic_t* const topic_;
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

// How a server answers all workers.
std::function<void()> AnswerByKafka(const Options& options, Table& table) {
  const auto sender = std::make_shared<Sender>(options, options.weights(), options.weights_bytes());
  if (options.once) return [sender, &options] { sender->Send(options.workers); };
  return [sender, &options, &table] {
    for (int worker = 0; worker < options.workers; ++worker) {
      table.CopyTo(sender->value());
      sender->Send(worker);
    }
  };
}

// Prints the port; returns when each worker has a stream.
std::function<void()> AnswerByStreams(const Options& options, Table& table) {
  const auto streams = std::make_shared<AnswerStreams>();
  SayNow(("port " + std::to_string(streams->port())).c_str());
  const auto count = static_cast<size_t>(options.workers);
  streams->Accept(count);
  const auto value = std::make_shared<std::string>(options.weights_bytes(), 'x');
  return [streams, value, count, &options, &table] {
    grpc::ByteBuffer message;
    for (size_t i = 0; i < count; ++i) {
      if (i == 0 || !options.once) {
        table.CopyTo(*value);
        message = ToMessage(*value);
      }
      streams->Begin(i, message);
    }
    streams->Finish();
  };
}

// Server 0 prints "begin" when the measurement begins, and the rounds per second when it is over.
// Ends when it is killed.
void Serve(const Options& options) {
  Table table(options);
  Reader gradients(options, options.gradients(), {options.shard});
  const std::function<void()> answer =
      options.direct ? AnswerByStreams(options, table) : AnswerByKafka(options, table);
  const int records = RecordsOf(options.gradient_bytes());
  const int all = records * options.workers;
  int waiting_for = all;
  double begin = 0;  // from the end of a round to that of another, so that slow ones count whole
  size_t rounds = 0;
  bool is_over = false;
  const double started = Now();
  while (true) {
    if (gradients.Receive() < 0) continue;
    if (--waiting_for % records == 0) table.Add();
    if (waiting_for > 0) continue;
    waiting_for = all;
    const double now = Now();
    if (begin > 0) ++rounds;
    if (begin == 0 && now >= started + options.warm_up) {
      begin = now;
      SayNow("begin");
    }
    if (options.shard == 0 && !is_over && rounds > 0 && now >= begin + options.seconds) {
      is_over = true;
      SayNow(("rounds/s " + std::to_string(static_cast<double>(rounds) / (now - begin))).c_str());
    }
    answer();
  }
}

// The workers' gradients: one to each server.
class Gradients {
 public:
  explicit Gradients(const Options& options)
      : sender_(options, options.gradients(), options.gradient_bytes()), shards_(options.shards) {}

  void Send() {
    for (int shard = 0; shard < shards_; ++shard) sender_.Send(shard);
  }

 private:
  Sender sender_;
  const int shards_;
};

// Of worker 0, whose rounds are measured.
RoundTrips MeasuredBy(const Options& options) {
  return {options.warm_up, options.partitions.front() == 0 ? options.seconds : 0};
}

// The following end when they are killed.

// Its workers go on when a message of every server has come to the shared partition.
void WorkOnShared(const Options& options) {
  Reader weights(options, options.weights(), {options.workers});
  Gradients gradients(options);
  RoundTrips trips = MeasuredBy(options);
  const int all = RecordsOf(options.weights_bytes()) * options.shards;
  while (true) {
    const auto sent = std::chrono::steady_clock::now();
    for (size_t i = 0; i < options.partitions.size(); ++i) gradients.Send();
    for (int waiting_for = all; waiting_for > 0;) {
      if (weights.Receive() >= 0) --waiting_for;
    }
    trips.Add(sent, std::chrono::steady_clock::now());
  }
}

void Work(const Options& options) {
  Reader weights(options, options.weights(), options.partitions);
  Gradients gradients(options);
  RoundTrips trips = MeasuredBy(options);
  const int all = RecordsOf(options.weights_bytes()) * options.shards;
  std::map<int, int> waiting_for;
  RoundTrips::Time sent;  // by the first worker
  const auto send = [&](int worker) {
    waiting_for[worker] = all;
    if (worker == options.partitions.front()) sent = std::chrono::steady_clock::now();
    gradients.Send();
  };
  for (const int worker : options.partitions) send(worker);
  while (true) {
    const int worker = weights.Receive();
    if (worker < 0 || --waiting_for[worker] > 0) continue;
    if (worker == options.partitions.front()) trips.Add(sent, std::chrono::steady_clock::now());
    send(worker);
  }
}

// One worker.
void WorkByStream(const Options& options) {
  AnswerStream weights(options.port);
  Gradients gradients(options);
  RoundTrips trips = MeasuredBy(options);
  while (true) {
    const auto sent = std::chrono::steady_clock::now();
    gradients.Send();
    weights.Receive();
    trips.Add(sent, std::chrono::steady_clock::now());
  }
}

void WorkInThreads(const Options& options) {
  const auto work = options.direct ? WorkByStream : options.once ? WorkOnShared : Work;
  std::vector<std::thread> threads;
  for (const int partition : options.partitions) {
    Options one = options;
    one.partitions = {partition};
    threads.emplace_back(work, one);
  }
  for (std::thread& thread : threads) thread.join();
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
  app.add_flag("--direct", options.direct, "The one server answers by streams");
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
  work->add_flag("--apart", options.apart, "Each has clients of its own");
  work->add_option("--port", options.port, "Where the server says that its streams are");
  work->add_option("--warm-up", options.warm_up, "Seconds")->capture_default_str();
  work->add_option("--seconds", options.seconds, "For which worker 0 measures its rounds")
      ->capture_default_str();
  app.require_subcommand(1);
  CLI11_PARSE(app, argc, argv);
  if (options.direct && options.shards != 1) {
    millrace::bare::Fail("--direct is for one server: --shards 1");
  }
  if (create->parsed()) {
    millrace::bare::CreateTopics(options.brokers, {{options.gradients(), options.shards},
                                                   {options.weights(), options.workers + 1}});
  } else if (remove->parsed()) {
    millrace::bare::DeleteTopics(options.brokers, options.prefix + ".");
  } else if (serve->parsed()) {
    millrace::bare::Serve(options);
  } else if (options.apart || options.direct) {
    millrace::bare::WorkInThreads(options);
  } else {
    options.once ? millrace::bare::WorkOnShared(options) : millrace::bare::Work(options);
  }
  return 0;
}
