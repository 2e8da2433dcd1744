// Notices that a topic is deleted while it is used. Private to this folder.
#pragma once

#include <librdkafka/rdkafka.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"

namespace millrace::kafka_internal {

// librdkafka reports that a topic is unknown, and then waits for it without a time limit. But a
// broker that has just started may not know its topics for a moment; so the cluster is asked again
// before a reader gives up. Used by one thread.
class TopicPresence {
 public:
  // A topic that no broker has known for so long was deleted.
  static constexpr std::chrono::seconds kGone{5};

  // `client` outlives it.
  TopicPresence(rd_kafka_t* client, std::string topic)
      : client_(client), topic_(std::move(topic)) {}

  // To be called when a broker does not know some topic of this process; librdkafka does not say
  // which. Every reader then checks its own topic. Thread-safe.
  static void NoteUnknownTopic();
  // To be called when a broker does not know this topic.
  void Suspect() { suspected_ = true; }
  // Asks the cluster, at most every second, while the topic is suspected; waits at most a second
  // for the answer. Error: NotFound, with the topic and the remedy, once it has been gone for
  // kGone.
  Status Check();
  // It was not there when the cluster was asked last, or has not been asked yet.
  bool is_suspected() const { return suspected_; }

 private:
  rd_kafka_t* const client_;
  const std::string topic_;
  bool suspected_ = false;
  uint64_t notes_seen_ = 0;
  std::chrono::steady_clock::time_point next_look_{};
  std::optional<std::chrono::steady_clock::time_point> gone_since_;
};

// Whether an error means that a topic or a partition does not exist.
bool IsUnknownTopic(rd_kafka_resp_err_t error);

}  // namespace millrace::kafka_internal
