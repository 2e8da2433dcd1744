// Whether a consumer's group is rebalancing. Private to this folder.
#pragma once

#include <atomic>

#include "kafka/rdkafka_handles.h"

namespace millrace::kafka_internal {

// A commit that is sent while a member joins reaches the coordinator with the previous generation.
// librdkafka (its issue 4059, until 2025) takes the answer, illegal generation, for the loss of all
// assigned partitions, and the member stops reading for two seconds: so commits have to wait during
// a rebalance. librdkafka does not report when it joins, so its requests are watched. A commit that
// is on its way within librdkafka when the join begins is still caught, which is rare.
class RebalanceWatch {
 public:
  // Call it before the client is made of `conf`; the watch outlives the client.
  void AddTo(rd_kafka_conf_t* conf);

  // From JoinGroup until SyncGroup is answered. Thread-safe.
  bool joining() const { return joining_; }

 private:
  static rd_kafka_resp_err_t OnNew(rd_kafka_t* client, const rd_kafka_conf_t*, void* self, char*,
                                   size_t);

  std::atomic<bool> joining_ = false;
};

}  // namespace millrace::kafka_internal
