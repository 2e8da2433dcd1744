#include "topics/gradient_codec.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "base/big_endian.h"
#include "base/check.h"
#include "topics/figures_codec.h"
#include "topics/message_codec.h"
#include "topics/parameter_layout.h"
#include "topics/server_groups.h"
#include "topics/slice_codec.h"
#include "topics/topics.h"

namespace millrace {
namespace {

Status BadGradient(const std::string& reason) { return absl::InvalidArgumentError(reason); }

bool IsRequest(const Gradient& message) {
  return message.has_request_snapshot() || message.has_cancel_snapshot() ||
         message.has_cut_here() || message.has_resize() || message.has_reshard();
}

Status CheckLeave(const Gradient::Leave& leave, const GradientShape& shape) {
  // It may stand far behind what shard 0 has said.
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("snapshot", leave.mark().snapshot(), kMostSnapshot));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("a cut at clock", leave.mark().cut(), kMostClock));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("shards:", leave.mark().next_shards(), kMostShards));
  for (const Gradient::Joined& joined : leave.joined()) {
    MILLRACE_RETURN_IF_ERROR(CheckAtMost("a worker:", joined.worker(), shape.workers - 1));
    MILLRACE_RETURN_IF_ERROR(CheckAtMost("clock", joined.clock(), kMostClock));
  }
  return absl::OkStatus();
}

// Shard 0 fixes a cut pipeline + 1 updates after where it has the worker, which may be pipeline
// updates after the clock of a message to another shard.
Status CheckMark(const SnapshotMark& mark, Clock clock, const GradientShape& shape) {
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("snapshot", mark.snapshot(), kMostSnapshot));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("shards:", mark.next_shards(), kMostShards));
  const uint64_t ahead = 2 * shape.pipeline + 1;
  const bool has_cut = mark.snapshot() > 0 || mark.next_shards() > 0;
  if (!has_cut || mark.cut() <= clock + ahead) return absl::OkStatus();
  return BadGradient("a cut at clock " + std::to_string(mark.cut()) + " of a worker at clock " +
                     std::to_string(clock) + ": a cut is " + std::to_string(ahead) +
                     " clocks ahead at most");
}

// A row is learnt from once more when it has been counted.
Status CheckRows(uint64_t end, uint64_t repeated_end) {
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("rows up to", end, kMostRow));
  if (repeated_end <= end) return absl::OkStatus();
  return BadGradient("rows repeated up to " + std::to_string(repeated_end) +
                     ", of which those up to " + std::to_string(end) + " have been counted");
}

Status CheckWanted(const google::protobuf::RepeatedField<uint64_t>& ids,
                   const GradientShape& shape) {
  if (shape.row_width == 0 && !ids.empty()) {
    return BadGradient("it requests embedding rows, but this job has no id columns");
  }
  if (!shape.tables.empty()) MILLRACE_RETURN_IF_ERROR(CheckTables(ids, shape.tables));
  return CheckIds(ids, shape.shard, shape.shards);
}

Status CheckUpdatedRows(const Gradient::Update& update, const GradientShape& shape) {
  const EmbeddingBlock& rows = update.embeddings();
  if (rows.id().empty() && rows.value().empty()) return absl::OkStatus();
  if (shape.row_width == 0) return BadGradient("embedding rows in a job without id columns");
  if (shape.parameters.empty() && update.row_count() == 0) {
    return BadGradient("embedding rows in a message without training rows");
  }
  if (shape.tables.empty()) {
    return CheckEmbeddings(rows, shape.row_width, shape.shard, shape.shards);
  }
  MILLRACE_RETURN_IF_ERROR(CheckIds(rows.id(), shape.shard, shape.shards));
  return CheckRowsOfTables(rows, shape.tables);
}

