// Embedding rows as they were at one moment, for a checkpoint to write while training goes on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "stores/row_space.h"

namespace millrace {

// What is known of an embedding row beside its floats.
struct EmbeddingRowHead {
  uint32_t updates = 0;    // that named it; counted until it is admitted
  int64_t updated_ms = 0;  // time of the last one, by the log
};

// A row that no update has named for so long (0: never) is as if it had never been.
inline bool HasExpired(const EmbeddingRowHead& head, int64_t now_ms, int64_t expire_after_ms) {
  return expire_after_ms > 0 && now_ms - head.updated_ms > expire_after_ms;
}

// ---- a row's bytes: key and value of a record of `parameters` and of an entry of a store ----

std::string EmbeddingRowKey(uint32_t table, EmbeddingId id);
// True when `key` is that of a row of some table.
bool IsEmbeddingRowKey(std::string_view key);

// Cheap to make and to drop: a few blocks of memory, however many rows. Sorting and encoding are
// the slow part, and may be done by another thread than that which froze them. A copy has the same
// rows and an order of its own; none is added to either.
class FrozenRows {
 public:
  FrozenRows() : FrozenRows(0, 0, 0) {}
  // Rows have `width` values and `slot_floats` floats of optimizer state.
  FrozenRows(uint32_t table, size_t width, size_t slot_floats)
      : FrozenRows(table, width, slot_floats, NewRoom(width + slot_floats, {})) {}
  // `room` has no rows yet, and is made by NewRoom for as many floats.
  FrozenRows(uint32_t table, size_t width, size_t slot_floats, std::shared_ptr<RowSpace> room);
  static std::shared_ptr<RowSpace> NewRoom(size_t floats, const RowSpaceOptions& options);

  void Reserve(size_t rows) { order_.reserve(rows); }
  // Values and slots; none of a row that is not admitted. `place` is the caller's name of it.
  void Add(EmbeddingId id, uint32_t place, const EmbeddingRowHead& head,
           std::span<const float> floats);

  size_t size() const { return order_.size(); }
  uint32_t place(size_t i) const { return order_[i].place; }

  // Ascending, as stores like to take them. Until then they are in the order of Add.
  void SortById();

  // Encodes rows from the begin-th on, until `visit` returns false; returns how many it visited.
  using Visit = std::function<bool(std::string_view key, std::string_view value)>;
  size_t Encode(size_t begin, const Visit& visit) const;

 private:
  // Its floats stand behind it.
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

// Takes a row's value apart: values and slots go to `floats` (as many as a row has), unless it is
// not admitted (fewer than `admit_after` updates). DataLoss when it is no row of this shape.
StatusOr<EmbeddingRowHead> DecodeEmbeddingRow(std::string_view value, uint32_t admit_after,
                                              size_t width, std::span<float> floats);
// Of a row of any shape.
StatusOr<EmbeddingRowHead> DecodeEmbeddingRowHead(std::string_view value);

}  // namespace millrace
