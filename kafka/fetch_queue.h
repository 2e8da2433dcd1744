// A queue of fetched records and events, handed out one by one. Private to this folder.
#pragma once

#include <librdkafka/rdkafka.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "kafka/consumer.h"
#include "kafka/fetch_nudge.h"
#include "kafka/rdkafka_handles.h"
#include "kafka/read_positions.h"
#include "kafka/wakeup.h"

namespace millrace::kafka_internal {

// The result of one Poll of a consumer.
struct PollResult {
  size_t events = 0;                // handed out
  std::vector<int32_t> restart;     // partitions, by the judgement of ReadPositions
  bool is_topic_unknown = false;    // by a broker, at least
  bool is_connection_lost = false;  // and nothing was handed out since
};

class FetchQueue {
 public:
  // `wakeup` (may be null) is notified when the first event enters an empty queue. `closed` (may be
  // null) counts the client's closed connections, and outlives the queue.
  FetchQueue(Handle<rd_kafka_queue_t> queue, Wakeup* wakeup,
             const std::atomic<uint64_t>* closed = nullptr);
  ~FetchQueue();
  FetchQueue(const FetchQueue&) = delete;
  FetchQueue& operator=(const FetchQueue&) = delete;

  rd_kafka_queue_t* get() const { return queue_.get(); }

  // While held nothing is handed out, from within a handler too; what is fetched stays here.
  void Hold(bool held) { held_ = held; }

  // Hands out events until there have been `max_events`, or nothing is left, or it is held, or what
  // comes next may have been fetched after a connection was closed (told once, if the handler wants
  // to know). Does not wait. Errors: the first of a handler, and permanent ones.
  Status HandOut(size_t max_events, const ConsumerHandler& handler, ReadPositions& positions,
                 FetchNudge& nudge, PollResult& result);

  // Throws away what was taken of a partition's records for an assignment that is over (librdkafka
  // drops what is still in the queue).
  void Drop(int32_t partition);
  // Throws away everything.
  void DropAll();

 private:
  bool Refill();
  // Whether a connection was closed since the last call. What was in the batch before the close was
  // fetched before it.
  bool TakeConnectionLost();

  Handle<rd_kafka_queue_t> queue_;
  const std::atomic<uint64_t>* closed_;
  uint64_t closed_seen_ = 0;
  bool held_ = false;
  // Taken from the queue and not yet handed out: [next_, count_) of the batch.
  std::array<rd_kafka_message_t*, 256> batch_;  // one at a time costs a third more
  size_t next_ = 0;
  size_t count_ = 0;
  std::vector<RecordHeader> headers_;  // of the record that is handed out; empty: none are wanted
};

}  // namespace millrace::kafka_internal