// The tables that the update names, and whether its rows are of those.
Status CheckNamedTables(const Gradient::Update& update, const GradientShape& shape) {
  int64_t last = -1;
  for (const uint32_t number : update.table()) {
    if (number <= last) return BadGradient("table " + std::to_string(number) + " out of order");
    last = number;
    if (std::ranges::find(shape.tables, number, &NamedTable::parameter) == shape.tables.end()) {
      return BadGradient("rows of parameter " + std::to_string(number) + ", which is no table");
    }
  }
  if (!update.table().empty() && update.weight_sum() == 0) {
    return BadGradient("an update of rows without a weight");
  }
  MILLRACE_RETURN_IF_ERROR(CheckTables(update.embeddings().id(), shape.tables));
  for (const EmbeddingId row : update.embeddings().id()) {
    const uint32_t number = shape.tables[TableOf(row)].parameter;
    if (std::ranges::binary_search(update.table(), number)) continue;
    return BadGradient("a row of table " + std::to_string(number) + ", which it does not name");
  }
  return absl::OkStatus();
}

// What the update changes, of the model EXTERNAL by parameter.
Status CheckContent(const Gradient::Update& update, const GradientShape& shape) {
  const bool names_parameters =
      !update.put().empty() || !update.part().empty() || !update.table().empty();
  if (shape.parameters.empty()) {
    if (names_parameters) return BadGradient("named parameters, which this job does not have");
    if (update.row_count() > 0) return CheckSlice(update.slice(), shape.range);
    return absl::OkStatus();
  }
  if (update.has_slice()) return BadGradient("a slice in a job of named parameters");
  if (!update.part().empty() && update.weight_sum() == 0) {
    return BadGradient("an update of parameters without a weight");
  }
  MILLRACE_RETURN_IF_ERROR(CheckNamedTables(update, shape));
  MILLRACE_RETURN_IF_ERROR(CheckParameterParts(update.put(), shape.parameters));
  return CheckParameterParts(update.part(), shape.parameters);
}

// Whether it comes from a group of servers.
bool IsOfAGroup(const Gradient& message) {
  return message.has_delta() || message.has_neighbor_values();
}

bool IsNeighbor(WorkerId sender, const GradientShape& shape) {
  return shape.neighbor && SenderOfGroup(*shape.neighbor) == sender;
}

bool IsSource(WorkerId sender, const GradientShape& shape) {
  return std::ranges::any_of(shape.sources,
                             [&](uint32_t group) { return SenderOfGroup(group) == sender; });
}

// Whether it is a worker of the job, or a group that this one exchanges with.
bool IsSender(WorkerId sender, const GradientShape& shape) {
  return sender < shape.workers || IsNeighbor(sender, shape) || IsSource(sender, shape);
}

Status CheckGroup(const Gradient& message, const GradientShape& shape) {
  const WorkerId sender(message.worker());
  if (message.has_delta() ? IsSource(sender, shape) : IsNeighbor(sender, shape)) {
    return absl::OkStatus();
  }
  return BadGradient("an exchange with a group of servers that this one has none with");
}

Status CheckDenseSlice(const Slice& slice, const GradientShape& shape) {
  MILLRACE_RETURN_IF_ERROR(CheckSlice(slice, shape.range));
  if (static_cast<size_t>(slice.dense_size()) == shape.range.size()) return absl::OkStatus();
  return BadGradient("an exchange of a part of the shard's keys only");
}

Status CheckNumber(uint64_t number) {
  if (number == 0) return BadGradient("an exchange without a number");
  return CheckAtMost("exchange", number, kMostClock);
}

Status CheckDelta(const Gradient::Delta& delta, const GradientShape& shape) {
  MILLRACE_RETURN_IF_ERROR(CheckNumber(delta.number()));
  return CheckDenseSlice(delta.slice(), shape);
}

Status CheckNeighborValues(const Gradient::NeighborValues& values, const GradientShape& shape) {
  MILLRACE_RETURN_IF_ERROR(CheckNumber(values.number()));
  const auto& numbers = values.has_values();
  const bool is_ascending =
      std::ranges::adjacent_find(numbers, std::greater_equal<>()) == numbers.end();
  if (!is_ascending || (!numbers.empty() && *numbers.rbegin() >= shape.parameters.size())) {
    return BadGradient("parameters with values out of order, or of another job");
  }
  MILLRACE_RETURN_IF_ERROR(CheckDenseSlice(values.slice(), shape));
  if (AllWithin(values.slice(), std::numeric_limits<float>::max())) return absl::OkStatus();
  return BadGradient("values of a neighbor that are no numbers");
}

