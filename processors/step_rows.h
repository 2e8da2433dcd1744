// The rows of tables that a trainer's step reads and changes: thousands, so they stand in vectors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "topics/table_rows.h"

namespace millrace {

// Rows with values, one behind the other, each as wide as its table.
struct StepRows {
  std::vector<EmbeddingId> ids{};  // ascending, distinct
  std::vector<float> values{};
};

// Adds rows to others: of an id that both have, the values are summed. `tables`: those of the job.
void AddRows(StepRows more, std::span<const NamedTable> tables, StepRows& rows);

// Rows of a table as a trainer asks for them: in any order, and some perhaps more than once.
class AskedRows {
 public:
  explicit AskedRows(std::vector<EmbeddingId> ids);

  size_t size() const { return ids_.size(); }
  // Each once, ascending.
  std::span<const EmbeddingId> distinct() const { return distinct_; }
  // From rows in the order of distinct(), which begin each `stride` floats, to rows of `width`
  // floats, in the order in which they were asked for. REQUIRES: as many of both.
  void Spread(std::span<const float> values, size_t stride, size_t width,
              std::span<float> rows) const;
  // The other way round: of rows that were asked for more than once, the sums, in their order.
  // REQUIRES: size() x width floats.
  StepRows SumsOf(std::span<const float> rows, size_t width) const;

 private:
  // Whether the k-th in ascending order is the same row as the one before.
  bool IsRepeated(size_t k) const { return k > 0 && ids_[order_[k]] == ids_[order_[k - 1]]; }

  std::vector<EmbeddingId> ids_;
  std::vector<uint32_t> order_;  // places in ids_, ascending by the ids there, equal ones in order
  std::vector<EmbeddingId> distinct_;
};

}  // namespace millrace
