#include "kafka/read_positions.h"

namespace millrace::kafka_internal {

bool ReadPositions::AcceptRecord(int32_t partition, Offset offset) {
  const auto position = expected_.find(partition);
  if (position == expected_.end() || offset < position->second) return false;
  position->second = offset + 1;
  return true;
}

bool ReadPositions::AcceptEnd(int32_t partition, Offset end) {
  const auto position = expected_.find(partition);
  if (position == expected_.end() || end < position->second) return false;
  position->second = end;
  return true;
}

ReadPositions::OutOfRange ReadPositions::JudgeOutOfRange(int32_t partition, Offset offset) const {
  const auto position = expected_.find(partition);
  if (position == expected_.end()) return OutOfRange::kIgnore;
  return offset == position->second ? OutOfRange::kReport : OutOfRange::kRestart;
}

}  // namespace millrace::kafka_internal