Status CheckHead(const Gradient& message, const GradientShape& shape) {
  if (message.epoch() != shape.epoch) {
    return BadGradient("epoch " + std::to_string(message.epoch()) + ", but this job is in epoch " +
                       std::to_string(shape.epoch));
  }
  if (message.kind_case() == Gradient::KIND_NOT_SET) {
    return BadGradient("a message of an unknown kind");
  }
  if (IsRequest(message)) {
    if (message.worker() == kNoWorker) return absl::OkStatus();
    return BadGradient("a request for a snapshot, or for other workers or shards, by worker " +
                       std::to_string(message.worker()));
  }
  if (message.job() != shape.job) return BadGradient("a message of another job");
  if (IsOfAGroup(message)) return CheckGroup(message, shape);
  if (message.worker() >= shape.workers) {
    return BadGradient("worker " + std::to_string(message.worker()) + " of " +
                       std::to_string(shape.workers));
  }
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("clock", message.joined(), kMostClock));
  return CheckAtMost("clock", message.clock(), kMostClock);
}

// The message, of whose update `rest` bytes are to be appended.
StatusOr<std::string> SerializeHead(const Gradient& message, size_t rest, size_t most_bytes) {
  Gradient head;  // all but the update, whose size has the rest in it
  head.set_epoch(message.epoch());
  head.set_worker(message.worker());
  head.set_clock(message.clock());
  head.set_job(message.job());
  head.set_number(message.number());
  head.set_joined(message.joined());
  const size_t update = message.update().ByteSizeLong();
  if (update + rest > most_bytes) return TooLarge(message, update + rest, most_bytes);
  std::string bytes;
  if (!head.AppendToString(&bytes)) return absl::InternalError("an update cannot be serialised");
  AppendFieldHead(Gradient::kUpdateFieldNumber, update + rest, bytes);
  if (!message.update().AppendToString(&bytes)) {
    return absl::InternalError("an update cannot be serialised");
  }
  return bytes;
}

// ParameterParts, as fields of an update.
void AppendParts(int field, std::span<const PartView> parts, MessageBytes& bytes) {
  for (const PartView& part : parts) {
    ParameterPart number;
    number.set_parameter(part.parameter);
    std::string inner = number.SerializeAsString();
    AppendFieldHead(ParameterPart::kValueFieldNumber, part.values.size_bytes(), inner);
    std::string head;
    AppendFieldHead(field, inner.size() + part.values.size_bytes(), head);
    bytes.Append(head + inner);
    bytes.AppendView(part.values);
  }
}

// An EmbeddingBlock, as a field of an update; nothing, if there are no rows.
void AppendRows(int field, const TableRowsView& rows, MessageBytes& bytes) {
  if (rows.ids.empty()) return;
  std::string head_of_ids;
  AppendFieldHead(EmbeddingBlock::kIdFieldNumber, rows.ids.size_bytes(), head_of_ids);
  std::string head_of_values;
  AppendFieldHead(EmbeddingBlock::kValueFieldNumber, rows.values.size_bytes(), head_of_values);
  std::string head;
  AppendFieldHead(
      field,
      head_of_ids.size() + rows.ids.size_bytes() + head_of_values.size() + rows.values.size_bytes(),
      head);
  bytes.Append(head + head_of_ids);
  bytes.AppendView(rows.ids);
  bytes.Append(std::move(head_of_values));
  bytes.AppendView(rows.values);
}

}  // namespace

Status CheckProgress(const RowProgress& rows) {
  MILLRACE_RETURN_IF_ERROR(CheckRows(rows.end(), rows.repeated_end()));
  return CheckAtMost("updates without rows:", rows.updates_without_rows(), kMostClock);
}

