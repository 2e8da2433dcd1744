// Between the messages on the wire and what the code computes with.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/types.h"
#include "messages/records.pb.h"
#include "models/evaluation.h"
#include "models/gradient_sum.h"
#include "models/moments.h"
#include "models/row.h"

namespace millrace {

// How large a row's parts may be: what a decoded row is checked against.
struct RowShape {
  size_t numeric = 0;   // numeric columns
  size_t features = 0;  // without the bias
  size_t classes = 0;   // 0: a regression
  size_t ids = 0;       // of embedding rows
};
RowShape RowShapeFrom(const JobFeatures& features);

// input-data: values are single frames of InputRecord.
std::string EncodeRow(const Row& row);
std::string EncodeEnd(RowNumber row_count);

// Parses a value of input-data into `record` (reused: no allocation when warm) and checks it
// against `shape`. InvalidArgument with the reason.
Status DecodeInput(std::string_view value, const RowShape& shape, InputRecord& record);
void ToRow(const TrainingRow& message, Row& row);

// Parses a whole message (the body of a frame).
template <typename Message>
Status ParseMessage(std::string_view body, Message& message) {
  if (!message.ParseFromArray(body.data(), static_cast<int>(body.size()))) {
    return absl::InvalidArgumentError("not a " + message.GetTypeName());
  }
  return absl::OkStatus();
}

EvaluationSums FromProto(const EvaluationSumsMessage& message);
void ToProto(const EvaluationSums& sums, EvaluationSumsMessage& message);
Moments FromProto(const MomentsMessage& message);
void ToProto(const Moments& moments, MomentsMessage& message);
void ToProto(const EvaluationFigures& figures, Figures& message);

// Checks of what came over the wire; InvalidArgument with the reason.
Status CheckSums(const EvaluationSumsMessage& message, size_t classes);
Status CheckMoments(const MomentsMessage& message, size_t columns);
// The slice must cover exactly `range`, densely, sparsely or not at all.
Status CheckSlice(const Slice& slice, KeyRange range);

// Ids ascending, distinct and of the shard; with `width` values each, if it is a block.
Status CheckIds(const google::protobuf::RepeatedField<uint64_t>& ids, ShardId shard,
                uint32_t shards);
Status CheckEmbeddings(const EmbeddingBlock& block, size_t width, ShardId shard, uint32_t shards);

// Whether every value is a number in [-limit, limit].
bool AllWithin(std::span<const float> values, float limit);
bool AllWithin(const Slice& slice, float limit);
bool AllWithin(const EmbeddingBlock& block, float limit);

// Writes the part of `gradient` in `range` to `slice`, densely or sparsely, whichever is smaller
// when a value takes `value_bytes` in the end.
void EncodeSlice(GradientSum& gradient, KeyRange range, size_t value_bytes, Slice& slice);
// Whether that is densely.
bool GoesDensely(GradientSum& gradient, KeyRange range, size_t value_bytes);
// The same of single values of a vector that is zero elsewhere; keys ascend.
void EncodeSlice(std::span<const uint64_t> keys, std::span<const float> values, KeyRange range,
                 size_t value_bytes, Slice& slice);
void EncodeDenseSlice(std::span<const float> values, KeyRange range, Slice& slice);
// The bytes of `message`, which has no slice, with a dense one as the field of this number. It
// stands behind the others, and its values are copied once, not into a message first: they are most
// of what a server and its workers send.
std::string SerializeWithDenseSlice(const google::protobuf::Message& message, int field,
                                    std::span<const float> values, KeyRange range);
// target[i] += factor * slice[i]. REQUIRES a slice that passed CheckSlice for a range of
// target.size() keys.
void AddSlice(const Slice& slice, float factor, std::span<float> target);

}  // namespace millrace
