#include "tests/simulation/lease_input.h"

#include <algorithm>
#include <utility>

#include "topics/row_codec.h"

namespace millrace::simulation {

void LeaseInput::Add(uint64_t begin, uint64_t end, std::string value) {
  contents_.push_back({begin, end});
  keys_.push_back(EncodeInputKey({RowNumber(begin), static_cast<uint32_t>(end - begin)}));
  values_.push_back(std::move(value));
}

void LeaseInput::Produce(Random& random) {
  if (ended_) return;
  if (random.Chance(0.1)) next_ -= std::min(next_, random.Below(8));
  if (random.Chance(0.1)) return Add(next_, next_, EncodeFlush(RowNumber(next_)));
  if (next_ == rows_) {
    ended_ = true;
    return Add(rows_, rows_, EncodeEnd(RowNumber(rows_)));
  }
  const uint64_t end = std::min(rows_, next_ + random.Between(1, 6));
  RowBatchEncoder batch;
  for (uint64_t row = next_; row < end; ++row) {
    batch.Add({0, {ValueOfLeasedRow(partition_, row)}, {}, {}});
  }
  Add(next_, end, EncodeRows(batch));
  next_ = end;
}

InputDataRecord LeaseInput::At(size_t offset) const {
  return {Offset(offset), 0, keys_.at(offset), values_.at(offset)};
}

uint64_t LeaseInput::EndOfBatchAt(const InputRange& range, uint64_t row) const {
  uint64_t end = std::min(range.end(), row + kLeaseBatchRows);
  uint64_t next = range.begin();
  for (auto at = static_cast<size_t>(range.offset()); next < range.end(); ++at) {
    if (at >= contents_.size()) return range.begin();  // rows that nobody has written
    const Content& content = contents_[at];
    const bool is_flush = content.begin == content.end;
    if (is_flush && content.begin == next && next > row) end = std::min(end, next);
    next = std::max(next, content.end);
  }
  return end;
}

}  // namespace millrace::simulation