Status CheckUpdate(const Gradient::Update& update, Clock clock, const GradientShape& shape) {
  MILLRACE_RETURN_IF_ERROR(CheckContent(update, shape));
  MILLRACE_RETURN_IF_ERROR(CheckMark(update.mark(), clock, shape));
  MILLRACE_RETURN_IF_ERROR(CheckRows(update.rows_end(), update.repeated_end()));
  if (update.rows_begin() > update.rows_end())
    return BadGradient("rows that end before they begin");
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("training rows:", update.row_count(), kMostRow));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("new rows:", update.new_rows(), kMostRow));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("rows tested:", update.progressive().rows(), kMostRow));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("rows of the tail:", update.tail().rows(), kMostRow));
  MILLRACE_RETURN_IF_ERROR(CheckSums(update.progressive(), shape.classes));
  MILLRACE_RETURN_IF_ERROR(CheckSums(update.tail(), shape.classes));
  MILLRACE_RETURN_IF_ERROR(
      CheckMoments(update.moments(), shape.numeric_columns, shape.classes, shape.workers));
  MILLRACE_RETURN_IF_ERROR(CheckWanted(update.wanted(), shape));
  MILLRACE_RETURN_IF_ERROR(CheckResize(update.resize(), update.workers(), shape.workers));
  return CheckUpdatedRows(update, shape);
}

Status CheckRestore(const Gradient::Restore& restore, const GradientShape& shape) {
  MILLRACE_RETURN_IF_ERROR(CheckProgress(restore.rows()));
  const auto most = static_cast<int>(shape.pipeline);
  if (restore.rows_before_size() > most || restore.sent_rows_size() > most) {
    return BadGradient("rows of more than " + std::to_string(most) + " updates");
  }
  uint64_t end = restore.rows().end();
  for (const RowProgress& before : restore.rows_before()) {
    MILLRACE_RETURN_IF_ERROR(CheckProgress(before));
    if (before.end() > end) return BadGradient("fewer rows counted than an update before");
    end = before.end();
  }
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("committed row", restore.committed_row(), kMostRow));
  for (const uint64_t sent : restore.sent_rows()) {
    MILLRACE_RETURN_IF_ERROR(CheckAtMost("sent row", sent, kMostRow));
  }
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("clock", restore.least_clock(), kMostClock / 2));
  MILLRACE_RETURN_IF_ERROR(
      CheckMoments(restore.moments(), shape.numeric_columns, shape.classes, shape.workers));
  if (!restore.has_slice()) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(CheckSlice(restore.slice(), shape.range));
  if (static_cast<size_t>(restore.slice().dense_size()) != shape.range.size()) {
    return BadGradient("weights of a part of the shard's keys only");
  }
  return absl::OkStatus();
}

Status CheckGradient(const Gradient& message, const GradientShape& shape) {
  MILLRACE_RETURN_IF_ERROR(CheckHead(message, shape));
  switch (message.kind_case()) {
    case Gradient::kAsk:
      return CheckWanted(message.ask().wanted(), shape);
    case Gradient::kUpdate:
      return CheckUpdate(message.update(), Clock(message.clock()), shape);
    case Gradient::kLeave:
      return CheckLeave(message.leave(), shape);
    case Gradient::kRestore:  // from there it has to go on
      MILLRACE_RETURN_IF_ERROR(CheckAtMost("clock", message.clock(), kMostClock / 2));
      return CheckRestore(message.restore(), shape);
    case Gradient::kRequestSnapshot:
      return CheckAtMost("snapshot", message.request_snapshot().number(), kMostRequest);
    case Gradient::kCancelSnapshot:
      return CheckAtMost("snapshot", message.cancel_snapshot().snapshot(), kMostCancelled);
    case Gradient::kCutHere:
      return CheckAtMost("snapshot", message.cut_here().snapshot(), kMostCancelled);
    case Gradient::kResize:
      if (message.resize().number() == 0) return BadGradient("a change without a number");
      return CheckResize(message.resize().number(), message.resize().workers(), shape.workers);
    case Gradient::kDelta:
      return CheckDelta(message.delta(), shape);
    case Gradient::kNeighborValues:
      return CheckNeighborValues(message.neighbor_values(), shape);
    case Gradient::kReshard:
      if (message.reshard().shards() == 0) return BadGradient("a job without shards");
      return CheckAtMost("shards:", message.reshard().shards(), kMostShards);
    case Gradient::KIND_NOT_SET:
      break;
  }
  MILLRACE_CHECK(false);
}

