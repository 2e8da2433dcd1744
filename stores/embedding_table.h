// A shard's embedding rows: in memory as far as they fit, on disk beyond.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/status.h"
#include "base/types.h"
#include "stores/frozen_rows.h"
#include "stores/ordered_byte_map.h"

namespace millrace {

struct EmbeddingTableOptions {
  uint32_t table = 0;  // its number within the job
  uint64_t seed = 0;
  // Of a new row's values, a column each: they are drawn evenly from [-limit, limit].
  std::vector<float> initial_limit = {0};
  size_t slot_floats = 0;  // of optimizer state beside a row's values, zero at birth
  // Rows in memory take at most so many bytes, but for those that no checkpoint has saved yet.
  size_t cache_bytes = size_t{64} << 20;
  // A row is stored from its n-th update on; the updates before are counted and change nothing.
  uint32_t admit_after = 1;
  // A row that no update has named for so long is as if it had never been. 0: never.
  int64_t expire_after_ms = 0;

  size_t width() const { return initial_limit.size(); }
};

// Rows come into being by their first update, with values that are a pure function of (seed, table,
// id); reading creates nothing. What Read and Update lead to is a pure function of the updates so
// far: cache size, evictions and checkpoints show in the time they take only.
//
// Rows updated since they were last saved stay in memory, since the store must remain a prefix of
// `parameters`; all others may be evicted and are read from the store again (second chance, Corbato
// 1968). `now_ms` is the log's time (of the record that is folded) and never goes back.
//
// Not thread-safe, but a checkpoint may be written to the store meanwhile by another thread.
class EmbeddingTable {
 public:
  // The store holds what was saved, and outlives the table; null: nothing was.
  EmbeddingTable(const EmbeddingTableOptions& options, const OrderedByteMap* store);

  size_t width() const { return options_.width(); }
  size_t slot_floats() const { return options_.slot_floats; }

  // Copies the rows' values, ids.size() x width(), row by row. REQUIRES ascending ids. DataLoss
  // when the store holds a row that cannot be decoded.
  Status Read(std::span<const EmbeddingId> ids, int64_t now_ms, std::span<float> values);

  // `step` changes a row's values and slots (slot by slot) by its gradient.
  using Step = std::function<void(std::span<const float> gradient, std::span<float> values,
                                  std::span<float> slots)>;
  // Takes a step for each row. REQUIRES ascending, distinct ids; gradients: ids.size() x width().
  // After an error some rows may have made their step: the table is to be loaded anew.
  Status Update(std::span<const EmbeddingId> ids, std::span<const float> gradients, int64_t now_ms,
                const Step& step);

  // ---- checkpoints: one at a time ----

  // The rows updated since the last call, as they are. They are being saved until Saved or
  // NotSaved.
  FrozenRows FreezeUpdated();
  // The store has what FreezeUpdated returned; or it has not, and the rows count as updated again.
  void Saved(const FrozenRows& rows);
  void NotSaved(const FrozenRows& rows);

  size_t rows_in_memory() const { return places_.size(); }
  // Bytes of the rows that cannot be evicted: a reason to make a checkpoint.
  size_t unsaved_bytes() const { return unsaved_ * RowBytes(); }

 private:
  // So many rows are in hand at once: they fit a processor's cache, and one call to the store.
  static constexpr size_t kAtOnce = 256;
  static constexpr size_t kNowhere = SIZE_MAX;

  struct Row {
    EmbeddingId id = 0;
    EmbeddingRowHead head{};
    bool updated = false;  // since FreezeUpdated
    bool saving = false;
    bool touched = false;  // since the clock's hand came by
    bool used = false;     // the place holds a row
    bool in_hand = false;
  };

  size_t RowFloats() const { return width() + slot_floats(); }
  size_t RowBytes() const;
  std::span<float> Floats(size_t place) {
    return {floats_.data() + place * RowFloats(), RowFloats()};
  }
  std::span<float> Values(size_t place) { return Floats(place).first(width()); }
  std::span<float> Slots(size_t place) { return Floats(place).subspan(width()); }
  bool Expired(const Row& row, int64_t now_ms) const;
  bool Admitted(const Row& row) const { return row.head.updates >= options_.admit_after; }
  void Draw(EmbeddingId id, std::span<float> values) const;

  // Takes the rows in hand, and lets go of those before: in_hand_ has the place in memory of each,
  // read from the store if need be, or kNowhere when there is no such row. None of them is evicted
  // meanwhile.
  Status Take(std::span<const EmbeddingId> ids);
  void LetGo();
  // Reads rows that are not in memory, `missing` are their places in `ids`.
  Status ReadStore(std::span<const EmbeddingId> ids, std::span<const size_t> missing);
  // Makes a place for the row, which is in hand.
  size_t NewPlace(EmbeddingId id);
  bool Evict();
  void Free(size_t place);
  void MarkUpdated(size_t place);

  EmbeddingTableOptions options_;
  const OrderedByteMap* store_;
  size_t most_rows_;  // in memory

  absl::flat_hash_map<EmbeddingId, size_t> places_;  // place by id; never iterated
  std::vector<Row> rows_;                            // by place
  std::vector<float> floats_;                        // RowFloats() by place
  std::vector<size_t> free_;
  size_t hand_ = 0;
  size_t unsaved_ = 0;
  std::vector<size_t> in_hand_;
  std::vector<size_t> updated_;  // places
};

}  // namespace millrace
