#include "producer/label_join.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace millrace {
namespace {

size_t BytesOf(const HeldRecord& record) {
  return sizeof(HeldRecord) + record.key.capacity() +
         (record.failed ? sizeof(HeldRecord::Failed) + record.failed->value.capacity() : 0);
}

size_t BytesOf(const Row& row) {
  return sizeof(Row) + row.numeric.capacity() * sizeof(double) +
         row.index.capacity() * sizeof(uint32_t) + row.value.capacity() * sizeof(float) +
         row.ids.capacity() * sizeof(EmbeddingId);
}

// An entry of the queue and of the map.
constexpr size_t kLabelBytes = 192;

}  // namespace

LabelJoin::LabelJoin(int64_t window_ms, std::span<const Position> rows,
                     std::span<const Position> labels)
    : window_ms_(window_ms), rows_(rows.size()), labels_(labels.size()) {
  MILLRACE_CHECK(window_ms >= 0 && !labels.empty());
  for (size_t i = 0; i < rows.size(); ++i) {
    rows_[i].left = rows[i];
    rows_[i].newest_ms = rows[i].newest_ms;
  }
  for (size_t i = 0; i < labels.size(); ++i) {
    labels_[i].left = labels[i];
    labels_[i].newest_ms = labels[i].newest_ms;
  }
}

// ---- what was read ----

template <typename P>
P& LabelJoin::At(std::deque<P>& partitions, int32_t partition) {
  MILLRACE_CHECK(partition >= 0);
  const auto index = static_cast<size_t>(partition);
  while (partitions.size() <= index) partitions.emplace_back();
  return partitions[index];
}

template <typename P>
void LabelJoin::NoteTime(P& partition, HeldRecord& record, int64_t now_ms) {
  MILLRACE_CHECK(record.offset >= partition.next());
  record.newest_before_ms = partition.newest_ms;
  // A clock that is ahead does not make the other records late, nor does a time that cannot be.
  if (record.kind != HeldRecord::Kind::kUnusable) {
    partition.newest_ms = std::max(partition.newest_ms, std::min(record.time_ms, now_ms));
  }
  record.newest_ms = partition.newest_ms;
  record.next = record.offset + 1;
}

Offset LabelJoin::next_row(int32_t partition) const {
  const auto index = static_cast<size_t>(partition);
  return index < rows_.size() ? rows_[index].next() : Offset(0);
}

Offset LabelJoin::next_label(int32_t partition) const {
  const auto index = static_cast<size_t>(partition);
  return index < labels_.size() ? labels_[index].next() : Offset(0);
}

void LabelJoin::AddRow(HeldRecord record, Row row, int64_t now_ms) {
  Partition<Waiting>& partition = At(rows_, record.partition);
  NoteTime(partition, record, now_ms);
  bytes_ += BytesOf(record) + BytesOf(row);
  ++row_count_;
  partition.queue.push_back({std::move(record), std::move(row)});
}

void LabelJoin::AddLabel(HeldRecord record, JoinedLabel label, int64_t now_ms) {
  LabelPartition& partition = At(labels_, record.partition);
  NoteTime(partition, record, now_ms);
  Label entry;
  entry.record = std::move(record);
  entry.label = label;
  if (entry.record.kind == HeldRecord::Kind::kUsable) {
    // Only rows that have left already may have had a label that was read before.
    entry.is_used = entry.record.offset < partition.left.read;
    const auto [of_key, is_new] = partition.by_key.try_emplace(std::exchange(entry.record.key, {}));
    if (is_new) bytes_ += of_key->first.capacity();
    entry.of_key = &*of_key;
  }
  bytes_ += BytesOf(entry.record) + kLabelBytes;
  ++label_count_;
  partition.queue.push_back(std::move(entry));
  Label& added = partition.queue.back();
  if (added.of_key == nullptr) return;
  added.time_ms = added.record.time_ms;
  added.offset = added.record.offset;
  added.of_key->second.Add(added);
}

void LabelJoin::PassRows(HeldRecord::Kind kind, int32_t partition, Offset next) {
  Partition<Waiting>& rows = At(rows_, partition);
  if (next <= rows.next()) return;
  HeldRecord passed = {.kind = kind, .partition = partition, .offset = rows.next(), .next = next};
  passed.newest_before_ms = passed.newest_ms = rows.newest_ms;
  bytes_ += BytesOf(passed) + BytesOf(Row());
  ++row_count_;
  rows.queue.push_back({std::move(passed), Row()});
}

void LabelJoin::PassLabels(HeldRecord::Kind kind, int32_t partition, Offset next) {
  LabelPartition& labels = At(labels_, partition);
  if (next <= labels.next()) return;
  HeldRecord passed = {.kind = kind, .partition = partition, .offset = labels.next(), .next = next};
  passed.newest_before_ms = passed.newest_ms = labels.newest_ms;
  bytes_ += BytesOf(passed) + kLabelBytes;
  ++label_count_;
  labels.queue.emplace_back().record = std::move(passed);
}

void LabelJoin::NoteRowsRead(int32_t partition, int64_t moment_ms) {
  int64_t& moment = At(rows_, partition).moment_ms;
  moment = std::max(moment, moment_ms);
}

void LabelJoin::NoteLabelsRead(int32_t partition, int64_t moment_ms) {
  int64_t& moment = At(labels_, partition).moment_ms;
  moment = std::max(moment, moment_ms);
}

