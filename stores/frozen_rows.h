// Embedding rows as of one moment, which a checkpoint writes while training continues.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "stores/row_space.h"

namespace millrace {

// What is known of an embedding row besides its values.
struct EmbeddingRowHead {
  uint32_t updates = 0;    // updates that named it, counted until it is admitted
  int64_t updated_ms = 0;  // time of the last one, by the log
  double shrinkage = 0;    // of the table after that update (RowTime)
};

// Whether no update has named the row for so long (0: never) that it counts as never created.
inline bool HasExpired(const EmbeddingRowHead& head, int64_t now_ms, int64_t expire_after_ms) {
  return expire_after_ms > 0 && now_ms - head.updated_ms > expire_after_ms;
}

// ---- a row's bytes: key and value of a record of `parameters` and of an entry of a store ----

std::string EmbeddingRowKey(uint32_t table, EmbeddingId id);
// True when `key` is that of a row of some table.
bool IsEmbeddingRowKey(std::string_view key);
// The id of the row of this table; empty: `key` is not that of such a row.
std::optional<EmbeddingId> EmbeddingIdOf(std::string_view key, uint32_t table);

// Cheap to create and to destroy: a few blocks of memory for any number of rows. Sorting and
// encoding are slow, and may be done by another thread than the one that froze them. A copy shares
// the rows and has its own order; no rows may be added to either.
class FrozenRows {
 public:
  FrozenRows() : FrozenRows(0, 0, 0) {}
  // Rows have `width` values and `slot_floats` floats of optimizer state.
  FrozenRows(uint32_t table, size_t width, size_t slot_floats)
      : FrozenRows(table, width, slot_floats, NewRoom(width + slot_floats, {})) {}
  // `room` is empty, and was created by NewRoom with the same numbers of floats.
  FrozenRows(uint32_t table, size_t width, size_t slot_floats, std::shared_ptr<RowSpace> room);
  static std::shared_ptr<RowSpace> NewRoom(size_t floats, const RowSpaceOptions& options);

  void Reserve(size_t rows) { order_.reserve(rows); }
  // Values and slots; empty for a row that is not admitted. `place` is the caller's name of the
  // row.
  void Add(EmbeddingId id, uint32_t place, const EmbeddingRowHead& head,
           std::span<const float> floats);

  size_t size() const { return order_.size(); }
  // The approximate size of what Encode visits.
  size_t bytes() const { return size() * row_floats_ * sizeof(float); }
  uint32_t place(size_t i) const { return order_[i].place; }

  // Sorts the rows by key, as is fastest for stores. Before, they are in the order of Add.
  void SortById();

  // Encodes rows from the begin-th on, until `visit` returns false; returns how many it visited.
  using Visit = std::function<bool(std::string_view key, std::string_view value)>;
  size_t Encode(size_t begin, const Visit& visit) const;

 private:
  // Followed by its floats.
  struct Row {
    EmbeddingRowHead head;
    bool admitted = false;
  };
  struct Entry {
    EmbeddingId id = 0;
    uint32_t row = 0;  // in the room
    uint32_t place = 0;
  };

  const Row& RowAt(size_t i) const {
    return *reinterpret_cast<const Row*>(room_->at(order_[i].row));
  }

  uint32_t table_ = 0;
  size_t width_ = 0;
  size_t row_floats_ = 0;
  std::vector<Entry> order_;
  std::shared_ptr<RowSpace> room_;
};

// Decodes a row's value: values and slots go to `floats` (as many as a row has), unless it is not
// admitted (fewer than `admit_after` updates). DataLoss when it is not a row of this shape.
StatusOr<EmbeddingRowHead> DecodeEmbeddingRow(std::string_view value, uint32_t admit_after,
                                              size_t width, std::span<float> floats);
// Of a row of any shape.
StatusOr<EmbeddingRowHead> DecodeEmbeddingRowHead(std::string_view value);

}  // namespace millrace
