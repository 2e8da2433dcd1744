#include "processors/input_data_processor.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "topics/dead_letter.h"

namespace millrace {
namespace {

constexpr char kNewJob[] = "start a new job (another --job)";

std::string PlaceIn(uint32_t partition, Offset offset) {
  return "input-data, partition " + std::to_string(partition) + ", offset " +
         std::to_string(offset) + ": ";
}

}  // namespace

Status RowsAreMissing(uint32_t partition, Offset offset, RowNumber found, RowNumber expected) {
  return absl::DataLossError(PlaceIn(partition, offset) + "found row " + std::to_string(found) +
                             " where row " + std::to_string(expected) +
                             " was expected: rows were deleted or lost; " + kNewJob);
}

InputDataProcessor::InputDataProcessor(WorkerId worker, const RowShape& shape, BatchSource& source,
                                       std::optional<RowNumber> next_row, bool reasons_only)
    : window_{.partition = worker, .end = UINT64_MAX},
      shape_(shape),
      source_(source),
      next_row_(next_row),
      reasons_only_(reasons_only) {}

InputDataProcessor InputDataProcessor::OfWindows(RowNumber first, const RowShape& shape,
                                                 BatchSource& source, bool reasons_only) {
  InputDataProcessor input(WorkerId(), shape, source, RowNumber(), reasons_only);
  input.has_windows_ = true;
  input.window_ = {.first = first};
  return input;
}

void InputDataProcessor::Begin(const RowWindow& window) {
  MILLRACE_CHECK(has_windows_ && window_is_done() && window.begin < window.end);
  MILLRACE_CHECK(window.first == window_.NumberOf(window_.end));
  window_ = window;
  next_row_ = window.begin;
}

void InputDataProcessor::BeginBehind(uint32_t partition, RowNumber rows) {
  MILLRACE_CHECK(has_windows_ && window_is_done() && !ended_);
  window_ = {
      .partition = partition, .begin = rows, .end = rows, .first = window_.NumberOf(window_.end)};
  next_row_ = rows;
}

StatusOr<bool> InputDataProcessor::ProcessBehind(const InputDataRecord& record) {
  MILLRACE_CHECK(has_windows_ && window_.begin == window_.end);
  const std::optional<InputKey> key = DecodeInputKey(record.key);
  if (!key) {
    AddForeign(record, absl::InvalidArgumentError("the key is not that of rows"));
    return false;
  }
  const bool is_repeated = key->has_rows() ? key->end() <= *next_row_ : key->first < *next_row_;
  if (is_repeated) {
    repeated_rows_ += std::max<uint64_t>(key->count, 1);
    return false;
  }
  if (const Status decoded = DecodeInput(*key, record.value, shape_, record_); !decoded.ok()) {
    AddForeign(record, decoded);
    return false;
  }
  if (!key->has_rows() && key->first == *next_row_) return record_.has_end();
  return absl::DataLossError(PlaceOf(record) + "rows come behind row " +
                             std::to_string(*next_row_) + ", where the partition ended: it was " +
                             "deleted and written anew; " + kNewJob);
}

void InputDataProcessor::EndWindows() {
  MILLRACE_CHECK(has_windows_ && window_is_done());
  if (!ended_) source_.End(window_.NumberOf(window_.end));
  ended_ = true;
}

Status InputDataProcessor::Process(const InputDataRecord& record) {
  MILLRACE_CHECK(!window_is_done());
  const std::optional<InputKey> key = DecodeInputKey(record.key);
  if (!key) {
    AddForeign(record, absl::InvalidArgumentError("the key is not that of rows"));
    return absl::OkStatus();
  }
  if (!next_row_) next_row_ = key->first;
  if (key->first > *next_row_) return ProcessGap(record, *key);
  if (key->has_rows()) {
    ProcessRows(record, *key);
  } else {
    MILLRACE_RETURN_IF_ERROR(ProcessMark(record, *key));
  }
  source_.EndRecord(key->count);
  if (window_is_done()) source_.Flush(window_.NumberOf(window_.end));
  return absl::OkStatus();
}

std::string InputDataProcessor::PlaceOf(const InputDataRecord& record) const {
  return PlaceIn(window_.partition, record.offset);
}

Status InputDataProcessor::ProcessGap(const InputDataRecord& record, const InputKey& key) {
  // Twelve bytes by chance: it has no number to use up.
  if (const Status decoded = DecodeInput(key, record.value, shape_, record_); !decoded.ok()) {
    AddForeign(record, decoded);
    return absl::OkStatus();
  }
  return RowsAreMissing(window_.partition, record.offset, key.first, *next_row_);
}

Status InputDataProcessor::ProcessMark(const InputDataRecord& record, const InputKey& key) {
  if (key.first < *next_row_) {
    ++repeated_rows_;
    return absl::OkStatus();
  }
  if (const Status decoded = DecodeInput(key, record.value, shape_, record_); !decoded.ok()) {
    AddForeign(record, decoded);
    return absl::OkStatus();
  }
  if (record_.has_flush()) {
    source_.Flush(window_.NumberOf(key.first));
    return absl::OkStatus();
  }
  if (has_windows_) {
    return absl::DataLossError(PlaceOf(record) + "the partition ends before row " +
                               std::to_string(window_.end) +
                               ", which it has had: it was deleted and written anew; " + kNewJob);
  }
  if (!ended_) source_.End(key.first);
  ended_ = true;
  return absl::OkStatus();
}

void InputDataProcessor::ProcessRows(const InputDataRecord& record, const InputKey& key) {
  const RowNumber begin = *next_row_;
  repeated_rows_ += std::min(begin, key.end()) - key.first;
  if (key.end() <= begin) return;
  const Status decoded = DecodeInput(key, record.value, shape_, record_);
  if (decoded.ok()) {
    AddRows(record, key);
    return;
  }
  const RowNumber end = std::min(key.end(), window_.end);
  for (; *next_row_ < end; ++*next_row_) {
    source_.Add(window_.NumberOf(*next_row_), record.timestamp_ms, nullptr);
  }
  // Of its last row: a worker that starts again between its rows finds it once more, and no update
  // has counted it before.
  DeadLetter letter = Letter(record, decoded);
  letter.set_rows(static_cast<uint32_t>(end - key.first));
  source_.dead_letters().Add(window_.NumberOf(end) - 1, true, std::move(letter));
}

void InputDataProcessor::AddRows(const InputDataRecord& record, const InputKey& key) {
  reader_.Begin(record_.rows(), shape_);
  reader_.Skip(static_cast<uint32_t>(*next_row_ - key.first));
  const RowNumber end = std::min(key.end(), window_.end);
  for (; *next_row_ < end; ++*next_row_) {
    const RowNumber number = window_.NumberOf(*next_row_);
    const int64_t time_ms = reader_.TimeOfNext(record.timestamp_ms);
    const Status usable = reader_.Next(row_);
    if (usable.ok()) {
      source_.Add(number, time_ms, &row_);
      continue;
    }
    // The letter has this row alone.
    const std::string row_key = EncodeInputKey({*next_row_, 1});
    const std::string value = EncodeRow(row_);
    DeadLetter letter = Letter({record.offset, time_ms, row_key, value}, usable);
    letter.set_rows(1);
    source_.dead_letters().Add(number, true, std::move(letter));
    source_.Add(number, time_ms, nullptr);
  }
}

DeadLetter InputDataProcessor::Letter(const InputDataRecord& record, const Status& why) const {
  return MakeDeadLetter({.topic = "input-data",
                         .partition = static_cast<int32_t>(window_.partition),
                         .offset = record.offset,
                         .key = record.key,
                         .value = record.value},
                        std::string(why.message()), reasons_only_);
}

void InputDataProcessor::AddForeign(const InputDataRecord& record, const Status& why) {
  const RowNumber next = window_.NumberOf(next_row_.value_or(0));
  source_.dead_letters().Add(next, false, Letter(record, why));
}

}  // namespace millrace
