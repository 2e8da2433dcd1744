// Rows of the tables of trainers of one's own (model EXTERNAL): their ids, and their widths on the
// wire.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "messages/records.pb.h"

namespace millrace {

// All tables of a job share one space of row ids: a row's id has the number of its table, among the
// job's tables, in the upper 8 bits, and the id that the trainer has given below.
inline constexpr uint32_t kMostTables = 256;
inline constexpr int kTableShift = 56;
inline constexpr uint64_t kMostRowId = (uint64_t{1} << kTableShift) - 1;
inline constexpr uint64_t kMostRowWidth = 65'536;

constexpr EmbeddingId RowIn(uint32_t table, uint64_t id) {
  return (uint64_t{table} << kTableShift) | id;
}
constexpr uint32_t TableOf(EmbeddingId row) { return static_cast<uint32_t>(row >> kTableShift); }
constexpr uint64_t IdInTable(EmbeddingId row) { return row & kMostRowId; }

// A table, by its number among the tables.
struct NamedTable {
  uint32_t parameter = 0;  // its number among all that trainers have named
  size_t width = 0;        // of a row
};

std::vector<NamedTable> TablesOf(const JobFeatures& features);
// Of the widest table: in memory and in stores all rows have it, with zeros at their ends. 0: there
// are no tables.
size_t WidestRow(std::span<const NamedTable> tables);

// Whether all of the rows are of these tables. InvalidArgument.
Status CheckTables(const google::protobuf::RepeatedField<uint64_t>& rows,
                   std::span<const NamedTable> tables);

// Whether the block has of each row as many values as its table's rows have, and no other rows.
// InvalidArgument.
Status CheckRowsOfTables(const EmbeddingBlock& block, std::span<const NamedTable> tables);

// From that to rows of the widest table's width, and back. InvalidArgument as above, and nothing
// has changed then. Without tables nothing is done.
Status ExpandRows(std::span<const NamedTable> tables, EmbeddingBlock& block);
void TrimRows(std::span<const NamedTable> tables, EmbeddingBlock& block);

}  // namespace millrace
