#include "processors/input_cutter.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "processors/input_data_processor.h"
#include "topics/lease_codec.h"
#include "topics/row_codec.h"

namespace millrace {
namespace {

constexpr uint64_t kLeasesOfAll = 64;  // a lease is so small a part of the rows

}  // namespace

InputCutter::InputCutter(uint64_t lease_rows, const RowShape& shape, const LeaseTable& table)
    : shape_(shape), lease_rows_(lease_rows), cut_rows_(table.cut_rows()) {
  MILLRACE_CHECK(table.has_begun() && lease_rows <= kMostLeaseRows - kMostBatchRows);
  for (const auto& [partition, state] : table.inputs()) {
    Input& input = inputs_.emplace_back();
    input.next_offset = input.behind_rows = Offset(state.cut_offset());
    input.next_row = input.cut_row = input.waiting_row = RowNumber(state.cut_row());
    input.ended = state.ended();
  }
}

uint64_t InputCutter::LeaseRows() const {
  if (lease_rows_ > 0) return lease_rows_;
  return std::clamp(cut_rows_ / kLeasesOfAll, kLeastRows, kMostRows);
}

Status InputCutter::Take(uint32_t partition, Offset offset, std::string_view key_bytes,
                         std::string_view value) {
  Input& input = inputs_.at(partition);
  if (offset < input.next_offset) return absl::OkStatus();
  input.next_offset = offset + 1;
  const std::optional<InputKey> key = DecodeInputKey(key_bytes);
  if (!key || input.ended) return absl::OkStatus();
  if (key->first > input.next_row) {
    // Twelve bytes by chance are a dead letter of the worker that reads them.
    if (!DecodeInput(*key, value, shape_, record_).ok()) return absl::OkStatus();
    return RowsAreMissing(partition, offset, key->first, input.next_row);
  }
  if (!key->has_rows()) {
    TakeMark(partition, *key, value);
    return absl::OkStatus();
  }
  if (key->end() <= input.next_row) return absl::OkStatus();
  input.next_row = key->end();
  input.behind_rows = offset + 1;
  if (input.next_row - input.cut_row >= LeaseRows()) Cut(partition);
  return absl::OkStatus();
}

void InputCutter::TakeMark(uint32_t partition, const InputKey& key, std::string_view value) {
  Input& input = inputs_.at(partition);
  if (key.first < input.next_row || !DecodeInput(key, value, shape_, record_).ok()) return;
  if (!record_.has_end()) return;
  Cut(partition);
  input.ended = true;
  LeaseCommand& command = commands_.emplace_back();
  command.mutable_end()->set_partition(partition);
  command.mutable_end()->set_rows(input.next_row);
}

void InputCutter::Tick() {
  for (uint32_t partition = 0; partition < inputs_.size(); ++partition) {
    Input& input = inputs_[partition];
    if (input.waiting_row > input.cut_row) Cut(partition);
    input.waiting_row = input.next_row;
  }
}

void InputCutter::Cut(uint32_t partition) {
  Input& input = inputs_.at(partition);
  if (input.next_row == input.cut_row) return;
  LeaseCommand& command = commands_.emplace_back();
  command.mutable_cut()->set_partition(partition);
  command.mutable_cut()->set_begin(input.cut_row);
  command.mutable_cut()->set_end(input.next_row);
  command.mutable_cut()->set_next_offset(input.behind_rows);
  cut_rows_ += input.next_row - input.cut_row;
  input.cut_row = input.next_row;
}

}  // namespace millrace
