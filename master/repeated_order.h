// What a master tells shard 0 by its log, again and again until it has been carried out.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "kafka/producer.h"
#include "messages/job.pb.h"
#include "messages/records.pb.h"

namespace millrace {

// Used by one thread.
class RepeatedOrder {
 public:
  // `what`: is ordered, for the log ("to change the shards"). `client_id`: of the Kafka client, of
  // which there is none before the first order. `config` outlives it.
  RepeatedOrder(const JobConfig& config, std::string_view client_id, std::string_view what,
                std::chrono::milliseconds every)
      : config_(config), client_id_(client_id), what_(what), every_(every) {}

  // Says `order` to shard 0 of this layout of the job's shards if it is time to; its epoch and its
  // worker, which is none, are set here. None: nothing is to be said. An order that is not
  // delivered is logged, and said again. Errors are KafkaProducer::Create's.
  Status Tick(uint32_t layout, std::optional<Gradient> order);

 private:
  const JobConfig& config_;
  const std::string client_id_;
  const std::string what_;
  const std::chrono::milliseconds every_;
  std::unique_ptr<KafkaProducer> producer_;  // null: there was no order, or a client was of no use
  std::chrono::steady_clock::time_point next_;
};

}  // namespace millrace
