// Where partitions of input-data are cut into ranges of rows that can be leased.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "messages/leases.pb.h"
#include "messages/records.pb.h"
#include "models/row.h"
#include "processors/lease_table.h"
#include "topics/row_codec.h"

namespace millrace {

// Looks at the keys of records, partition by partition, and says where to cut: at the end of a
// record, when it has found rows enough; what has waited for others from one Tick to the next is
// cut, too. A lease of a short stream is short and of a long one long, so that there are many for
// each worker, and few beside their rows.
//
// Whoever cuts begins with the table that `plan` has: the cuts of two that begin there may differ,
// and only the first of each row counts (LeaseTable). Pure; not thread-safe.
class InputCutter {
 public:
  // A 64th of the rows that have been cut, within these bounds.
  static constexpr uint64_t kLeastRows = 64;
  static constexpr uint64_t kMostRows = 8192;

  // `shape`: that of the job's rows, by which readers know records that are none of theirs.
  // `lease_rows`: rows of a range, and those of its last record; 0: by how many there have been. At
  // most kMostLeaseRows - kMostBatchRows. REQUIRES table.has_begun().
  InputCutter(uint64_t lease_rows, const RowShape& shape, const LeaseTable& table);

  // The next record of the partition that is to be read; those before it may come, too.
  Offset next_offset(uint32_t partition) const { return inputs_.at(partition).next_offset; }
  // Behind the rows of it that were cut.
  RowNumber cut_row(uint32_t partition) const { return inputs_.at(partition).cut_row; }
  // Whether all rows of the partition are known.
  bool has_ended(uint32_t partition) const { return inputs_.at(partition).ended; }

  // Takes a record. One that cannot be used is a dead letter of whoever reads it, and nothing here.
  // DataLoss, with the place, when rows are missing before it. REQUIRES a partition of the table.
  Status Take(uint32_t partition, Offset offset, std::string_view key, std::string_view value);
  // Rows that were here at the last Tick wait no longer.
  void Tick();
  // What is to be said to the table, in this order.
  std::vector<LeaseCommand> TakeCommands() { return std::exchange(commands_, {}); }

 private:
  struct Input {
    Offset next_offset = 0;     // of the next record
    Offset behind_rows = 0;     // behind the record with the last of the rows
    RowNumber next_row = 0;     // behind the rows that were found
    RowNumber cut_row = 0;      // behind those that were cut
    RowNumber waiting_row = 0;  // next_row at the last Tick
    bool ended = false;
  };

  // A flush, or the end of the partition.
  void TakeMark(uint32_t partition, const InputKey& key, std::string_view value);
  void Cut(uint32_t partition);
  uint64_t LeaseRows() const;

  RowShape shape_;
  uint64_t lease_rows_;
  uint64_t cut_rows_;          // of all partitions
  std::vector<Input> inputs_;  // by partition
  std::vector<LeaseCommand> commands_;
  InputRecord record_;  // scratch
};

}  // namespace millrace
