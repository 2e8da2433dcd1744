#include "topics/row_codec.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "topics/frame.h"
#include "topics/message_codec.h"
#include "topics/slice_codec.h"

namespace millrace {
namespace {

std::string EncodeInput(const InputRecord& record) {
  std::string frame = WholeFrameHeader();
  record.AppendToString(&frame);
  return frame;
}

Status BadRow(const std::string& reason) { return absl::InvalidArgumentError(reason); }

// Whether each is larger than the one before, and the first at least `least`; without branches.
bool Ascend(const google::protobuf::RepeatedField<uint32_t>& indices, size_t least) {
  const uint32_t* const index = indices.data();
  const int size = indices.size();
  int wrong = size > 0 && index[0] < least;
  for (int i = 1; i < size; ++i) wrong |= index[i] <= index[i - 1];
  return wrong == 0;
}

Status OutOfOrder(const TrainingRow& row, const RowShape& shape) {
  int64_t previous = static_cast<int64_t>(shape.numeric) - 1;
  for (uint32_t index : row.index()) {
    if (index <= previous) return BadRow("feature " + std::to_string(index) + " out of order");
    previous = index;
  }
  MILLRACE_CHECK(false);
}

Status CheckRow(const TrainingRow& row, const RowShape& shape) {
  if (row.label() >= std::max<size_t>(shape.classes, 1))
    return BadRow("class id " + std::to_string(row.label()));
  if (static_cast<size_t>(row.numeric_size()) != shape.numeric) {
    return BadRow(std::to_string(row.numeric_size()) + " numeric values, but the job has " +
                  std::to_string(shape.numeric));
  }
  if (row.index_size() != row.value_size())
    return BadRow("not as many feature values as feature indices");
  if (!Ascend(row.index(), shape.numeric)) return OutOfOrder(row, shape);
  if (!row.index().empty() && *row.index().rbegin() >= shape.features) {
    return BadRow("feature " + std::to_string(*row.index().rbegin()) + ", but the job has only " +
                  std::to_string(shape.features));
  }
  if (static_cast<size_t>(row.id_size()) != shape.ids) {
    return BadRow(std::to_string(row.id_size()) + " ids, but the job has " +
                  std::to_string(shape.ids));
  }
  if (!std::isfinite(row.target())) return BadRow("a target that is not finite");
  if (!AllWithin({row.value().data(), static_cast<size_t>(row.value_size())},
                 std::numeric_limits<float>::max()))
    return BadRow("a value that is not finite");
  for (double value : row.numeric()) {
    if (std::isinf(value)) return BadRow("an infinite number");
  }
  return absl::OkStatus();
}

}  // namespace

RowShape RowShapeFrom(const JobFeatures& features) {
  RowShape shape;
  shape.numeric = static_cast<size_t>(features.spec().numeric_size());
  shape.features = features.feature_count();
  shape.classes = static_cast<size_t>(features.spec().classes_size());
  shape.ids = static_cast<size_t>(features.spec().ids_size());
  return shape;
}

std::string EncodeRow(const Row& row) {
  thread_local InputRecord record;  // keeps its memory from row to row
  record.Clear();
  TrainingRow& message = *record.mutable_row();
  message.set_label(row.label);
  message.mutable_numeric()->Add(row.numeric.begin(), row.numeric.end());
  message.mutable_index()->Add(row.index.begin(), row.index.end());
  message.mutable_value()->Add(row.value.begin(), row.value.end());
  message.set_replayed(row.replayed);
  message.mutable_id()->Add(row.ids.begin(), row.ids.end());
  message.set_target(row.target);
  return EncodeInput(record);
}

std::string EncodeEnd(RowNumber row_count) {
  InputRecord record;
  record.mutable_end()->set_row_count(row_count);
  return EncodeInput(record);
}

Status DecodeInput(std::string_view value, const RowShape& shape, InputRecord& record) {
  MILLRACE_ASSIGN_OR_RETURN(const Frame frame, ParseFrame(value));
  if (frame.is_chunk) return BadRow("a chunk, but rows are never split");
  MILLRACE_RETURN_IF_ERROR(ParseMessage(frame.body, record));
  if (record.has_row() == record.has_end())
    return BadRow("the record is neither a row nor the end of the stream");
  return record.has_row() ? CheckRow(record.row(), shape) : absl::OkStatus();
}

void ToRow(const TrainingRow& message, Row& row) {
  row.label = message.label();
  row.numeric.assign(message.numeric().begin(), message.numeric().end());
  row.index.assign(message.index().begin(), message.index().end());
  row.value.assign(message.value().begin(), message.value().end());
  row.replayed = message.replayed();
  row.ids.assign(message.id().begin(), message.id().end());
  row.target = message.target();
}

}  // namespace millrace
