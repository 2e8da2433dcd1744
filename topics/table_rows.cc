#include "topics/table_rows.h"

#include <algorithm>
#include <string>
#include <utility>

namespace millrace {
namespace {

// Of a message, when all of its rows have the widest's width.
constexpr size_t kMostFloats = size_t{1} << 28;

bool HaveOneWidth(std::span<const NamedTable> tables) {
  return std::ranges::all_of(
      tables, [&](const NamedTable& table) { return table.width == tables.front().width; });
}

}  // namespace

std::vector<NamedTable> TablesOf(const JobFeatures& features) {
  std::vector<NamedTable> tables;
  for (int number = 0; number < features.parameters_size(); ++number) {
    const NamedParameter& parameter = features.parameters(number);
    if (!parameter.has_table()) continue;
    const uint64_t width = parameter.shape_size() == 1 ? parameter.shape(0) : 0;
    tables.push_back({.parameter = static_cast<uint32_t>(number), .width = width});
  }
  return tables;
}

size_t WidestRow(std::span<const NamedTable> tables) {
  size_t widest = 0;
  for (const NamedTable& table : tables) widest = std::max(widest, table.width);
  return widest;
}

Status CheckTables(const google::protobuf::RepeatedField<uint64_t>& rows,
                   std::span<const NamedTable> tables) {
  for (const EmbeddingId row : rows) {
    if (TableOf(row) < tables.size()) continue;
    return absl::InvalidArgumentError("a row of table " + std::to_string(TableOf(row)) +
                                      " of a job of " + std::to_string(tables.size()));
  }
  return absl::OkStatus();
}

Status CheckRowsOfTables(const EmbeddingBlock& block, std::span<const NamedTable> tables) {
  MILLRACE_RETURN_IF_ERROR(CheckTables(block.id(), tables));
  size_t floats = 0;
  for (const EmbeddingId row : block.id()) floats += tables[TableOf(row)].width;
  if (static_cast<size_t>(block.value_size()) == floats) return absl::OkStatus();
  return absl::InvalidArgumentError(std::to_string(block.value_size()) + " values of " +
                                    std::to_string(block.id_size()) + " rows that have " +
                                    std::to_string(floats));
}

Status ExpandRows(std::span<const NamedTable> tables, EmbeddingBlock& block) {
  if (tables.empty()) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(CheckRowsOfTables(block, tables));
  if (HaveOneWidth(tables)) return absl::OkStatus();
  const size_t widest = WidestRow(tables);
  if (static_cast<size_t>(block.id_size()) > kMostFloats / widest) {
    return absl::InvalidArgumentError(std::to_string(block.id_size()) +
                                      " rows are more than there is memory for");
  }
  google::protobuf::RepeatedField<float> wide;
  wide.Resize(static_cast<int>(static_cast<size_t>(block.id_size()) * widest), 0.0f);
  const float* from = block.value().data();
  float* to = wide.mutable_data();
  for (const EmbeddingId row : block.id()) {
    const size_t width = tables[TableOf(row)].width;
    std::copy_n(from, width, to);
    from += width;
    to += widest;
  }
  block.mutable_value()->Swap(&wide);
  return absl::OkStatus();
}

void TrimRows(std::span<const NamedTable> tables, EmbeddingBlock& block) {
  if (tables.empty() || HaveOneWidth(tables)) return;
  const size_t widest = WidestRow(tables);
  float* const values = block.mutable_value()->mutable_data();
  size_t at = 0;
  size_t end = 0;
  for (const EmbeddingId row : block.id()) {
    const size_t width = tables[TableOf(row)].width;
    std::copy_n(values + at, width, values + end);  // (never forward)
    at += widest;
    end += width;
  }
  block.mutable_value()->Truncate(static_cast<int>(end));
}

}  // namespace millrace
