#include "topics/row_codec.h"

#include <limits>

#include "base/big_endian.h"
#include "topics/frame.h"
#include "topics/message_codec.h"

namespace millrace {

RowShape RowShapeFrom(const JobFeatures& features) {
  RowShape shape;
  shape.numeric = static_cast<size_t>(features.spec().numeric_size());
  shape.features = features.feature_count();
  shape.classes = static_cast<size_t>(features.spec().classes_size());
  shape.ids = static_cast<size_t>(features.spec().ids_size());
  return shape;
}

namespace {

std::string WholeFrame(const InputRecord& record) {
  std::string frame = WholeFrameHeader();
  record.AppendToString(&frame);
  return frame;
}

}  // namespace

std::string EncodeInputKey(const InputKey& key) {
  return EncodeBigEndian64(key.first) + EncodeBigEndian32(key.count);
}

std::optional<InputKey> DecodeInputKey(std::string_view bytes) {
  constexpr size_t kFirst = sizeof(uint64_t);
  if (bytes.size() != kFirst + sizeof(uint32_t)) return std::nullopt;
  const InputKey key = {RowNumber(*DecodeBigEndian64(bytes.substr(0, kFirst))),
                        *DecodeBigEndian32(bytes.substr(kFirst))};
  if (key.count > kMostBatchRows) return std::nullopt;
  if (key.first > std::numeric_limits<uint64_t>::max() - key.count) return std::nullopt;
  return key;
}

std::string EncodeRows(RowBatchEncoder& batch) {
  std::string frame = WholeFrameHeader();
  batch.Finish(frame);
  return frame;
}

std::string EncodeRow(const Row& row) {
  thread_local RowBatchEncoder batch;  // keeps its memory from row to row
  batch.Add(row);
  return EncodeRows(batch);
}

std::string EncodeFlush(RowNumber row_count) {
  InputRecord record;
  record.mutable_flush()->set_row_count(row_count);
  return WholeFrame(record);
}

std::string EncodeEnd(RowNumber row_count, uint64_t fingerprint) {
  InputRecord record;
  record.mutable_end()->set_row_count(row_count);
  record.mutable_end()->set_fingerprint(fingerprint);
  return WholeFrame(record);
}

Status ParseInput(const InputKey& key, std::string_view value, InputRecord& record) {
  MILLRACE_ASSIGN_OR_RETURN(const Frame frame, ParseFrame(value));
  if (frame.is_chunk) return absl::InvalidArgumentError("a chunk, but rows are never split");
  MILLRACE_RETURN_IF_ERROR(ParseMessage(frame.body, record));
  if (record.has_rows() + record.has_flush() + record.has_end() != 1) {
    return absl::InvalidArgumentError(
        "the record is neither rows nor a flush nor the end of the stream");
  }
  if (!record.has_rows()) {
    const uint64_t rows = record.has_end() ? record.end().row_count() : record.flush().row_count();
    if (!key.has_rows() && rows == key.first) return absl::OkStatus();
    return absl::InvalidArgumentError(
        std::string(record.has_end() ? "the end of a stream" : "a flush") + " of " +
        std::to_string(rows) + " rows, but the key does not say so");
  }
  if (record.rows().row_count() == key.count) return absl::OkStatus();
  return absl::InvalidArgumentError(std::to_string(record.rows().row_count()) +
                                    " rows, but the key says " + std::to_string(key.count));
}

Status DecodeInput(const InputKey& key, std::string_view value, const RowShape& shape,
                   InputRecord& record) {
  MILLRACE_RETURN_IF_ERROR(ParseInput(key, value, record));
  return record.has_rows() ? CheckRowBatch(record.rows(), shape) : absl::OkStatus();
}

Status DecodeRow(std::string_view value, const RowShape& shape, InputRecord& record, Row& row) {
  MILLRACE_RETURN_IF_ERROR(DecodeInput({.first = 0, .count = 1}, value, shape, record));
  RowBatchReader reader;
  reader.Begin(record.rows(), shape);
  return reader.Next(row);
}

}  // namespace millrace
