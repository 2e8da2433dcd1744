// The steps of a trainer of one's own (Training.model EXTERNAL), in place of a worker's rows.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/types.h"
#include "processors/batch_source.h"
#include "processors/step_rows.h"
#include "topics/gradient_codec.h"
#include "topics/table_rows.h"

namespace millrace {

// What an update says of parameters, whole, by their numbers.
struct TrainerStep {
  std::map<uint32_t, std::vector<float>> put{};
  std::map<uint32_t, std::vector<float>> part{};
  StepRows table_rows{};
  // The rows that the answer to the step is to bring; ascending, distinct.
  std::vector<EmbeddingId> wanted{};
  double weight = 0;  // > 0 if there are parts or rows
  uint64_t rows = 0;  // for the display
};

// Keeps each step until every shard has taken it, and the values that the next one is made of. Not
// thread-safe.
class TrainerSteps final : public BatchSource {
 public:
  // `keys`: of each parameter; `tables`: those of them that are tables; `shards`: what each of the
  // job's shards has.
  TrainerSteps(std::vector<KeyRange> keys, std::vector<NamedTable> tables,
               std::vector<KeyRange> shards);

  // The job has these shards from now on: the steps that are kept are for them, and values and rows
  // are to come from them.
  void GoOver(std::vector<KeyRange> shards);

  // ---- the trainer's side ----

  // The step that ends this clock; of a clock for which there is one already, or that has passed,
  // it counts for nothing.
  void Add(Clock clock, TrainerStep step);
  // After the last step no other will come.
  void Leave() { leaves_ = true; }
  size_t pending() const { return steps_.size(); }
  // Asks for the values once more, and for rows that were read.
  void WantValues() {
    values_at_.reset();
    ForgetRows();
    wants_new_rows_ = true;
  }
  // The clock of the step that is to be made of values(), once they are there.
  std::optional<Clock> values_at() const { return values_at_; }
  // A copy of those of all keys.
  std::vector<float> values() const;
  // Copies those of these keys. REQUIRES: they have come; to.size() == keys.size().
  void CopyValues(KeyRange keys, std::span<float> to) const;
  // The parameters that have values, ascending.
  const std::vector<uint32_t>& has_values() const { return has_values_; }

  // The step that is to be made of values() reads these rows, too; REQUIRES values_at(), and rows
  // of `tables`; ascending, distinct.
  void ReadRows(std::span<const EmbeddingId> ids);
  // Whether these rows, ascending, were read and are there, of the clock values_at().
  bool HasRows(std::span<const EmbeddingId> ids) const;
  // The values of such a row, as wide as its table.
  std::span<const float> ValuesOf(EmbeddingId id) const;
  // Those of many, ascending, each with zeros behind it up to row_width(): ids.size() rows. They
  // are copied to `scratch` unless they are all that was read; until other rows or values come.
  std::span<const float> Rows(std::span<const EmbeddingId> ids, std::vector<float>& scratch) const;
  // Of the widest table.
  size_t row_width() const { return row_width_; }

  // ---- the worker's side ----

  // The rows that the step of this clock is still to read; ascending, distinct.
  const std::vector<EmbeddingId>& MissingRows() const { return missing_; }
  // `values`: of all of MissingRows(), in their order, each row_width() floats. They are exchanged
  // for others, whose memory the next ones may have.
  void TakeRows(std::vector<float>& values);
  // Whether rows that came with earlier answers will not do. Says it once.
  bool WantsNewRows() { return std::exchange(wants_new_rows_, false); }

  bool WantsValues(Clock clock) const { return !steps_.contains(clock) && values_at_ != clock; }
  // Dense ones: together they have all keys. They are not copied. `put`: of each shard's answer,
  // the parameters of which it has values; a parameter has some when every shard that has a part of
  // it says so.
  void TakeValues(Clock clock, std::vector<std::shared_ptr<const Slice>> values,
                  const std::vector<std::span<const uint32_t>>& put);
  // The step of this clock. REQUIRES: there is one.
  std::shared_ptr<const TrainerStep> Of(Clock clock) const { return steps_.at(clock); }
  // What the shard has of a step's values by parameter: views of them.
  std::vector<PartView> Cut(const std::map<uint32_t, std::vector<float>>& values,
                            ShardId shard) const;
  // The shard's rows of the step: all of them if there is one shard, else a copy in `scratch`.
  TableRowsView CutRows(const TrainerStep& step, ShardId shard, StepRows& scratch) const;
  // `table` and `wanted` of an update to the shard.
  void NameRows(const TrainerStep& step, ShardId shard, Gradient::Update& update) const;

  void Add(RowNumber number, int64_t timestamp_ms, Row* row) override;
  void End(RowNumber row_count) override;
  bool HasEnd() const override { return leaves_; }
  StatusOr<BatchState> Next(const Progress& progress, Batch& batch) override;
  void Forget(const Progress& progress) override;
  size_t size() const override { return 0; }
  bool WantsRows() const override { return false; }
  SourceBegin NeededFrom(const Progress& /*progress*/) const override { return {}; }

 private:
  // Of each parameter: shards that have a part of it.
  std::vector<size_t> CountOwners() const;
  // Keeps their memory.
  void ForgetRows() {
    row_ids_.clear();
    row_values_.clear();
  }

  std::vector<KeyRange> keys_;
  std::vector<NamedTable> tables_;
  size_t row_width_;
  std::vector<KeyRange> shards_;
  std::vector<size_t> owners_;  // CountOwners()
  std::map<Clock, std::shared_ptr<const TrainerStep>> steps_;
  Clock forgotten_ = 0;  // steps of earlier clocks are needed no more
  bool leaves_ = false;
  std::optional<Clock> values_at_;
  std::vector<std::shared_ptr<const Slice>> values_;
  std::vector<uint32_t> has_values_;
  // The rows that were read, of the clock values_at_: ids, ascending, and row_width_ values of
  // each.
  std::vector<EmbeddingId> row_ids_;
  std::vector<float> row_values_;
  std::vector<EmbeddingId> missing_;  // ascending; none of row_ids_
  bool wants_new_rows_ = false;
};

}  // namespace millrace
