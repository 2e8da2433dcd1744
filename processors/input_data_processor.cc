#include "processors/input_data_processor.h"

#include <utility>

#include "base/big_endian.h"
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
  const std::optional<uint64_t> number = DecodeBigEndian64(record.key);
  if (!number) {
    // Not a row of ours: it has no number to use up.
    AddDeadLetter(record, false, "the key is not a row number");
    return absl::OkStatus();
  }
  if (!next_row_) next_row_ = RowNumber(*number);
  if (*number > *next_row_) {
    // Eight bytes by chance: it has no number to use up either.
    if (const Status decoded = DecodeInput(record.value, shape_, record_); !decoded.ok()) {
      AddDeadLetter(record, false, std::string(decoded.message()));
      return absl::OkStatus();
    }
    return absl::DataLossError(
        "input-data, partition " + std::to_string(worker_) + ", offset " +
        std::to_string(record.offset) + ": found row " + std::to_string(*number) + " where row " +
        std::to_string(*next_row_) +
        " was expected: rows were deleted or lost; start a new job (another --job)");
  }
  if (*number < *next_row_) {
    ++repeated_rows_;
    return absl::OkStatus();
  }
  const Status decoded = DecodeInput(record.value, shape_, record_);
  if (decoded.ok() && record_.has_end()) {
    if (!ended_) source_.End(RowNumber(*number));
    ended_ = true;
    return absl::OkStatus();
  }
  if (decoded.ok()) {
    source_.Add(RowNumber(*number), record.timestamp_ms, record.value, &record_.row());
  } else {
    AddDeadLetter(record, true, std::string(decoded.message()));
    source_.Add(RowNumber(*number), record.timestamp_ms, record.value, nullptr);
  }
  ++*next_row_;
  return absl::OkStatus();
}

void InputDataProcessor::AddDeadLetter(const InputDataRecord& record, bool is_row,
                                       std::string reason) {
  DeadLetter letter = MakeDeadLetter({.topic = "input-data",
                                      .partition = static_cast<int32_t>(worker_),
                                      .offset = record.offset,
                                      .key = record.key,
                                      .value = record.value},
                                     std::move(reason), reasons_only_);
  source_.dead_letters().Add(next_row_.value_or(0), is_row, std::move(letter));
}

}  // namespace millrace
