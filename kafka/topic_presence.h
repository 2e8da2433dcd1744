// Notices that a topic is deleted while it is read. Private to this folder.
#pragma once

#include <librdkafka/rdkafka.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"

namespace millrace::kafka_internal {

// librdkafka tells that a topic is unknown, and then waits for it without an end. But a broker that
// has just come up may not know its topics for a moment; so the cluster is asked again before a
// reader gives up. Used by one thread.
class TopicPresence {
 public:
  // How long nobody knows a topic that is gone.
  static constexpr std::chrono::seconds kGone{5};

  // `client` outlives it.
  TopicPresence(rd_kafka_t* client, std::string topic)
      : client_(client), topic_(std::move(topic)) {}

  // Some topic of this process is unknown to a broker; librdkafka tells that to a client as a
  // whole. Every reader looks for its own topic then. Thread-safe.
  static void NoteUnknownTopic();
  // This topic is.
  void Suspect() { suspected_ = true; }
  // Asks the cluster, at most every second, while the topic is suspected; waits at most a second
  // for the answer. Error: NotFound, with the topic and the remedy, once it has been gone for
  // kGone.
  Status Check();

 private:
  rd_kafka_t* const client_;
  const std::string topic_;
  bool suspected_ = false;
  uint64_t notes_seen_ = 0;
  std::chrono::steady_clock::time_point next_look_{};
  std::optional<std::chrono::steady_clock::time_point> gone_since_;
};

// Whether an error says that a topic or a partition is not there.
bool IsUnknownTopic(rd_kafka_resp_err_t error);

}  // namespace millrace::kafka_internal
