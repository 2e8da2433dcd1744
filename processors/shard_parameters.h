// The named parameters that a shard has a part of, and tables: the model EXTERNAL.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "messages/records.pb.h"
#include "processors/group_sync.h"
#include "processors/previous_round.h"
#include "processors/server_options.h"
#include "processors/shard_tables.h"
#include "stores/embedding_table.h"
#include "stores/parameter_shard.h"

namespace millrace {

// Which of them have values, and how updates change those. A part of the shard's state beside the
// values and slots, which ParameterShard has. Not thread-safe.
class ShardParameters {
 public:
  explicit ShardParameters(const ServerOptions& options);

  // Slots that the shard needs for each of its keys: as many as the parameter with the most.
  static size_t SlotCount(const ServerOptions& options);

  // What a step has done.
  struct Outcome {
    bool has_changed = false;
    bool is_finite = true;          // if not, the updates' parts have changed nothing
    uint64_t parts_before_put = 0;  // of parameters that have no values: they change nothing
    // Of handlers of one's own: calls that failed, which change nothing of this part of their
    // parameter, and numbers that would have become none, which keep the value and slots they had.
    uint64_t handler_errors = 0;
    uint64_t numbers_refused = 0;
  };
  // Takes the updates of a round (or the only one), at `clock`, in their order: first what they
  // put, where nobody has put it before, then one step of each parameter, and each row of a table,
  // that any of them names. In a job of several groups of servers others may have changed what has
  // no values here: their changes are added to the first values. Errors: the store's.
  struct Rows {
    EmbeddingTable* rows = nullptr;  // null: there are no tables
    RowTime now;
    PreviousRound* previous = nullptr;  // gets the rows before the step, if not null
  };
  StatusOr<Outcome> Step(std::span<const Gradient::Update* const> updates, Clock clock,
                         ParameterShard& shard, const Rows& rows, const GroupSync& sync);

  // Whether the handler of a parameter that has values wants its group to exchange now.
  bool SyncNow(uint64_t updates_since) const;
  // The keys of those of these parameters (ascending numbers) that have values; ascending.
  std::vector<KeyRange> KeysOf(std::span<const uint32_t> numbers) const;

  // The parameters that have values, ascending; with a clock, those that answers of that clock (of
  // a sequential job) say have some.
  std::vector<uint32_t> WithValues(std::optional<Clock> at = {}) const;

  // The values of the shard as trainers read them: `values`, or `scratch`, where a handler changes
  // them.
  std::span<const float> AsRead(std::span<const float> values, std::vector<float>& scratch) const;

  void Save(ShardState& state) const;
  // InvalidArgument when Save cannot have made it.
  Status Load(const ShardState& state);

 private:
  struct Parameter {
    KeyRange part;  // of its keys, in this shard; empty: none
    std::shared_ptr<const ParameterHandler> handler;
    std::optional<Clock> values_from{};  // the first clock that has them; empty: nobody has put it
    uint64_t updates = 0;
    // Scratch of Step.
    double weight = 0;
    size_t summed = 0;             // updates in `sum`; 0: none names the parameter
    std::span<const float> sum{};  // in sums_, or in the only update that counts
  };

  // What the updates say of the parameters, which views them then; returns parts_before_put.
  uint64_t Combine(std::span<const Gradient::Update* const> updates);
  // Whether they are, also when they are divided by their weights.
  bool SumsAreFinite() const;
  // Returns whether it worked.
  bool Put(const Parameter& parameter, std::span<const float> values, ParameterShard& shard,
           const GroupSync& sync, Outcome& outcome);
  using Call = std::function<absl::Status(const ParameterHandler&, const ParameterSlice&)>;
  bool Handle(const Parameter& parameter, const Call& call, ParameterShard& shard,
              Outcome& outcome);
  bool HandleForeign(const ParameterHandler& handler, const Call& call, const ParameterSlice& slice,
                     Outcome& outcome);
  std::span<float> ScratchOf(const Parameter& parameter);
  // Of the shard's values and slots, those of the parameter; valid until the next call.
  ParameterSlice SliceOf(const Parameter& parameter, ParameterShard& shard);

  const KeyRange range_;
  const bool is_grouped_;              // in a job of several groups of servers
  bool has_foreign_ = false;           // handlers
  std::vector<Parameter> parameters_;  // of the job, by their numbers; of tables they have no part
  ShardTables tables_;
  // Scratch of Step.
  std::vector<float> sums_;  // by key; empty until a round has several updates
  std::vector<std::span<float>> slots_;
  std::vector<float> copy_;  // of a part's values and slots
};

}  // namespace millrace
