#include "processors/input_data_processor.h"

#include "base/big_endian.h"

namespace millrace {

InputDataProcessor::InputDataProcessor(WorkerId worker, const RowShape& shape, BatchSource& source,
                                       std::optional<RowNumber> next_row)
    : worker_(worker), shape_(shape), source_(source), next_row_(next_row) {}

Status InputDataProcessor::Process(const InputDataRecord& record) {
  const std::optional<uint64_t> number = DecodeBigEndian64(record.key);
  if (!number) {
    // Not a row of ours: it has no number to use up.
    AddDeadLetter(record, "the key is not a row number");
    return absl::OkStatus();
  }
  if (!next_row_) next_row_ = *number;
  if (*number > *next_row_) {
    // Eight bytes by chance: it has no number to use up either.
    if (const Status decoded = DecodeInput(record.value, shape_, record_); !decoded.ok()) {
      AddDeadLetter(record, std::string(decoded.message()));
      return absl::OkStatus();
    }
    return absl::DataLossError("input-data, partition " + std::to_string(worker_) + ", offset " +
                               std::to_string(record.offset) + ": row " + std::to_string(*number) +
                               " follows row " + std::to_string(*next_row_) +
                               " - 1: rows between them are missing");
  }
  if (*number < *next_row_) {
    ++repeated_rows_;
    return absl::OkStatus();
  }
  const Status decoded = DecodeInput(record.value, shape_, record_);
  if (decoded.ok() && record_.has_end()) {
    if (!ended_) source_.End(*number);
    ended_ = true;
    return absl::OkStatus();
  }
  if (decoded.ok()) {
    source_.Add(*number, record.timestamp_ms, record.value, &record_.row());
  } else {
    AddDeadLetter(record, std::string(decoded.message()));
    source_.Add(*number, record.timestamp_ms, record.value, nullptr);
  }
  ++*next_row_;
  return absl::OkStatus();
}

void InputDataProcessor::AddDeadLetter(const InputDataRecord& record, std::string reason) {
  Dead& dead = dead_.emplace_back();
  dead.row = next_row_.value_or(0);
  dead.letter.set_topic("input-data");
  dead.letter.set_partition(static_cast<int32_t>(worker_));
  dead.letter.set_offset(record.offset);
  dead.letter.set_reason(std::move(reason));
  dead.letter.set_key(std::string(record.key));
  dead.letter.set_value(std::string(record.value));
}

std::vector<DeadLetter> InputDataProcessor::DeadLetters(RowNumber begin, RowNumber end) const {
  std::vector<DeadLetter> letters;
  for (const Dead& dead : dead_) {
    if (dead.row >= begin && dead.row < end) letters.push_back(dead.letter);
  }
  return letters;
}

void InputDataProcessor::ForgetDeadLetters(RowNumber row) {
  while (!dead_.empty() && dead_.front().row < row) dead_.pop_front();
}

std::optional<RowNumber> InputDataProcessor::FirstDeadLetter() const {
  if (dead_.empty()) return std::nullopt;
  return dead_.front().row;
}

void InputDataProcessor::SaveDeadLetters(BufferPosition& saved) const {
  for (const Dead& dead : dead_) {
    if (dead.row >= next_row_.value_or(0)) continue;  // behind the last row: it is read again
    saved.add_dead_letter_row(dead.row);
    *saved.add_dead_letters() = dead.letter;
  }
}

void InputDataProcessor::RestoreDeadLetters(const BufferPosition& saved) {
  for (int i = 0; i < saved.dead_letters_size() && i < saved.dead_letter_row_size(); ++i) {
    dead_.push_back({saved.dead_letter_row(i), saved.dead_letters(i)});
  }
}

}  // namespace millrace
