#include "tests/simulation/stored_snapshot.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/hash.h"

namespace millrace::simulation {
namespace {

// All keys of the job, of which each part has some.
std::vector<float> AllKeys(const std::map<ShardId, StoredSnapshot::Part>& parts, size_t slot,
                           bool of_weights) {
  std::vector<float> all;
  for (const auto& [shard, part] : parts) {
    const std::vector<float>& values = of_weights ? *part.cut.weights : *part.cut.slots;
    const auto keys = static_cast<ptrdiff_t>(part.cut.weights->size());
    const auto first = values.begin() + static_cast<ptrdiff_t>(slot) * keys;
    all.insert(all.end(), first, first + keys);
  }
  return all;
}

size_t SlotsPerKey(const std::map<ShardId, StoredSnapshot::Part>& parts) {
  for (const auto& [shard, part] : parts) {
    if (!part.cut.weights->empty()) return part.cut.slots->size() / part.cut.weights->size();
  }
  return 0;
}

// Those of the shard's keys.
void AppendOwn(const std::vector<float>& all, const Referee::Job& job, std::vector<float>& own) {
  const auto first = all.begin() + static_cast<ptrdiff_t>(job.begin);
  own.insert(own.end(), first, first + static_cast<ptrdiff_t>(job.keys));
}

// A parameter has values if all shards that had some of its keys say so, and as many updates as
// the one with the most.
std::vector<Referee::NamedState> NamedAtStart(const std::map<ShardId, StoredSnapshot::Part>& parts,
                                              const Referee::Job& job) {
  std::vector<Referee::NamedState> named(job.parameters.size());
  for (size_t number = 0; number < named.size(); ++number) {
    named[number].is_table = job.parameters[number].row_width > 0;
    for (const auto& [shard, part] : parts) {
      if (!named[number].is_table) break;
      named[number].updates = std::max(named[number].updates, (*part.cut.named)[number].updates);
    }
    if (job.parameters[number].keys == 0) continue;
    named[number].from = 0;
    for (const auto& [shard, part] : parts) {
      if (part.keys_of[number] == 0) continue;
      const Referee::NamedState& was = (*part.cut.named)[number];
      if (!was.from) named[number].from.reset();
      named[number].updates = std::max(named[number].updates, was.updates);
    }
    if (!named[number].from) named[number].updates = 0;
  }
  return named;
}

// The sums and counters of shard 0.
void GoOnCounting(const Referee::State& first, Referee::State& state) {
  state.progressive = first.progressive;
  state.tail = first.tail;
  state.window = first.window;
  state.window_end = first.window_end;
  state.window_open = first.window_open;
  state.watch = first.watch;
  state.rows_trained = first.rows_trained;
  state.accepted = first.accepted;
  state.duplicates = first.duplicates;
  state.poisoned = first.poisoned;
  state.refused = first.refused;
  state.undecodable_rows = first.undecodable_rows;
  state.time_jumps = first.time_jumps;
  state.parts_before_put = first.parts_before_put;
}

}  // namespace

uint64_t StoredSnapshot::rows_end(uint32_t worker) const {
  if (start == SnapshotStart::kNewStream) return 0;
  return parts.at(ShardId(0)).cut.members.at(worker).rows.end;
}

Referee::State StoredSnapshot::StartOf(const Referee::Job& job) const {
  const Referee::State& first = parts.at(ShardId(0)).cut;
  const bool is_new = start == SnapshotStart::kNewStream;
  Referee::State state;
  auto weights = std::make_shared<std::vector<float>>();
  auto slots = std::make_shared<std::vector<float>>();
  auto rows = std::make_shared<Referee::Rows>();
  AppendOwn(AllKeys(parts, 0, true), job, *weights);
  for (size_t slot = 0; slot < SlotsPerKey(parts); ++slot) {
    AppendOwn(AllKeys(parts, slot, false), job, *slots);
  }
  for (const auto& [shard, part] : parts) {
    for (const auto& [id, row] : *part.cut.rows) {
      if (Mix64(id) % job.shards == static_cast<uint64_t>(job.shard)) rows->emplace(id, row);
    }
    state.seen_ms = std::max(state.seen_ms, part.cut.seen_ms);
    state.step_ms = std::max(state.step_ms, part.cut.step_ms);
  }
  state.named = std::make_shared<std::vector<Referee::NamedState>>(NamedAtStart(parts, job));
  state.members.resize(job.workers);
  for (uint32_t worker = 0; worker < job.workers && !is_new; ++worker) {
    const Referee::Member& was = first.members[worker];
    Referee::Member& member = state.members[worker];
    member.clock = was.clock;
    member.left = was.left;
    member.rows = was.rows;
    member.rows_before = was.rows_before;
    member.buffer_rows = was.buffer_rows;
  }
  state.weights = std::move(weights);
  state.slots = std::move(slots);
  state.rows = std::move(rows);
  state.columns.resize(job.numeric + 2);
  state.progressive = std::make_shared<Referee::Sums>();
  state.tail = state.progressive;
  state.window = state.progressive;
  state.window_open = state.progressive;
  state.watch = std::make_shared<const Referee::Watch>();
  state.steps = first.steps;
  for (const auto& [shard, part] : parts) {  // they may have named other parameters
    if (!job.parameters.empty()) state.steps = std::max(state.steps, part.cut.steps);
  }
  if (job.shard == 0) state.periodic_at = state.steps;
  state.train_loss = first.train_loss;
  if (job.shard == 0) {
    state.columns = first.columns;
    state.range = first.range;
  }
  state.class_rows.resize(job.classes);
  if (job.shard == 0) state.class_rows = first.class_rows;
  if (job.shard == 0) state.drifts = first.drifts;
  state.forgotten = first.forgotten;
  if (job.shard == 0 && !is_new) GoOnCounting(first, state);
  if (start == SnapshotStart::kSameJob) {
    state.accepted = first.accepted;
    state.snapshot = first.snapshot;
    state.snapshot_cancelled = first.snapshot_cancelled;
    state.request = first.request;
  }
  state.old_weights = state.weights;
  state.old_columns = state.columns;
  state.old_range = state.range;
  state.old_class_rows = state.class_rows;
  state.old_drifts = state.drifts;
  state.old_rows = state.rows;
  state.old_step_ms = state.step_ms;
  return state;
}

}  // namespace millrace::simulation
