// Decodes a shard's answers to validated messages, and encodes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "messages/records.pb.h"
#include "topics/message_bytes.h"
#include "topics/table_rows.h"

namespace millrace {

// The answers that a worker accepts: of this job, of any of its shards, of this shape.
struct WeightsShape {
  uint64_t job = 0;  // its name's hash
  uint64_t epoch = 1;
  uint32_t shards = 1;
  uint32_t workers = 1;
  uint64_t parameters = 0;  // of the model
  size_t classes = 2;       // 0: a regression
  size_t numeric_columns = 0;
  size_t row_width = 0;              // of an embedding row; 0: the job has none
  std::vector<NamedTable> tables{};  // model EXTERNAL
  size_t pipeline = 1;               // updates that a worker may have in flight
};

// Whether an answer has weights: its worker may continue and has not left.
inline bool HasWeights(const Weights& message) {
  return message.released() && !message.left() && !message.lost();
}

// Decodes the body of a frame. InvalidArgument with the reason why it is not an answer for this
// worker. An answer with weights has all weights of its shard, and of shard 0 the moments, too; or
// it names the shared record that has them.
StatusOr<Weights> DecodeWeights(std::string_view body, const WeightsShape& shape);
// The same of the body of a shared record, which has all weights of its shard, and of shard 0 the
// moments, and whose answers AnswerFrom can make.
StatusOr<SharedWeights> DecodeSharedWeights(std::string_view body, const WeightsShape& shape);

// The answer to the worker that goes with these weights, as a message that names them; empty: there
// is none.
std::optional<Weights> AnswerFrom(const SharedWeights& shared, WorkerId worker);

// The bytes of an answer, whose slice is the dense `values`: `message` has none, and the bytes have
// a view of them. ResourceExhausted when the message would be too large.
StatusOr<MessageBytes> SerializeWeights(const Weights& message, std::span<const float> values,
                                        KeyRange range);
StatusOr<MessageBytes> SerializeWeights(const SharedWeights& message, std::span<const float> values,
                                        KeyRange range);

}  // namespace millrace
