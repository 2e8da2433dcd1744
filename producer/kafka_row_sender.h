// Sends rows to the job's topic in Kafka.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "kafka/options.h"
#include "kafka/producer.h"
#include "producer/row_sender.h"

namespace millrace {

class KafkaRowSender final : public RowSender {
 public:
  struct Options {
    // Records are few, and should be sent soon; else there are as many as can be sent.
    bool paced = false;
    // The owner can create another sender and continue after what the log has. With a pipe as input
    // it cannot, and a broker that dies must not end this sender (see KafkaProducer).
    bool can_be_replaced = true;
  };
  // Does not connect. Errors: a Kafka setting that is unknown or invalid.
  static StatusOr<std::unique_ptr<KafkaRowSender>> Create(const KafkaOptions& kafka,
                                                          std::string topic,
                                                          const Options& options);

  // Looks the topic up: a topic first named by a record costs a second.
  Status Prepare() { return producer_->Prepare({topic_}); }

  Status Send(WorkerId worker, const InputKey& key, std::string& value) override;
  Status Wait(std::chrono::milliseconds timeout) override;
  size_t outstanding() const override { return producer_->outstanding(); }
  uint64_t rows_outstanding() override;
  const std::string& topic() const override { return topic_; }

 private:
  KafkaRowSender(std::unique_ptr<KafkaProducer> producer, std::string topic)
      : producer_(std::move(producer)), topic_(std::move(topic)) {}

  // A partition's first record by this sender.
  enum class First : uint8_t { kUnsent, kSent, kConfirmed };
  First& FirstOf(WorkerId worker);

  std::unique_ptr<KafkaProducer> producer_;
  const std::string topic_;
  std::vector<First> firsts_;  // by partition
  uint32_t since_poll_ = 0;
  std::deque<uint32_t> newest_;  // rows of each of the newest records, as many as are outstanding
  uint64_t newest_rows_ = 0;     // their sum
};

}  // namespace millrace
