// Decodes records of gradients to validated messages, and encodes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "messages/records.pb.h"
#include "messages/training.pb.h"
#include "topics/frame.h"
#include "topics/message_bytes.h"
#include "topics/packed_floats.h"
#include "topics/table_rows.h"

namespace millrace {

// Upper bounds of the numbers in messages. A shard with a thousand updates a second would need some
// thousand years to reach them; larger numbers are forged, and would overflow when multiplied.
inline constexpr uint64_t kMostClock = uint64_t{1} << 45;
inline constexpr uint64_t kMostRow = uint64_t{1} << 56;
// Ids are milliseconds, or one more than the newest id.
inline constexpr uint64_t kMostSnapshot = uint64_t{1} << 56;
// So that ids after a cancelled one, which ascend one by one, never come to kMostSnapshot.
inline constexpr uint64_t kMostCancelled = kMostSnapshot - (uint64_t{1} << 54);
inline constexpr uint64_t kMostRequest = uint64_t{1} << 55;

// The messages that a shard accepts: of this job, to this shard, of this shape.
struct GradientShape {
  uint64_t job = 0;  // its name's hash
  uint64_t epoch = 1;
  ShardId shard = 0;
  uint32_t shards = 1;
  KeyRange range;  // of the shard
  uint32_t workers = 1;
  size_t classes = 2;
  size_t numeric_columns = 0;
  size_t row_width = 0;                // of an embedding row; 0: the job has none
  std::vector<KeyRange> parameters{};  // model EXTERNAL: what the shard has of each; else none
  std::vector<NamedTable> tables{};    // of those parameters, the tables
  FloatFormat values = Training::Compression::FLOAT32;  // of updates
  size_t pipeline = 1;                                  // updates that a worker may have in flight
  // Of several groups of servers: the one whose values it gets, and those whose deltas it gets.
  std::optional<uint32_t> neighbor{};
  std::vector<uint32_t> sources{};
};

// Whether the shard accepts `message`; InvalidArgument with the reason. The values of an update may
// be any floats, including NaN and infinity, and so may those of a delta. An accepted message has a
// kind and, unless it is a request or comes from a group that this one exchanges with, a worker of
// the job; an update and a leave have a clock.
Status CheckGradient(const Gradient& message, const GradientShape& shape);
// The same for parts of messages that a checkpoint saves.
Status CheckUpdate(const Gradient::Update& update, Clock clock, const GradientShape& shape);
Status CheckRestore(const Gradient::Restore& restore, const GradientShape& shape);
// How far a worker's rows were counted, in any message or checkpoint.
Status CheckProgress(const RowProgress& rows);

// Decodes records, and joins the chunks of split messages, which are a part of the shard's state.
// Deterministic; not thread-safe.
class GradientDecoder {
 public:
  explicit GradientDecoder(const GradientShape& shape, const ChunkLimits& limits = {})
      : shape_(shape), chunks_(limits) {}

  const GradientShape& shape() const { return shape_; }

  // The message that the record completes, checked and unpacked; empty when chunks are missing.
  // InvalidArgument or ResourceExhausted with the reason why the record is unusable.
  StatusOr<std::optional<Gradient>> Decode(std::string_view key, std::string_view value);

  // Drops the unfinished messages of a worker that sends no more.
  void Forget(WorkerId worker) { chunks_.Forget(worker); }

  void Save(ShardState& state) const;
  // DataLoss when Decode cannot have kept these chunks.
  Status Load(const ShardState& state);

 private:
  StatusOr<Gradient> Parse(std::string_view body) const;

  GradientShape shape_;
  ChunkJoiner chunks_;
};

// An update's bytes, with a dense slice that is not copied into the message first: `message` has
// none. ResourceExhausted when the message would be too large.
StatusOr<std::string> SerializeUpdate(const Gradient& message, std::span<const float> values,
                                      KeyRange range, size_t most_bytes);

// A shard's values of a parameter (ParameterPart), which stand elsewhere.
struct PartView {
  uint32_t parameter = 0;
  std::span<const float> values;
};
// Rows of tables (EmbeddingBlock), which stand elsewhere.
struct TableRowsView {
  std::span<const EmbeddingId> ids;
  std::span<const float> values;
};
// The same of named parameters: what the update puts, its parts, and its rows, of which `message`
// has none. The bytes have views of the values.
StatusOr<MessageBytes> SerializeStep(const Gradient& message, std::span<const PartView> put,
                                     std::span<const PartView> part, const TableRowsView& rows,
                                     size_t most_bytes);

}  // namespace millrace
