// Sends rows to the job's topic in Kafka.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "kafka/options.h"
#include "kafka/producer.h"
#include "producer/row_sender.h"

namespace millrace {

class KafkaRowSender final : public RowSender {
 public:
  struct Options {
    // Rows arrive one by one and should be sent soon; else they arrive as fast as they are sent.
    bool paced = false;
    // The owner can create another sender and continue after what the log has. With a pipe as input
    // it cannot, and a broker that dies must not end this sender (see KafkaProducer).
    bool can_be_replaced = true;
  };
  // Does not connect. Errors: a Kafka setting that is unknown or invalid.
  static StatusOr<std::unique_ptr<KafkaRowSender>> Create(const KafkaOptions& kafka,
                                                          std::string topic,
                                                          const Options& options);

  // Looks the topic up: a topic first named by a row costs a second.
  Status Prepare() { return producer_->Prepare({topic_}); }

  Status SendRow(RowPlace place, std::string_view value) override;
  Status SendEnd(WorkerId worker, RowNumber row_count) override;
  Status Wait(std::chrono::milliseconds timeout) override;
  size_t outstanding() const override { return producer_->outstanding(); }
  const std::string& topic() const override { return topic_; }

 private:
  KafkaRowSender(std::unique_ptr<KafkaProducer> producer, std::string topic)
      : producer_(std::move(producer)), topic_(std::move(topic)) {}

  Status Send(WorkerId worker, RowNumber key, std::string_view value);

  std::unique_ptr<KafkaProducer> producer_;
  const std::string topic_;
  uint32_t since_poll_ = 0;
};

}  // namespace millrace
