// What a worker knows of a shard, by its answers. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/types.h"
#include "messages/records.pb.h"
#include "processors/received_rows.h"

namespace millrace {

// Not thread-safe.
struct ShardView {
  // Of a worker with so many updates in flight.
  explicit ShardView(size_t in_flight) : pipeline(in_flight), rows(in_flight) {}

  // What an answer may have changed, beside the view.
  struct Effect {
    bool corrects = false;      // what was known had been made up, or is forgotten by the shard
    bool denies_leave = false;  // and so it had been made up that the worker has left
  };
  // An answer, with the shared record that has its values (null: they are in it, there are none, or
  // they are still to come). `is_ours`: it answers a message of this instance.
  Effect Take(Weights answer, std::shared_ptr<const SharedWeights> shared, bool is_ours);
  // A shared record without an answer to this worker. Returns whether it has the values of one.
  bool TakeShared(const std::shared_ptr<const SharedWeights>& shared, bool is_sequential);
  // Gives the answer its values if a recent shared record has them. Returns whether it did.
  bool TakeValues(bool is_sequential);
  // Whether the answer has values that have not arrived.
  bool LacksValues() const;
  // Whether an answer of the same clock has parameters that nobody had put before.
  bool HasMoreParameters(const Weights& answer) const;

  size_t pipeline;
  bool known = false;
  Clock clock = 0;
  bool released = false;
  bool left = false;
  // This instance has said so, or the shard has, to a question: nobody else has made it up.
  bool left_is_sure = false;
  bool is_reply = false;  // it has said `clock` and the rows to a message of this instance
  // Numbers of what the last Repeat has sent to the shard, which has said nothing new since.
  std::vector<uint64_t> repeated{};
  // Without its embedding rows. Never null.
  std::shared_ptr<const Weights> message = std::make_shared<const Weights>();
  ReceivedRows rows;  // those of the last answers, as many as updates may be in flight
  // The shared record with the values of `message`, if they are not in it and have arrived.
  std::shared_ptr<const SharedWeights> values;
  // The last shared records without an answer to this worker, as they came: an answer may name
  // one. A few, since one that a replaced server sends late, or somebody has made up, may come
  // between.
  std::vector<std::shared_ptr<const SharedWeights>> recent;
  // Sequential, when other shards are still at the previous clock: this shard's answer at that
  // clock.
  bool asked_for_previous = false;
  std::shared_ptr<const Weights> previous_round;
  std::optional<Clock> asked_for_embeddings;  // of which clock
  bool is_lost = false;                       // the shard has lost its state, it said last,
  bool asked_to_restore = false;              // and has not been told what the worker has
  bool was_lost = false;                      // the shard has lost its state once
  // What the shard says is older than what the worker knows, or than its rows.
  bool is_set_back = false;
  bool asked_in_doubt = false;      // whether what it has said of the rows, or that this worker
                                    // has left, is so
  std::optional<Clock> leave_sent;  // of which clock
};

// An answer's values are in it or in the shared record that it names.
const Slice& SliceOf(const Weights& message, const SharedWeights* shared);
// The same, for as long as somebody has it.
std::shared_ptr<const Slice> SliceOf(const std::shared_ptr<const Weights>& message,
                                     const std::shared_ptr<const SharedWeights>& shared);
const MomentsMessage& MomentsOf(const Weights& message, const SharedWeights* shared);

}  // namespace millrace
