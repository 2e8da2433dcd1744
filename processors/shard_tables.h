// The tables of trainers of one's own (model EXTERNAL), as far as a shard has rows of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "messages/records.pb.h"
#include "models/parameter_handler.h"
#include "processors/previous_round.h"
#include "processors/server_options.h"
#include "stores/embedding_table.h"

namespace millrace {

// How updates change rows. The rows themselves are in an EmbeddingTable, all as wide as the widest
// table; what is behind a row's own width stays zero. Each row steps by its table's handler, with
// the number of steps that the table has made and the weight of the updates that name the table:
// both are the same in all shards, whichever rows these have. Not thread-safe.
class ShardTables {
 public:
  explicit ShardTables(const ServerOptions& options);

  // Of state for each row: as many as the table with the most needs.
  static size_t SlotFloats(const ServerOptions& options);

  // Adds up what the updates of a round (or the only one) say of rows, in their order. Returns
  // whether all sums are finite, divided by their weights, too.
  bool Combine(std::span<const Gradient::Update* const> updates);
  // Whether any of those updates names a table.
  bool is_named() const;
  // A step of each row of which Combine has a sum. `previous`, if not null, gets the rows before.
  // REQUIRES finite sums. Errors: the store's.
  Status Step(EmbeddingTable& rows, const RowTime& now, PreviousRound* previous);

  // Of the table with this number among the parameters: REQUIRES that it is one.
  bool IsTable(uint32_t parameter) const { return Find(parameter) != nullptr; }
  void set_updates(uint32_t parameter, uint64_t updates);
  void Clear();
  // Appends those that have made steps.
  void Save(ShardState& state) const;

 private:
  struct Table {
    uint32_t parameter = 0;
    size_t width = 0;
    std::shared_ptr<const ParameterHandler> handler;
    uint64_t updates = 0;  // steps that it has made
    // Scratch of Combine.
    double weight = 0;
    size_t named_by = 0;  // updates
  };

  Table* Find(uint32_t parameter);
  const Table* Find(uint32_t parameter) const;
  void CombineWeights(std::span<const Gradient::Update* const> updates);
  void SumRows(std::span<const Gradient::Update* const> updates);
  bool SumsAreFinite() const;
  // The rows of a table among ids_: [begin, end).
  struct Range {
    size_t begin = 0;
    size_t end = 0;
  };
  Range RowsOf(uint32_t table) const;
  void StepRow(const Table& table, std::span<const float> sum, std::span<float> values,
               std::span<float> slots);

  size_t width_ = 0;  // of all rows
  std::vector<Table> tables_;
  // Scratch of Combine: the rows that any update names, ascending, and their sums.
  std::vector<EmbeddingId> ids_;
  std::vector<float> sums_;
  std::vector<bool> has_sum_;
  std::vector<std::span<float>> slots_;
};

}  // namespace millrace
