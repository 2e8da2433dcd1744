// Encodes and decodes parts of the parameter vector and rows of the embedding table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "messages/records.pb.h"
#include "models/gradient_sum.h"
#include "topics/message_bytes.h"

namespace millrace {

// Checks of received messages; InvalidArgument with the reason. The slice must cover exactly
// `range`, densely, sparsely or not at all.
Status CheckSlice(const Slice& slice, KeyRange range);

// Ids ascending, distinct and of the shard; with `width` values each, if it is a block.
Status CheckIds(const google::protobuf::RepeatedField<uint64_t>& ids, ShardId shard,
                uint32_t shards);
Status CheckEmbeddings(const EmbeddingBlock& block, size_t width, ShardId shard, uint32_t shards);

// Whether every value is a number in [-limit, limit].
bool AllWithin(std::span<const float> values, float limit);
bool AllWithin(const Slice& slice, float limit);
bool AllWithin(const EmbeddingBlock& block, float limit);
// Appends the values, if every one is a number in [-limit, limit]. Returns whether it is; if not,
// some of them have been appended. (To look at many and then to copy them fetches all from memory
// twice.)
bool AppendWithin(std::span<const float> values, float limit, std::vector<float>& to);
// Whether every value is finite, and `scale` times it, too.
bool AreFinite(std::span<const float> values, float scale);

// Writes the part of `gradient` in `range` to `slice`, densely or sparsely, whichever is smaller
// when a value takes `value_bytes` in the end.
void EncodeSlice(GradientSum& gradient, KeyRange range, size_t value_bytes, Slice& slice);
// Whether EncodeSlice would write it densely.
bool GoesDensely(GradientSum& gradient, KeyRange range, size_t value_bytes);
// The same of single values of a vector that is zero elsewhere. REQUIRES ascending, distinct keys.
void EncodeSlice(std::span<const uint64_t> keys, std::span<const float> values, KeyRange range,
                 size_t value_bytes, Slice& slice);
void EncodeDenseSlice(std::span<const float> values, KeyRange range, Slice& slice);
// Appends a dense slice as a message's field of this number. (Its values are copied once, and not
// into a message first, since they are most of the bytes that servers and workers send.)
void AppendDenseSlice(int field, std::span<const float> values, KeyRange range, std::string& bytes);
// The same, with a view of the values.
void AppendDenseSlice(int field, std::span<const float> values, KeyRange range,
                      MessageBytes& bytes);
// The number of bytes that AppendDenseSlice appends.
size_t DenseSliceFieldBytes(int field, KeyRange range);
// Appends the tag and length of a field of `size` bytes.
void AppendFieldHead(int field, size_t size, std::string& bytes);

// target[i] += factor * slice[i]. REQUIRES a slice that passed CheckSlice for a range of
// target.size() keys.
void AddSlice(const Slice& slice, float factor, std::span<float> target);

}  // namespace millrace
