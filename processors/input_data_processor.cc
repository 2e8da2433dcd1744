#include "processors/input_data_processor.h"

#include <algorithm>
#include <utility>

#include "topics/dead_letter.h"

namespace millrace {

InputDataProcessor::InputDataProcessor(WorkerId worker, const RowShape& shape, BatchSource& source,
                                       std::optional<RowNumber> next_row, bool reasons_only)
    : worker_(worker),
      shape_(shape),
      source_(source),
      next_row_(next_row),
      reasons_only_(reasons_only) {}

Status InputDataProcessor::Process(const InputDataRecord& record) {
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
    ProcessMark(record, *key);
  }
  source_.EndRecord(key->count);
  return absl::OkStatus();
}

Status InputDataProcessor::ProcessGap(const InputDataRecord& record, const InputKey& key) {
  // Twelve bytes by chance: it has no number to use up.
  if (const Status decoded = DecodeInput(key, record.value, shape_, record_); !decoded.ok()) {
    AddForeign(record, decoded);
    return absl::OkStatus();
  }
  return absl::DataLossError(
      "input-data, partition " + std::to_string(worker_) + ", offset " +
      std::to_string(record.offset) + ": found row " + std::to_string(key.first) + " where row " +
      std::to_string(*next_row_) +
      " was expected: rows were deleted or lost; start a new job (another --job)");
}

void InputDataProcessor::ProcessMark(const InputDataRecord& record, const InputKey& key) {
  if (key.first < *next_row_) {
    ++repeated_rows_;
    return;
  }
  if (const Status decoded = DecodeInput(key, record.value, shape_, record_); !decoded.ok()) {
    AddForeign(record, decoded);
    return;
  }
  if (record_.has_flush()) {
    source_.Flush(key.first);
    return;
  }
  if (!ended_) source_.End(key.first);
  ended_ = true;
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
  for (; *next_row_ < key.end(); ++*next_row_) {
    source_.Add(*next_row_, record.timestamp_ms, nullptr);
  }
  // Of its last row: a worker that starts again between its rows finds it once more, and no update
  // has counted it before.
  DeadLetter letter = Letter(record, decoded);
  letter.set_rows(key.count);
  source_.dead_letters().Add(key.end() - 1, true, std::move(letter));
}

void InputDataProcessor::AddRows(const InputDataRecord& record, const InputKey& key) {
  reader_.Begin(record_.rows(), shape_);
  reader_.Skip(static_cast<uint32_t>(*next_row_ - key.first));
  for (; *next_row_ < key.end(); ++*next_row_) {
    const int64_t time_ms = reader_.TimeOfNext(record.timestamp_ms);
    const Status usable = reader_.Next(row_);
    if (usable.ok()) {
      source_.Add(*next_row_, time_ms, &row_);
      continue;
    }
    // The letter has this row alone.
    const std::string row_key = EncodeInputKey({*next_row_, 1});
    const std::string value = EncodeRow(row_);
    DeadLetter letter = Letter({record.offset, time_ms, row_key, value}, usable);
    letter.set_rows(1);
    source_.dead_letters().Add(*next_row_, true, std::move(letter));
    source_.Add(*next_row_, time_ms, nullptr);
  }
}

DeadLetter InputDataProcessor::Letter(const InputDataRecord& record, const Status& why) const {
  return MakeDeadLetter({.topic = "input-data",
                         .partition = static_cast<int32_t>(worker_),
                         .offset = record.offset,
                         .key = record.key,
                         .value = record.value},
                        std::string(why.message()), reasons_only_);
}

void InputDataProcessor::AddForeign(const InputDataRecord& record, const Status& why) {
  source_.dead_letters().Add(next_row_.value_or(0), false, Letter(record, why));
}

}  // namespace millrace
