// What one transaction of TopicSource writes: rows, dead letters, and how far the source has come.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "kafka/consumer.h"
#include "messages/source.pb.h"
#include "models/row.h"
#include "topics/partitioning.h"
#include "topics/row_codec.h"
#include "topics/row_origin.h"

namespace millrace {

// Where a record stood.
struct RecordPlace {
  int32_t partition = 0;
  Offset offset = 0;
  int64_t timestamp_ms = 0;
  size_t bytes = 0;  // of its value
};

// The records of a source's topic go in, in the order of each partition; what is to be written
// comes out. Rows are dealt to the workers in the order in which they come (topics/partitioning.h).
// Not thread-safe.
class SourceBatch {
 public:
  // `state`: of all transactions before. `reasons_only`: dead letters hold nothing of the records.
  SourceBatch(SourceState state, const Dealing& dealing, bool reasons_only);

  // Whether the record has not been taken yet; else it is to be left out.
  bool IsNew(const ConsumedRecord& record) const;
  // Each takes the record's offset and all before it in its partition. REQUIRES IsNew(record).
  void AddRow(const ConsumedRecord& record, const Row& row);
  void AddRow(const RecordPlace& record, const Row& row);
  // A row that is left out, since it has no label.
  void AddUnlabelled(const RecordPlace& record);
  void AddUnusable(const ConsumedRecord& record, const Status& why);
  void AddTombstone(const ConsumedRecord& record);
  // The partition has no records before `next` that are still to be read: holes at its end.
  void Skip(int32_t partition, Offset next);
  // The records before `next` were deleted before they were read.
  void Lose(int32_t partition, Offset next);
  // A record of the labels' topic, which counts nowhere but in the labels' state.
  void AddUnusableLabel(const ConsumedRecord& record, const Status& why);
  // How far the labels are.
  void SetLabels(SourceState::Labels labels);
  // The stream ends with this transaction.
  void End() { ends_ = true; }
  // Ends the partitions of those of the job's `workers` that get no rows; once, in the first
  // transaction.
  void EndOthers(uint32_t workers);

  uint64_t rows() const { return rows_; }             // of this transaction
  size_t letters() const { return letters_.size(); }  // of this transaction
  size_t bytes() const { return bytes_; }             // about, of what is to be written
  // Whether its state differs from that of the transactions before.
  bool has_moved() const { return has_moved_; }
  // The number after the worker's last row.
  RowNumber end(WorkerId worker) const { return partitions_[worker].end; }
  const SourceState& state() const { return state_; }  // when all that was added is written

  struct InputDataRecord {
    WorkerId worker = 0;
    InputKey key;
    std::string value;
  };
  struct Transaction {
    std::vector<InputDataRecord> rows;  // in the order of each partition; and flushes, ends
    std::vector<std::string> letters;   // values of dead-letter
    // For the job topic: none if a record of rows has the state.
    std::optional<std::string> state;
  };
  // The next batch follows.
  Transaction Take();

 private:
  struct Partition {
    RowBatchEncoder batch;
    std::vector<RowOrigin> origins;
    RowNumber end = 0;  // the number after its last row
  };

  void Count(const RecordPlace& record);
  void AddLetter(const std::string& topic, const ConsumedRecord& record, const Status& why);
  void Finish(WorkerId worker);

  const Dealing dealing_;
  const bool reasons_only_;
  SourceState state_;
  std::vector<Partition> partitions_;
  std::vector<InputDataRecord> records_;
  std::vector<std::string> letters_;
  uint64_t rows_ = 0;
  size_t bytes_ = 0;
  bool has_moved_ = false;
  bool ends_ = false;
};

// A larger row fits into no record beside its origin and the source's state.
inline constexpr size_t kMostSourceRowBytes = 900'000;

}  // namespace millrace