StatusOr<std::optional<Gradient>> GradientDecoder::Decode(std::string_view key,
                                                          std::string_view value) {
  const std::optional<uint32_t> worker = DecodeBigEndian32(key);
  if (!worker || (*worker != kNoWorker && !IsSender(WorkerId(*worker), shape_))) {
    return BadGradient("the key is not a worker of this job");
  }
  MILLRACE_ASSIGN_OR_RETURN(const Frame frame, ParseFrame(value));
  std::optional<std::string> joined;
  std::string_view body = frame.body;
  if (frame.is_chunk) {
    if (*worker == kNoWorker) return BadGradient("a chunk of a message that is never split");
    MILLRACE_ASSIGN_OR_RETURN(joined, chunks_.Add(*worker, frame));
    if (!joined) return std::optional<Gradient>();
    body = *joined;
  }
  MILLRACE_ASSIGN_OR_RETURN(Gradient message, Parse(body));
  if (message.worker() != *worker) {
    return BadGradient("the key and the message name different workers");
  }
  return std::optional<Gradient>(std::move(message));
}

StatusOr<Gradient> GradientDecoder::Parse(std::string_view body) const {
  Gradient message;
  MILLRACE_RETURN_IF_ERROR(ParseMessage(body, message));
  if (message.has_update()) {
    MILLRACE_RETURN_IF_ERROR(UnpackUpdate(shape_.values, *message.mutable_update()));
  }
  MILLRACE_RETURN_IF_ERROR(CheckGradient(message, shape_));
  return message;
}

void GradientDecoder::Save(ShardState& state) const {
  for (const ChunkJoiner::Partial& partial : chunks_.partials()) {
    ShardState::PartialMessage& saved = *state.add_partial();
    saved.set_worker(partial.sender);
    saved.set_message_id(partial.message_id);
    saved.set_count(partial.count);
    for (const std::string_view chunk : partial.Chunks()) saved.add_chunk(std::string(chunk));
  }
}

Status GradientDecoder::Load(const ShardState& state) {
  std::vector<ChunkJoiner::Partial> partials;
  for (const ShardState::PartialMessage& saved : state.partial()) {
    const bool is_unfinished = saved.chunk_size() > 0 && saved.count() >= 2 &&
                               static_cast<uint32_t>(saved.chunk_size()) < saved.count();
    if (!IsSender(WorkerId(saved.worker()), shape_) || !is_unfinished) {
      return absl::DataLossError(
          "the saved state has " + std::to_string(saved.chunk_size()) + " of " +
          std::to_string(saved.count()) + " chunks of a message of worker " +
          std::to_string(saved.worker()) + " of " + std::to_string(shape_.workers));
    }
    ChunkJoiner::Partial& partial = partials.emplace_back(
        ChunkJoiner::Partial{saved.worker(), saved.message_id(), saved.count()});
    for (const std::string& chunk : saved.chunk()) partial.Append(chunk);
  }
  chunks_.Restore(std::move(partials));
  return absl::OkStatus();
}

StatusOr<std::string> SerializeUpdate(const Gradient& message, std::span<const float> values,
                                      KeyRange range, size_t most_bytes) {
  MILLRACE_CHECK(message.has_update() && !message.update().has_slice());
  const size_t slice = DenseSliceFieldBytes(Gradient::Update::kSliceFieldNumber, range);
  MILLRACE_ASSIGN_OR_RETURN(std::string bytes, SerializeHead(message, slice, most_bytes));
  bytes.reserve(bytes.size() + slice);
  AppendDenseSlice(Gradient::Update::kSliceFieldNumber, values, range, bytes);
  return bytes;
}

StatusOr<MessageBytes> SerializeStep(const Gradient& message, std::span<const PartView> put,
                                     std::span<const PartView> part, const TableRowsView& rows,
                                     size_t most_bytes) {
  MILLRACE_CHECK(message.has_update() && !message.update().has_embeddings());
  MILLRACE_CHECK(message.update().put().empty() && message.update().part().empty());
  MessageBytes values;
  AppendRows(Gradient::Update::kEmbeddingsFieldNumber, rows, values);
  AppendParts(Gradient::Update::kPutFieldNumber, put, values);
  AppendParts(Gradient::Update::kPartFieldNumber, part, values);
  MILLRACE_ASSIGN_OR_RETURN(MessageBytes bytes, SerializeHead(message, values.size(), most_bytes));
  bytes.AppendAll(std::move(values));
  return bytes;
}

}  // namespace millrace
