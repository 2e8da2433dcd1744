// A shard's embedding rows: in memory as far as they fit, then in a scratch file and the store.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "base/huge_pages.h"
#include "base/status.h"
#include "base/types.h"
#include "stores/frozen_rows.h"
#include "stores/ordered_byte_map.h"
#include "stores/row_space.h"

namespace millrace {

// As of when a row is read. Neither part goes back.
struct RowTime {
  int64_t ms = 0;  // the log's time: of the record that is folded
  // How far all updates so far have shrunk a row that none of them names (or how often it had to
  // forget). A row has missed what came after the last one that named it.
  double shrinkage = 0;
};

struct EmbeddingTableOptions {
  uint32_t table = 0;  // its number within the job
  uint64_t seed = 0;
  // A limit for each value of a row: initial values are drawn uniformly from [-limit, limit].
  std::vector<float> initial_limit = {0};
  // Unless empty: the same of the ids with these upper 8 bits, which are as long.
  std::vector<std::vector<float>> limits_by_prefix = {};
  size_t slot_floats = 0;  // of optimizer state of a row, initially zero
  // Rows in memory take at most so many bytes,
  size_t cache_bytes = size_t{64} << 20;
  // and so many more in a scratch file in this folder. Of the other rows only those that no
  // checkpoint has saved are kept; the rest is read from the store again.
  size_t scratch_bytes = 0;
  std::string scratch_folder = {};
  // A row gets values and optimizer state with this update, counted from 1; before it, updates are
  // only counted, and the row is served with its initial values.
  uint32_t admit_after = 1;
  // A row that no update has named for so long counts as never created, and is removed from the
  // store later (RowSweep). 0: never.
  int64_t expire_after_ms = 0;
  // Shrinks a row's values by what it has missed, > 0 (Optimizer::CatchUp). None: it misses
  // nothing.
  std::function<void(double missed, std::span<float> values, std::span<const float> slots)>
      catch_up = nullptr;

  size_t width() const { return initial_limit.size(); }
};

// The values of a row before its first step, width() of them. REQUIRES an id whose upper 8 bits are
// below limits_by_prefix.size(), if there are such.
void DrawInitialRow(const EmbeddingTableOptions& options, EmbeddingId id, std::span<float> values);

// A row is created by its first update, with initial values that are a pure function of (seed,
// table, id); reading creates nothing. The results of Read and Update are a pure function of the
// updates so far: cache size, evictions and checkpoints change only the time that they take.
//
// Rows updated since they were last saved are kept, since the store must remain a prefix of
// `parameters`; all others may be evicted and are read from the store again (second chance, Corbato
// 1968). The first rows are in memory, the others in the scratch file, and no row moves: in a
// skewed stream frequent rows appear early, and rows that appear together are neighbours. What a
// row has missed is caught up with when it is read, and stored when it is updated.
//
// Not thread-safe, but a checkpoint may be written to the store meanwhile by another thread.
class EmbeddingTable {
 public:
  // The store holds the saved rows, and outlives the table; null: none were saved.
  EmbeddingTable(const EmbeddingTableOptions& options, const OrderedByteMap* store);
  EmbeddingTable(const EmbeddingTable&) = delete;
  EmbeddingTable& operator=(const EmbeddingTable&) = delete;

  size_t width() const { return options_.width(); }
  size_t slot_floats() const { return options_.slot_floats; }

  // Copies the rows' values, ids.size() x width(), row by row. REQUIRES ascending ids. DataLoss
  // when the store holds a row that cannot be decoded.
  Status Read(std::span<const EmbeddingId> ids, const RowTime& now, std::span<float> values);

  // `step` changes a row's values and slots (slot by slot) by its gradient.
  using Step = std::function<void(std::span<const float> gradient, std::span<float> values,
                                  std::span<float> slots)>;
  // Gets the rows' values as Read would give them at that time, before the update, unless it has
  // no room for them. (So each row is looked for once.)
  struct Before {
    RowTime at;
    std::span<float> values;
  };
  // Takes a step for each row, after which the table's shrinkage is `shrinkage_after`. REQUIRES
  // ascending, distinct ids; gradients, and before.values or none: ids.size() x width(). After an
  // error some rows may have made their step: the table must be loaded again.
  Status Update(std::span<const EmbeddingId> ids, std::span<const float> gradients,
                const RowTime& now, double shrinkage_after, const Step& step,
                const Before& before = {});

  // ---- checkpoints: one at a time ----

  // An empty FrozenRows with this table's layout; what exceeds half of the cache goes to a scratch
  // file.
  FrozenRows NoRows();
  // Copies the rows that were updated since the last call. They count as being saved until Saved or
  // NotSaved.
  FrozenRows FreezeUpdated();
  // The checkpoint succeeded: the store has these rows.
  void Saved(const FrozenRows& rows);
  // It failed: these rows count as updated again.
  void NotSaved(const FrozenRows& rows);

  // The number of rows in memory and scratch file.
  size_t rows_at_hand() const { return places_.size(); }
  // The number of these that cannot be evicted.
  size_t unsaved() const { return unsaved_; }
  // The approximate size in bytes of the rows that FreezeUpdated would return.
  size_t updated_bytes() const { return updated_.size() * PlaceBytes(); }
  // Whether a checkpoint should be made, since too many rows cannot be evicted: half of the room,
  // or as many as are saved and, after a failure, replayed in a few seconds.
  bool is_short_of_room() const;
  // OK, or why a scratch file cannot grow, with a remedy. Everything continues without it, but
  // slower.
  const Status& scratch_status() const {
    return frozen_scratch_status_.ok() ? space_.scratch_status() : frozen_scratch_status_;
  }