// ---- what leaves ----

// A label before it may have left.
int64_t LabelJoin::FirstTime(const HeldRecord& row) const {
  if (row.newest_before_ms == kNoTime) return row.time_ms;
  return std::max(row.time_ms, row.newest_before_ms - LatenessMs());
}

LabelJoin::Label* LabelJoin::Find(const HeldRecord& row) {
  const int64_t first = FirstTime(row);
  const int64_t last = row.time_ms + window_ms_;
  Label* best = nullptr;
  for (LabelPartition& partition : labels_) {
    const auto found = partition.by_key.find(row.key);
    if (found == partition.by_key.end()) continue;
    auto* const label = static_cast<Label*>(found->second.First(first, last));
    if (label == nullptr) continue;
    // Rows may have left without it, and without those behind it.
    if (label->record.newest_before_ms - kLateMs > last) continue;
    if (best == nullptr || label->time_ms < best->time_ms) best = label;
  }
  return best;
}

bool LabelJoin::IsTooLate(const HeldRecord& row) const {
  const int64_t last = row.time_ms + window_ms_;
  return std::ranges::all_of(labels_, [last](const LabelPartition& partition) {
    return partition.time_ms() - kLateMs > last;
  });
}

template <typename P>
void LabelJoin::NoteLeft(P& partition, const HeldRecord& record) {
  partition.left.next = record.next;
  partition.left.newest_ms = record.newest_ms;
}

std::optional<LabelJoin::LeavingRow> LabelJoin::TakeRow() {
  for (size_t looked = 0; looked < rows_.size(); ++looked) {
    if (next_partition_ >= rows_.size()) next_partition_ = 0;
    Partition<Waiting>& partition = rows_[next_partition_];
    if (partition.queue.empty()) {
      ++next_partition_;
      continue;
    }
    Waiting& head = partition.queue.front();
    const bool is_row = head.record.kind == HeldRecord::Kind::kUsable;
    Label* label = is_row ? Find(head.record) : nullptr;
    if (is_row && label == nullptr && !IsTooLate(head.record)) {
      ++next_partition_;
      continue;
    }
    bytes_ -= BytesOf(head.record) + BytesOf(head.row);
    --row_count_;
    NoteLeft(partition, head.record);
    LeavingRow leaving = {.record = std::move(head.record), .row = std::move(head.row)};
    if (label != nullptr) {
      label->is_used = true;
      leaving.label = label->label;
      leaving.row.label = label->label.id;
      leaving.row.target = label->label.target;
    }
    partition.queue.pop_front();
    return leaving;
  }
  return std::nullopt;
}

int64_t LabelJoin::LowTime() const {
  int64_t low = std::numeric_limits<int64_t>::max();
  for (const Partition<Waiting>& partition : rows_) {
    int64_t time = partition.time_ms();
    if (!partition.queue.empty()) {
      const HeldRecord& head = partition.queue.front().record;
      time = head.newest_before_ms == kNoTime ? head.newest_ms : head.newest_before_ms;
    }
    if (time != kAlways) low = std::min(low, time - LatenessMs());
  }
  return low;
}

void LabelJoin::Forget(LabelPartition& partition, Label& label) {
  if (label.of_key == nullptr) return;
  LabelTimes& of_key = label.of_key->second;
  of_key.Remove(label);
  if (!of_key.empty()) return;
  bytes_ -= label.of_key->first.capacity();
  partition.by_key.erase(partition.by_key.find(label.of_key->first));
}

std::optional<LabelJoin::LeavingLabel> LabelJoin::TakeLabel(int64_t low_ms) {
  for (LabelPartition& partition : labels_) {
    if (partition.queue.empty()) continue;
    Label& head = partition.queue.front();
    const bool is_label = head.record.kind == HeldRecord::Kind::kUsable;
    if (is_label && head.record.time_ms >= low_ms) continue;
    Forget(partition, head);
    bytes_ -= BytesOf(head.record) + kLabelBytes;
    --label_count_;
    NoteLeft(partition, head.record);
    LeavingLabel leaving = {.record = std::move(head.record),
                            .is_unused = is_label && !head.is_used};
    partition.queue.pop_front();
    return leaving;
  }
  return std::nullopt;
}

// ---- where it stands ----

template <typename P>
std::vector<LabelJoin::Position> LabelJoin::PositionsOf(const std::deque<P>& partitions) {
  std::vector<Position> positions;
  positions.reserve(partitions.size());
  for (const P& partition : partitions) {
    positions.push_back(partition.left);
    positions.back().read = std::max(partition.left.read, partition.next());
  }
  return positions;
}

std::vector<LabelJoin::Position> LabelJoin::RowPositions() const { return PositionsOf(rows_); }

std::vector<LabelJoin::Position> LabelJoin::LabelPositions() const { return PositionsOf(labels_); }

int64_t LabelJoin::TimeOfRows(int32_t partition) const {
  const auto index = static_cast<size_t>(partition);
  return index < rows_.size() ? rows_[index].time_ms() : kNoTime;
}

int64_t LabelJoin::TimeOfLabels(int32_t partition) const {
  const auto index = static_cast<size_t>(partition);
  return index < labels_.size() ? labels_[index].time_ms() : kNoTime;
}

}  // namespace millrace
