// Rows onto a Kafka topic, each delivered before the writer is done.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "kafka/options.h"
#include "kafka/producer.h"
#include "python/src/of_one_process.h"

namespace millrace {

// Used by one thread. Needs no lock of the interpreter, but where `stopped` takes it. In a process
// that is forked every call is FailedPrecondition.
class TopicSender {
 public:
  struct Options {
    KafkaOptions kafka;  // with broker_timeout_s
    std::string topic;
    int32_t partitions = 1;         // of the topic, if it is created
    std::function<bool()> stopped;  // asked several times a second
  };

  // Waits for a broker, and creates the topic if it does not exist. Errors: InvalidArgument, the
  // topic's name; DeadlineExceeded that names the brokers; Cancelled soon after `stopped` has
  // become true; those of KafkaAdmin.
  static StatusOr<std::unique_ptr<TopicSender>> Open(Options options);

  // Records go to the partitions in turns. Waits while the queue is full. Errors: those of
  // KafkaProducer, and of Finish().
  Status Send(std::string_view value);

  // Waits until the broker has confirmed all records. DeadlineExceeded that names the brokers and
  // counts the records without an answer, which may be delivered yet; Internal with the reason of
  // the first record that was refused; Cancelled.
  Status Finish();

 private:
  TopicSender(Options options, std::unique_ptr<KafkaProducer> producer, int32_t partitions);

  Status CheckProcess() const;
  // Serves what has been reported, until fewer than `most` records are outstanding.
  Status WaitForLessThan(size_t most);
  Status TakeFailures();

  const Options options_;
  const OfOneProcess<KafkaProducer> producer_;
  const int32_t partitions_;
  int32_t next_partition_ = 0;
};

}  // namespace millrace
