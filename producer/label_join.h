// Joins the rows of one topic with the labels of another, which come later. Pure: what was read
// goes in, what may be written comes out (docs/late-labels.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "kafka/consumer.h"
#include "models/row.h"
#include "producer/label_times.h"

namespace millrace {

// A record that was read and has not left, or offsets without one.
struct HeldRecord {
  enum class Kind : uint8_t {
    kUsable,
    kUnusable,   // with `value` and `why`; `key` is the record's
    kTombstone,  // without a value
    kSkipped,    // holes before `next`
    kLost,       // records before `next` that were deleted before they were read
  };
  Kind kind = Kind::kUsable;
  int32_t partition = 0;
  Offset offset = 0;
  Offset next = 0;  // where reading goes on when it has left
  int64_t time_ms = 0;
  size_t value_bytes = 0;
  std::string key{};  // of the join, if it is usable
  struct Failed {
    std::string value;
    Status why;
  };
  std::unique_ptr<Failed> failed{};

  // The newest time of its partition before it, and with it: LabelJoin sets them.
  int64_t newest_before_ms = -1;
  int64_t newest_ms = -1;
};

// A label as Row has it.
struct JoinedLabel {
  uint32_t id = 0;
  float target = 0;
  bool operator==(const JoinedLabel&) const = default;
};

// A row of key K and time t belongs to a label of K whose time is in [t, t + window]. Records leave
// in the order of their partition:
//
//  - A row leaves with a label: of each partition of the labels the first one that is in its
//    window, of several partitions that are read by then the one of the earliest time.
//  - It leaves without one when the time of every partition of the labels is behind t + window. The
//    time of a partition is kLateMs before the newest of its records that was read, or, where all
//    that it held at a moment was read, kLateMs before that moment (NoteLabelsRead).
//  - A label leaves when no row can ask for it any more: rows are read in the order of their times
//    but for LatenessMs().
//
// So that it does not matter how the reading of partitions interleaves, a label does not count for
// a row if its partition had passed t + window before it, and a row that is later than LatenessMs()
// behind another one of its partition looks for labels from there on only.
//
// Whoever begins anew at next_row_to_leave() and next_label_to_leave() with the times before them
// makes the same decisions again. Not thread-safe.
class LabelJoin {
 public:
  static constexpr int64_t kLateMs = 5000;
  static constexpr int64_t kNoTime = -1;
  static constexpr int64_t kAlways = INT64_MAX;  // a moment after which nothing counts

  struct Position {
    Offset next = 0;              // records before it have left
    int64_t newest_ms = kNoTime;  // of these
    // Labels only: those before it had been read, and may have been of rows that have left.
    Offset read = 0;
  };

  // Positions by partition; partitions that are added later begin at 0. REQUIRES window_ms >= 0,
  // and one partition of the labels at least.
  LabelJoin(int64_t window_ms, std::span<const Position> rows, std::span<const Position> labels);
  // Entries point to one another.
  LabelJoin(const LabelJoin&) = delete;
  LabelJoin& operator=(const LabelJoin&) = delete;

  // ---- what was read ----

  // The first offset of the partition that was not added yet.
  Offset next_row(int32_t partition) const;
  Offset next_label(int32_t partition) const;

  // Each REQUIRES that the offset was not added yet. `row` is of kUsable, and has no label.
  // `now_ms` bounds what the record's time says of the partition.
  void AddRow(HeldRecord record, Row row, int64_t now_ms);
  void AddLabel(HeldRecord record, JoinedLabel label, int64_t now_ms);
  // kSkipped or kLost; nothing if the partition was read up to there.
  void PassRows(HeldRecord::Kind kind, int32_t partition, Offset next);
  void PassLabels(HeldRecord::Kind kind, int32_t partition, Offset next);

  // All that the partition held at `moment_ms` has been added; kAlways: nothing will be.
  void NoteRowsRead(int32_t partition, int64_t moment_ms);
  void NoteLabelsRead(int32_t partition, int64_t moment_ms);

  // ---- what leaves ----

  struct LeavingRow {
    HeldRecord record;
    Row row;                             // of kUsable, with the label if there is one
    std::optional<JoinedLabel> label{};  // none: no label came
  };
  // Empty: none may leave now.
  std::optional<LeavingRow> TakeRow();

  struct LeavingLabel {
    HeldRecord record;
    bool is_unused = false;  // of kUsable: it was of no row, as far as is known
  };
  // Labels before this time are of no row any more.
  int64_t LowTime() const;
  // Empty: none that is before `low_ms` may leave.
  std::optional<LeavingLabel> TakeLabel(int64_t low_ms);

  // ---- where it stands ----

  std::vector<Position> RowPositions() const;
  std::vector<Position> LabelPositions() const;

  // How far a partition has come: its newest time or moment; kNoTime: nothing is known.
  int64_t TimeOfRows(int32_t partition) const;
  int64_t TimeOfLabels(int32_t partition) const;

  size_t rows() const { return row_count_; }      // records that wait
  size_t labels() const { return label_count_; }  // records that are kept
  size_t bytes() const { return bytes_; }         // of memory, about
  int64_t LatenessMs() const { return window_ms_ + kLateMs; }

 private:
  using ByKey = std::unordered_map<std::string, LabelTimes>;
  struct Waiting {
    HeldRecord record;
    Row row;
  };
  // The node is in the tree of its key, if it is usable.
  struct Label : LabelTimes::Node {
    HeldRecord record{};  // its key is that of by_key
    JoinedLabel label{};
    bool is_used = false;
    ByKey::value_type* of_key = nullptr;
  };
  template <typename Entry>
  struct Partition {
    std::deque<Entry> queue{};
    Position left{};              // before the queue
    int64_t newest_ms = kNoTime;  // of all that was added
    int64_t moment_ms = kNoTime;
    Offset next() const { return queue.empty() ? left.next : queue.back().record.next; }
    int64_t time_ms() const { return newest_ms > moment_ms ? newest_ms : moment_ms; }
  };
  struct LabelPartition : Partition<Label> {
    ByKey by_key{};
  };

  template <typename P>
  static P& At(std::deque<P>& partitions, int32_t partition);
  template <typename P>
  static void NoteTime(P& partition, HeldRecord& record, int64_t now_ms);
  template <typename P>
  static void NoteLeft(P& partition, const HeldRecord& record);
  template <typename P>
  static std::vector<Position> PositionsOf(const std::deque<P>& partitions);
  int64_t FirstTime(const HeldRecord& row) const;
  Label* Find(const HeldRecord& row);
  bool IsTooLate(const HeldRecord& row) const;
  void Forget(LabelPartition& partition, Label& label);

  const int64_t window_ms_;
  // Deques, since entries stay where they are when partitions are added.
  std::deque<Partition<Waiting>> rows_;
  std::deque<LabelPartition> labels_;
  size_t next_partition_ = 0;  // of rows_, that TakeRow looks at first
  size_t row_count_ = 0;
  size_t label_count_ = 0;
  size_t bytes_ = 0;
};

}  // namespace millrace
