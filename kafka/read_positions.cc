#include "kafka/read_positions.h"

namespace millrace::kafka_internal {

namespace {

// A restart may meet another rebalance.
constexpr int kGapsToCheck = 2;

}  // namespace

void ReadPositions::Start(int32_t partition, Offset offset) {
  expected_[partition] = offset;
  if (const auto gaps = gaps_.find(partition); gaps != gaps_.end()) gaps->second.restarting = false;
}

void ReadPositions::Stop(int32_t partition) {
  expected_.erase(partition);
  gaps_.erase(partition);
}

void ReadPositions::Rebalanced() {
  for (const auto& [partition, offset] : expected_) gaps_[partition].to_check = kGapsToCheck;
}

ReadPositions::Verdict ReadPositions::JudgeRecord(int32_t partition, Offset offset) {
  return Judge(partition, offset, offset + 1);
}

ReadPositions::Verdict ReadPositions::JudgeEnd(int32_t partition, Offset end) {
  return Judge(partition, end, end);
}

ReadPositions::Verdict ReadPositions::Judge(int32_t partition, Offset offset, Offset next) {
  const auto position = expected_.find(partition);
  if (position == expected_.end() || offset < position->second) return Verdict::kDrop;
  if (const auto found = gaps_.find(partition); found != gaps_.end()) {
    Gaps& gaps = found->second;
    if (gaps.restarting) return Verdict::kDrop;
    if (offset > position->second && gaps.to_check > 0) {
      --gaps.to_check;
      gaps.restarting = true;
      return Verdict::kRestart;
    }
  }
  position->second = next;
  return Verdict::kAccept;
}

ReadPositions::OutOfRange ReadPositions::JudgeOutOfRange(int32_t partition, Offset offset) const {
  const auto position = expected_.find(partition);
  if (position == expected_.end()) return OutOfRange::kIgnore;
  return offset == position->second ? OutOfRange::kReport : OutOfRange::kRestart;
}

}  // namespace millrace::kafka_internal