 private:
  // The number of rows that are processed at a time: they fit a processor's second-level cache, and
  // are read by one call to the store, which reads each part of its index once.
  static constexpr size_t kAtOnce = 1024;
  static constexpr size_t kNowhere = SIZE_MAX;

  // Followed by the values and slots.
  struct Row {
    EmbeddingId id = 0;
    int64_t updated_ms = 0;  // as in EmbeddingRowHead, whose padding would cost each row 8 bytes
    double shrinkage = 0;
    uint32_t updates = 0;
    bool updated : 1 = false;  // since FreezeUpdated
    bool saving : 1 = false;
    bool touched : 1 = false;  // since the last pass of the clock's hand
    bool used : 1 = false;     // the place holds a row
    bool in_hand : 1 = false;

    EmbeddingRowHead head() const { return {updates, updated_ms, shrinkage}; }
  };

  // The index has bits of the id besides the place, so that it can grow without reading each row.
  struct Indexed {
    uint32_t id_bits;
    uint32_t place;
  };
  // Finds a row that is probably the requested one, without reading it.
  struct Candidate {
    uint32_t id_bits;
  };
  struct Hash {
    using is_transparent = void;  // NOLINT(readability-identifier-naming): the containers' name
    size_t operator()(const Indexed& row) const { return absl::HashOf(row.id_bits); }
    size_t operator()(EmbeddingId id) const { return absl::HashOf(IdBits(id)); }
    size_t operator()(Candidate row) const { return absl::HashOf(row.id_bits); }
  };
  struct Equal {
    using is_transparent = void;  // NOLINT(readability-identifier-naming): the containers' name
    bool operator()(const Indexed& a, const Indexed& b) const { return a.place == b.place; }
    bool operator()(const Indexed& row, EmbeddingId id) const {
      return row.id_bits == IdBits(id) && table->RowAt(row.place).id == id;
    }
    bool operator()(const Indexed& row, Candidate wanted) const {
      return row.id_bits == wanted.id_bits;
    }
    const EmbeddingTable* table;
  };
  static uint32_t IdBits(EmbeddingId id) { return static_cast<uint32_t>(id); }  // (a hash itself)

  size_t RowFloats() const { return width() + slot_floats(); }
  size_t PlaceBytes() const { return sizeof(Row) + RowFloats() * sizeof(float); }
  RowSpaceOptions SpaceOptions(size_t cache_bytes) const;
  Row& RowAt(size_t place) const { return *reinterpret_cast<Row*>(space_.at(place)); }
  std::span<float> Floats(size_t place) const {
    return {reinterpret_cast<float*>(space_.at(place) + sizeof(Row)), RowFloats()};
  }
  std::span<float> Values(size_t place) const { return Floats(place).first(width()); }
  std::span<float> Slots(size_t place) const { return Floats(place).subspan(width()); }
  bool Expired(const Row& row, int64_t now_ms) const;
  bool Admitted(const Row& row) const { return row.updates >= options_.admit_after; }
  void Draw(EmbeddingId id, std::span<float> values) const { DrawInitialRow(options_, id, values); }
  // Shrinks `values`, the row's or a copy of them, by what the row has missed.
  void CatchUp(size_t place, const RowTime& now, std::span<float> values) const;

  // The values as they are read then; `place` may be kNowhere.
  void CopyValues(size_t place, EmbeddingId id, const RowTime& now, std::span<float> out) const;

  // Loads the rows to be processed next: in_hand_ has the place of each, which is read from the
  // store if needed, or kNowhere when there is no such row. None of them is evicted until the next
  // call.
  Status Take(std::span<const EmbeddingId> ids);
  void LetGo();
  // Reads rows that are not in memory, `missing` are their places in `ids`.
  Status ReadStore(std::span<const EmbeddingId> ids, std::span<const size_t> missing);
  // Whether the store may have rows that are not at hand. (The rows of a new job are all here until
  // one is evicted, and those that no update has named yet are looked for in vain.)
  StatusOr<bool> StoreMayHaveMore();
  // Makes a place for a new row of those that are processed.
  size_t NewPlace(EmbeddingId id);
  bool Evict();
  void Free(size_t place);
  void MarkUpdated(size_t place);

  EmbeddingTableOptions options_;
  const OrderedByteMap* store_;

  using Index = absl::flat_hash_set<Indexed, Hash, Equal, HugePageAllocator<Indexed>>;

  RowSpace space_;  // Rows by place
  Index places_;    // never iterated
  std::vector<uint32_t> free_;
  size_t hand_ = 0;
  size_t unsaved_ = 0;
  std::vector<size_t> in_hand_;
  std::vector<uint32_t> updated_;          // places
  std::shared_ptr<RowSpace> frozen_room_;  // of the last rows frozen, for the next
  Status frozen_scratch_status_;
  bool none_to_evict_ = false;  // while these rows are processed
  // Whether the store had rows when the first was looked for; nothing: none was.
  std::optional<bool> store_had_rows_;
  bool has_evicted_ = false;  // a row, ever
};

}  // namespace millrace
