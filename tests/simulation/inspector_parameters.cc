// What a shard's checkpoints say, and what a server has that starts from them.
#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/big_endian.h"
#include "stores/memory_byte_map.h"
#include "tasks/checkpoint.h"
#include "tasks/checkpoint_assembler.h"
#include "tests/simulation/inspector.h"
#include "tests/simulation/inspector_compare.h"

namespace millrace::simulation {
namespace {

// Pieces, each after its length in 8 bytes, which are merged.
bool ParseState(const std::string& body, ShardState& state, size_t& pieces) {
  size_t at = 0;
  while (at < body.size()) {
    if (body.size() - at < 8) return false;
    uint64_t length = 0;
    for (int i = 0; i < 8; ++i) length = length * 256 + static_cast<unsigned char>(body[at++]);
    if (length > body.size() - at || !state.MergeFromString(body.substr(at, length))) return false;
    at += length;
    ++pieces;
  }
  return at > 0;
}

}  // namespace

const char* Inspector::RowsDifference(const Referee& referee, const Referee::State& state,
                                      const std::map<std::string, std::string>& newest,
                                      const ShardState& saved) const {
  std::set<uint64_t> there;
  for (const auto& [key, value] : newest) {
    if (!key.starts_with("e") || key.size() != 13) continue;
    EmbeddingRow row;
    uint64_t id = 0;
    for (const char byte : key.substr(5)) id = id * 256 + static_cast<unsigned char>(byte);
    there.insert(id);
    const auto expected = state.rows->find(id);
    if (expected == state.rows->end() || !row.ParseFromString(value.substr(2))) return "a row";
    if (row.updates() != expected->second.updates) return "how often a row was named";
    if (row.updated_ms() != expected->second.last_ms) return "when a row was named";
    if (!referee.SameRow(expected->second.stored, {row.values().begin(), row.values().end()})) {
      return "a row's values";
    }
    if (!referee.SameRow(expected->second.slots, {row.slots().begin(), row.slots().end()})) {
      return "a row's optimizer state";
    }
    if (row.shrinkage() > saved.shrinkage()) return "what a row has missed";
  }
  // What has expired may have been removed, unless the answers of the clock before may ask for it.
  const bool two_clocks = world_.scenario.sequential() && world_.scenario.shards > 1;
  const int64_t oldest_ms = two_clocks ? state.old_step_ms : state.step_ms;
  for (const auto& [id, row] : *state.rows) {
    if (!there.contains(id) && !referee.IsOver(row, oldest_ms)) return "the rows";
  }
  if (referee.job().row_width == 0) return nullptr;
  if (saved.seen_ms() != state.seen_ms || saved.step_ms() != state.step_ms) return "the time";
  if (!world_.scenario.sequential() || world_.scenario.shards == 1) return nullptr;
  if (saved.previous_round().step_ms() != state.old_step_ms) return "the time of the clock before";
  std::map<uint64_t, std::vector<float>> previous_round;
  const EmbeddingBlock& block = saved.previous_round().embeddings();
  auto value = block.value().begin();
  for (const uint64_t id : block.id()) {
    for (uint32_t i = 0; i < referee.job().row_width; ++i) previous_round[id].push_back(*value++);
  }
  for (const auto& [id, born] : referee.job().born_rows) {
    const auto found = previous_round.find(id);
    // What the round did not name it shrank, or forgot; no record says that, but answers show it.
    const bool forgets = referee.job().training.on_drift() == Training::FORGET;
    if (found == previous_round.end() && (referee.ShrinksRows() || forgets)) continue;
    const std::vector<float> is =
        found != previous_round.end() ? found->second : referee.RowOf(state, id);
    if (!referee.SameRow(referee.OldRowOf(state, id), is)) return "the rows of the clock before";
  }
  return nullptr;
}

void Inspector::CheckParameters(ShardId shard) {
  const Referee& referee = shards_.at(shard).referee;
  std::map<std::string, std::string>& newest = shards_.at(shard).newest;
  Offset& read = shards_.at(shard).parameters_end;
  for (const LogRecord* record :
       world_.log.Committed(Topic::kParameters, static_cast<int32_t>(shard), read)) {
    newest[record->key] = record->value;
    if (record->value.empty()) newest.erase(record->key);
    shards_.at(shard).history.Put(record->key, record->value);
    read = record->offset + 1;
  }
  shards_.at(shard).history.Committed(read);
  std::optional<std::string> body;
  std::vector<Referee::Unfinished> unfinished;
  for (const auto& [key, value] : newest) {
    bool bad = false;
    if (!key.starts_with("state") || body) continue;
    body = Referee::Join(value, unfinished, bad);
  }
  ShardState saved;
  size_t pieces = 0;
  if (!body || !ParseState(*body, saved, pieces)) return Fail("parameters: no whole marker");
  if (pieces > 1) world_.Count("state in several pieces");
  if (saved.position() > referee.end()) return Fail("parameters: a marker beyond the log");
  const Referee::State* const cut = saved.at_cut() ? referee.AtCut(saved.position()) : nullptr;
  if (saved.at_cut() && cut == nullptr) return Fail("parameters: a cut that is not in the log");
  const Referee::State& state = saved.at_cut() ? *cut : referee.At(saved.position());
  const uint64_t first_key = referee.job().begin;

  const auto fail = [&](const char* what) {
    Fail(std::string("parameters is not the fold of the log: ") + what + ", at position " +
         std::to_string(saved.position()));
  };
  std::vector<float> weights = referee.job().born;  // where no block has been saved
  std::vector<float> slots(state.slots->size());
  std::vector<float> old_weights = weights;
  const size_t slots_per_key = weights.empty() ? 0 : slots.size() / weights.size();
  for (const auto& [key, value] : newest) {
    if (!key.starts_with("p") || key.size() != 9) continue;
    ParameterBlock block;
    if (!block.ParseFromString(value.substr(2))) return fail("a block that cannot be decoded");
    const auto count = static_cast<size_t>(block.weights_size());
    const uint64_t begin = block.begin() - first_key;
    if (block.begin() < first_key || begin + count > weights.size() ||
        static_cast<size_t>(block.slots_size()) != count * slots_per_key) {
      return fail("a block of another shape");
    }
    for (size_t i = 0; i < count; ++i) {
      weights[begin + i] = block.weights(static_cast<int>(i));
      if (block.previous_round_size() > 0)
        old_weights[begin + i] = block.previous_round(static_cast<int>(i));
      for (size_t slot = 0; slot < slots_per_key; ++slot) {
        slots[slot * weights.size() + begin + i] = block.slots(static_cast<int>(slot * count + i));
      }
    }
  }
  if (!SameBits(*state.weights, weights)) return fail("the weights");
  if (!SameBits(*state.slots, slots)) return fail("the optimizer's state");
  if (world_.scenario.sequential() && world_.scenario.shards > 1 &&
      !SameBits(*state.old_weights, old_weights)) {
    return fail("the weights of the clock before");
  }
  if (const char* wrong = RowsDifference(referee, state, newest, saved)) return fail(wrong);
  if (static_cast<size_t>(saved.members_size()) != state.members.size()) return fail("members");
  for (const ShardState::Member& member : saved.members()) {
    const Referee::Member& expected = state.members.at(member.worker());
    if (member.clock() != expected.clock || member.left() != expected.left) return fail("a clock");
    if (!SameRows(member, expected)) return fail("the rows counted");
    if (member.joined() != expected.joined) return fail("who has joined");
    if (member.buffer_rows() != expected.buffer_rows) return fail("a buffer's size");
    const auto same_ids = [](const ShardState::Wanted& is, const std::vector<uint64_t>& ids) {
      return std::ranges::equal(is.id(), ids);
    };
    if (!std::ranges::equal(member.wanted(), expected.wanted, same_ids)) {
      return fail("the rows wanted");
    }
    if (member.has_cut() != expected.cut.has_value() || member.cut() != expected.cut.value_or(0)) {
      return fail("a worker's cut");
    }
    const auto same_bytes = [](const Gradient::Update& is, const auto& held) {
      return is.SerializeAsString() == held->SerializeAsString();
    };
    if (!std::ranges::equal(member.pending(), expected.held, same_bytes)) {
      return fail("the updates that are held");
    }
    size_t partial = 0;
    for (const ShardState::PartialMessage& chunks : saved.partial()) {
      if (chunks.worker() != member.worker()) continue;
      if (partial == expected.unfinished.size()) return fail("unfinished chunks");
      const Referee::Unfinished& is = expected.unfinished[partial++];
      if (chunks.message_id() != is.id || chunks.count() != is.count ||
          std::vector<std::string>(chunks.chunk().begin(), chunks.chunk().end()) != is.chunks) {
        return fail("unfinished chunks");
      }
    }
    if (partial != expected.unfinished.size()) return fail("unfinished chunks");
  }
  if (saved.snapshot() != state.snapshot ||
      saved.snapshot_cancelled() != state.snapshot_cancelled ||
      saved.snapshot_open() != state.snapshot_open || saved.snapshot_steps() != state.periodic_at) {
    return fail("the snapshot");
  }
  if (saved.resize() != state.resize || (state.resize > 0 && saved.workers() != state.size) ||
      saved.resize_ordered() != state.ordered || saved.moments().resize() != state.told) {
    return fail("the change of the workers");
  }
  if (saved.lost() != state.lost) return fail("whether it is lost");
  if (state.lost) {
    if (static_cast<size_t>(saved.restoring_size()) != state.reports->size()) {
      return fail("who has reported");
    }
    for (const Gradient& report : saved.restoring()) {
      const auto right = state.reports->find(report.worker());
      if (right == state.reports->end() ||
          right->second.SerializeAsString() != report.SerializeAsString()) {
        return fail("a worker's report");
      }
    }
  }
  if (!SameParameters(state, saved)) return fail("the named parameters");
  if (saved.steps() != state.steps) return fail("the steps");
  if (saved.rows_trained() != state.rows_trained) return fail("the rows trained on");
  if (saved.train_loss() != state.train_loss) return fail("the training loss");
  if (!SameSums(*state.progressive, saved.progressive())) return fail("the progressive sums");
  if (!SameSums(*state.tail, saved.tail())) return fail("the tail sums");
  if (!SameSums(*state.window, saved.window())) return fail("the last window's sums");
  if (saved.window_end() != state.window_end) return fail("the last window's end");
  if (!SameSums(*state.window_open, saved.window_open())) return fail("the open window's sums");
  if (state.watch->drifts > 0) world_.Count("checkpoint after a drift");
  if (!SameWatch(referee, *state.watch, saved.drift())) return fail("the watch for drift");
  if (state.drifts != saved.moments().drifts()) return fail("the drifts that workers are told of");
  if (state.forgotten != saved.forgotten()) return fail("the drifts that the shard has acted upon");
  if (state.forgotten > 0) world_.Count("checkpoint after forgetting");
  if (!SameMoments(state.columns, saved.moments())) return fail("the moments");
  if (!SameRange(state.range, saved.moments())) return fail("the range of the targets");
  if (!SameClassRows(state.class_rows, saved.moments().class_rows())) {
    return fail("the rows of a class");
  }
  if (!SameCounters(state, saved.counters())) return fail("the counters");
  CheckDeadLetters(shard, state.dead_letters, true);
}

// The dead letters of all a shard's committed transactions are those of the fold up to the marker.
void Inspector::CheckDeadLetters(ShardId shard, size_t count, bool exactly) {
  const std::vector<Referee::Letter>& right = shards_.at(shard).referee.dead_letters();
  size_t& seen = shards_.at(shard).letters;
  Offset& read = shards_.at(shard).letters_end;
  for (const LogRecord* record : world_.log.Committed(Topic::kDeadLetter, 0, read)) {
    DeadLetter letter;
    if (record->value.size() < 2 || !letter.ParseFromString(record->value.substr(2))) {
      return Fail("a dead letter that cannot be decoded");
    }
    if (letter.topic() == "weights") continue;  // not counted: a worker sends them by itself
    if (letter.reason().empty()) return Fail("a dead letter without a reason");
    if (record->key != EncodeBigEndian32(shard)) continue;
    read = record->offset + 1;
    if (seen == right.size()) return Fail("a dead letter too many");
    const Referee::Letter expected = right[seen++];
    if (!(expected == Referee::Letter{letter.topic(), letter.partition(), letter.offset()})) {
      return Fail("dead letter " + std::to_string(seen) + " is of " + letter.topic() + ", offset " +
                  std::to_string(letter.offset()) + " where " + expected.topic + ", offset " +
                  std::to_string(expected.offset) + " is right");
    }
  }
  if (exactly ? seen != count : seen > count) {
    Fail(std::to_string(seen) + " dead letters where " + std::to_string(count) + " are right");
  }
}

void Inspector::CheckRecovery(const ShardTask& task, MemoryByteMap& copy) {
  const auto partition = static_cast<int32_t>(task.shard());
  CheckpointAssembler parameters;
  const StatusOr<Offset> from = ReadParametersOffset(copy);
  if (!from.ok()) return Fail("recovery: the offset");
  for (Offset at = std::max(*from, world_.log.Begin(Topic::kParameters, partition));
       const LogRecord* record = world_.log.Next(Topic::kParameters, partition, at);) {
    at = record->offset + 1;
    const auto part = parameters.Add(record->offset, record->key, record->value);
    if (!part.ok()) return Fail("recovery: a record");
    if (*part && !copy.Write(BatchOf((*part)->entries, (*part)->end)).ok()) {
      return Fail("recovery: the disk");
    }
  }
  ShardTask fresh(MakeServerOptions(world_.scenario, task.shard()), copy);
  if (parameters.unfinished() || !fresh.Load().ok()) return Fail("recovery: the marker");
  if (!fresh
           .StartReplay(world_.log.Begin(Topic::kGradients, partition),
                        world_.log.End(Topic::kGradients, partition))
           .ok()) {
    return Fail("recovery: the position");
  }
  for (Offset at = fresh.gradients_position();
       const LogRecord* record = world_.log.Next(Topic::kGradients, partition, at);) {
    at = record->offset + 1;
    const GradientRecord gradient = {record->offset, record->key, record->value,
                                     record->timestamp_ms};
    if (!fresh.Fold(gradient).ok()) return Fail("recovery: a gradient");
  }
  if (fresh.owes_answers()) Fail("recovery: answers while replaying");
  if (fresh.position() != task.position()) return Fail("recovery: another position");
  if (EmbeddingRowsOf(world_.scenario, fresh) != EmbeddingRowsOf(world_.scenario, task)) {
    return Fail("recovery: other embedding rows");
  }
  OnFolded(fresh);
}

}  // namespace millrace::simulation
