#include "tasks/first_checkpoint.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "base/big_endian.h"
#include "base/check.h"
#include "tasks/state_codec.h"
#include "topics/figures_codec.h"
#include "topics/parameter_layout.h"
#include "topics/partitioning.h"

namespace millrace {
namespace {

// Copies what of the keys [begin, begin + values.size()) is in the range; returns how many.
uint64_t CopyKeys(uint64_t begin, std::span<const float> values, KeyRange range,
                  std::span<float> into) {
  const uint64_t first = std::max(begin, range.begin);
  const uint64_t end = std::min(begin + values.size(), range.end);
  if (first >= end) return 0;
  std::ranges::copy(values.subspan(first - begin, end - first),
                    into.begin() + static_cast<ptrdiff_t>(first - range.begin));
  return end - first;
}

}  // namespace

ShardState SnapshotStateFrom(const ServerProcessor& processor) {
  ShardState state;
  processor.SaveState(state);
  for (ShardState::Member& member : *state.mutable_members()) {
    member.clear_pending();
    member.clear_wanted();
    member.clear_has_cut();
    member.clear_cut();
  }
  state.clear_partial();
  state.mutable_previous_round()->clear_embeddings();
  state.clear_snapshot();
  state.clear_snapshot_cancelled();
  state.clear_snapshot_request();
  state.clear_snapshot_steps();
  state.clear_snapshot_open();
  state.clear_at_cut();
  state.clear_restored();  // whoever starts from it believes no late report
  return state;
}

Status VisitSnapshotRows(const EmbeddingTable& table, const EmbeddingTableOptions& options,
                         const OrderedByteMap& store, int64_t now_ms,
                         const SnapshotRowVisit& visit) {
  std::vector<float> floats(table.width() + table.slot_floats());
  const auto take = [&](std::string_view key, std::string_view value) -> Status {
    std::ranges::fill(floats, 0.0f);
    MILLRACE_ASSIGN_OR_RETURN(
        const EmbeddingRowHead head,
        DecodeEmbeddingRow(value, options.admit_after, table.width(), std::span<float>(floats)));
    if (HasExpired(head, now_ms, options.expire_after_ms)) return absl::OkStatus();
    return visit(*DecodeBigEndian64(key.substr(key.size() - 8)), head, floats);
  };
  Status status = absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(store.Scan(EmbeddingRowKey(options.table, 0),
                                      EmbeddingRowKey(options.table + 1, 0),
                                      [&](std::string_view key, std::string_view value) {
                                        status = take(key, value);
                                        return status.ok();
                                      }));
  return status;
}

bool BeginsWithSnapshot(const ShardTask& task, Offset begin) {
  return !task.has_state() && begin == 0;
}

FirstCheckpoint::FirstCheckpoint(const ServerOptions& options, SnapshotStart start)
    : options_(options), start_(start), processor_(options, nullptr) {
  if (processor_.embeddings() != nullptr) checkpoint_.rows = processor_.embeddings()->NoRows();
}

void FirstCheckpoint::AddWeights(uint64_t begin, std::span<const float> values) {
  ParameterShard& shard = processor_.mutable_shard();
  weights_ += CopyKeys(begin, values, shard.range(), shard.mutable_weights());
}

size_t FirstCheckpoint::slots() const {
  const ParameterShard& shard = processor_.shard();
  return shard.range().size() == 0 ? 0 : shard.slots().size() / shard.range().size();
}

void FirstCheckpoint::AddSlot(size_t slot, uint64_t begin, std::span<const float> values) {
  MILLRACE_CHECK(slot < slots());
  ParameterShard& shard = processor_.mutable_shard();
  const size_t keys = shard.range().size();
  slots_ +=
      CopyKeys(begin, values, shard.range(), shard.mutable_slots().subspan(slot * keys, keys));
}

void FirstCheckpoint::AddRow(ShardId of, EmbeddingId id, EmbeddingRowHead head,
                             std::span<const float> floats) {
  const auto part = states_.find(of);
  MILLRACE_CHECK(part != states_.end());
  if (ShardOfEmbedding(id, options_.shards) != options_.shard) return;
  // What the row has missed, it has missed of its own shard's steps.
  head.shrinkage += shrinkage_ - part->second.shrinkage;
  const bool is_admitted = head.updates >= options_.embeddings->admit_after;
  checkpoint_.rows.Add(id, 0, head, is_admitted ? floats : std::span<const float>());
}

void FirstCheckpoint::AddState(ShardId of, ShardState saved) {
  const auto [added, is_new] =
      states_.emplace(of, Added{.shrinkage = saved.shrinkage(), .steps = saved.steps()});
  MILLRACE_CHECK(is_new);
  for (const ParameterProgress& parameter : saved.parameters()) {
    added->second.updates[parameter.parameter()] = parameter.updates();
  }
  // Each shard's log has times of its own, and may have made a step more than another.
  seen_ms_ = std::max(seen_ms_, saved.seen_ms());
  step_ms_ = std::max(step_ms_, saved.step_ms());
  shrinkage_ = std::max(shrinkage_, saved.shrinkage());
  if (of == 0) state_ = std::move(saved);
}

std::vector<ParameterProgress> FirstCheckpoint::StartProgress() const {
  const std::vector<ServedParameter>& parameters = options_.parameters;
  const auto shards = static_cast<uint32_t>(states_.size());
  std::vector<ParameterProgress> progress;
  for (uint32_t number = 0; number < parameters.size(); ++number) {
    const bool is_table = parameters[number].row_width > 0;  // of which any shard has rows
    bool has_values = true;
    uint64_t updates = 0;  // a shard that has taken a put later has counted fewer
    for (const auto& [shard, added] : states_) {
      const KeyRange range = RangeOfShard(shard, shards, parameters.back().keys.end);
      if (!is_table && PartOf(parameters[number].keys, range).size() == 0) continue;
      const auto found = added.updates.find(number);
      has_values = has_values && (is_table || found != added.updates.end());
      if (found != added.updates.end()) updates = std::max(updates, found->second);
    }
    const bool is_here =
        is_table ? updates > 0 : PartOf(parameters[number].keys, options_.range).size() > 0;
    if (!has_values || !is_here) continue;
    ParameterProgress& begins = progress.emplace_back();
    begins.set_parameter(number);
    begins.set_updates(updates);
  }
  return progress;
}

// Of shard 0's state: sums, scaling and counters are shard 0's only.
ShardState FirstCheckpoint::StartState() const {
  ShardState state = state_;
  if (!options_.parameters.empty()) {
    // Shards have made other steps, where these named other parameters.
    for (const auto& [shard, added] : states_) {
      state.set_steps(std::max(state.steps(), added.steps));
    }
    state.clear_parameters();
    for (ParameterProgress& progress : StartProgress()) {
      *state.add_parameters() = std::move(progress);
    }
  }
  // The next periodic snapshot is a whole period away; shard 0 begins it.
  state.clear_snapshot_steps();
  if (options_.shard == 0) state.set_snapshot_steps(state.steps());
  state.set_seen_ms(seen_ms_);
  state.set_step_ms(step_ms_);
  state.set_shrinkage(shrinkage_);
  state.set_epoch(options_.epoch);
  state.set_shard(options_.shard);
  state.set_position(0);
  state.set_last_record_hash(0);
  const Moments none(options_.numeric_columns);
  if (options_.shard != 0) ToProto(none, *state.mutable_moments());
  state.clear_sync();  // one group of servers, whatever the snapshot's job had
  state.clear_seal();
  if (start_ != SnapshotStart::kSameJob) {
    // The job has as many workers as it begins with.
    state.clear_resize();
    state.clear_workers();
    state.clear_resize_ordered();
    state.clear_workers_ordered();
    state.mutable_moments()->clear_resize();
    state.mutable_moments()->clear_workers();
  }
  *state.mutable_previous_round()->mutable_moments() = state.moments();
  state.mutable_previous_round()->set_step_ms(state.step_ms());
  state.mutable_previous_round()->set_shrinkage(state.shrinkage());
  if (start_ == SnapshotStart::kNewStream) {
    state.clear_members();
    for (WorkerId worker = 0; worker < options_.workers; ++worker) {
      ShardState::Member& member = *state.add_members();
      member.set_worker(worker);
      member.set_left(worker >= options_.workers_at_first());
    }
  }
  if (options_.shard != 0 || start_ == SnapshotStart::kNewStream) {
    state.clear_progressive();
    state.clear_tail();
    state.clear_window();
    state.clear_window_end();
    state.clear_window_open();
    state.clear_drift();
    state.clear_rows_trained();
    // Each shard has taken each update.
    const uint64_t accepted = state.counters().gradients_accepted();
    state.clear_counters();
    if (start_ == SnapshotStart::kSameJob) {
      state.mutable_counters()->set_gradients_accepted(accepted);
    }
  }
  return state;
}

StatusOr<Checkpoint> FirstCheckpoint::Finish() {
  MILLRACE_CHECK(!is_finished_);
  is_finished_ = true;
  MILLRACE_CHECK(!states_.empty() && states_.rbegin()->first + 1 == states_.size());
  MILLRACE_CHECK(weights_ == range().size());
  MILLRACE_CHECK(slots_ == 0 || slots_ == slots() * range().size());
  if (state_.has_sync() && start_ != SnapshotStart::kNewStream) {
    return absl::InvalidArgumentError(
        "the snapshot is of a job of several groups of servers, and has the rows of the first "
        "group's "
        "workers only: give --new-stream, too, and the rows that are to be learnt from");
  }
  MILLRACE_RETURN_IF_ERROR(processor_.LoadState(StartState()));
  ParameterShard& shard = processor_.mutable_shard();
  if (options_.shards > 1 && options_.consistency.sequential()) shard.KeepPreviousRound();
  for (size_t block = 0; block < shard.block_count(); ++block) {
    ParameterShard::Encoded encoded = shard.EncodeBlock(block);
    checkpoint_.entries.push_back({std::move(encoded.key), std::move(encoded.value)});
  }
  ShardState first;
  processor_.SaveState(first);
  MILLRACE_ASSIGN_OR_RETURN(std::vector<Checkpoint::Entry> state,
                            EncodeStateEntries(std::move(first), options_));
  std::ranges::move(state, std::back_inserter(checkpoint_.entries));
  return std::move(checkpoint_);
}

Status AddSealedState(const ServerOptions& of, const OrderedByteMap& store,
                      FirstCheckpoint& first) {
  ShardTask task(of, store);
  MILLRACE_RETURN_IF_ERROR(task.Load());
  if (!task.processor().seal().is_sealed()) {
    return absl::DataLossError(
        "the topic parameters of the job's earlier shards has no last "
        "checkpoint of shard " +
        std::to_string(uint32_t{of.shard}) +
        ", though it was written: restore the topic, or start a new job "
        "(another --job)");
  }
  ShardState all;
  task.processor().SaveState(all);
  ShardState state = SnapshotStateFrom(task.processor());
  // Numbers of snapshots go on from there.
  state.set_snapshot(all.snapshot());
  state.set_snapshot_cancelled(all.snapshot_cancelled());
  state.set_snapshot_request(all.snapshot_request());
  first.AddState(of.shard, std::move(state));
  return absl::OkStatus();
}

Status AddSealedValues(const ServerOptions& of, const OrderedByteMap& store,
                       FirstCheckpoint& first) {
  ShardTask task(of, store);
  MILLRACE_RETURN_IF_ERROR(task.Load());
  const ServerProcessor& processor = task.processor();
  ShardState state;
  processor.SaveState(state);
  const ParameterShard& shard = processor.shard();
  const size_t keys = shard.range().size();
  first.AddWeights(shard.range().begin, shard.weights());
  // (Either of the two may have embedding rows only, and no keys.)
  const size_t slots = keys == 0 ? 0 : std::min(first.slots(), shard.slots().size() / keys);
  for (size_t slot = 0; slot < slots; ++slot) {
    first.AddSlot(slot, shard.range().begin, shard.slots().subspan(slot * keys, keys));
  }
  if (processor.embeddings() == nullptr) return absl::OkStatus();
  // (As answers have them: of a message that made no step nothing has expired.)
  return VisitSnapshotRows(
      *processor.embeddings(), *of.embeddings, store, processor.oldest_step_ms(),
      [&](EmbeddingId id, const EmbeddingRowHead& head, std::span<const float> floats) {
        first.AddRow(of.shard, id, head, floats);
        return absl::OkStatus();
      });
}

}  // namespace millrace
