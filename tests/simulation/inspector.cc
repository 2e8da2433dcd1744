#include "tests/simulation/inspector.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "base/big_endian.h"
#include "base/hash.h"
#include "stores/memory_byte_map.h"
#include "tasks/checkpoint.h"
#include "tasks/checkpoint_assembler.h"
#include "topics/partitioning.h"

namespace millrace::simulation {
namespace {

// Pieces, each behind its length in 8 bytes, which are merged.
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

// The parameters of a network whose first key is `key`: each layer's weights are drawn by key and
// seed, then come its biases; in the end the output's weights.
std::vector<float> NetworkAtBirth(const Scenario& scenario, uint64_t key) {
  std::vector<float> network;
  if (scenario.training.model() != Training::DEEP_FM) return network;
  const Training::Embedding& embedding = scenario.training.embedding();
  const uint64_t start = Mix64(~embedding.seed());
  uint64_t inputs = scenario.ids * embedding.factors() + scenario.numeric;
  for (const uint32_t units : scenario.training.hidden()) {
    const auto limit = static_cast<float>(std::sqrt(6.0 / static_cast<double>(inputs)));
    for (uint64_t i = 0; i < inputs * units; ++i) {
      const auto draw = static_cast<double>(Mix64(start + key + network.size()) >> 40);
      network.push_back(limit * static_cast<float>(std::ldexp(draw, -23) - 1));
    }
    network.resize(network.size() + units);
    inputs = units;
  }
  network.resize(network.size() + inputs);
  return network;
}

// The shard's embedding rows: the linear weight is zero, the factors are drawn by id and seed.
std::map<uint64_t, std::vector<float>> RowsAtBirth(const Scenario& scenario, ShardId shard) {
  std::map<uint64_t, std::vector<float>> rows;
  const Training::Embedding& embedding = scenario.training.embedding();
  const auto limit = static_cast<float>(embedding.initial_limit());
  for (const EmbeddingId id : AllIds(scenario)) {
    if (Mix64(id) % scenario.shards != shard) continue;
    std::vector<float>& row = rows[id];
    row.push_back(0);
    const uint64_t start = Mix64(Mix64(embedding.seed()) ^ id);
    for (uint32_t factor = 1; factor <= embedding.factors(); ++factor) {
      const auto draw = static_cast<double>(Mix64(start + factor) >> 40);
      row.push_back(limit * static_cast<float>(std::ldexp(draw, -23) - 1));
    }
  }
  return rows;
}

Referee::Job JobOf(const Scenario& scenario, ShardId shard) {
  Referee::Job job;
  job.epoch = kEpoch;
  job.workers = scenario.workers;
  job.shards = scenario.shards;
  job.classes = static_cast<uint32_t>(scenario.classes);
  job.numeric = static_cast<uint32_t>(scenario.numeric);
  job.training = scenario.training;
  job.shard = static_cast<int32_t>(shard);
  job.alone = scenario.shards == 1;
  // Balanced and contiguous: whoever owns key k comes from k alone, by counting.
  // A factorization machine has one weight per feature.
  const uint64_t per_feature = scenario.ids > 0 ? 1 : scenario.classes;
  const uint64_t linear = (scenario.features() + 1) * per_feature;
  const std::vector<float> network = NetworkAtBirth(scenario, linear);
  const uint64_t keys = linear + network.size();
  const uint64_t penalised = scenario.features() * per_feature;
  for (ShardId s = 0; s < shard; ++s)
    job.begin += (keys + scenario.shards - 1 - uint64_t{s}) / scenario.shards;
  job.keys = (keys + scenario.shards - 1 - uint64_t{shard}) / scenario.shards;
  job.penalised_keys = std::min(job.keys, penalised - std::min(penalised, job.begin));
  job.linear_keys = std::min(job.keys, linear - std::min(linear, job.begin));
  job.born.resize(linear);
  job.born.insert(job.born.end(), network.begin(), network.end());
  job.born = {job.born.begin() + static_cast<ptrdiff_t>(job.begin),
              job.born.begin() + static_cast<ptrdiff_t>(job.begin + job.keys)};
  job.born_rows = RowsAtBirth(scenario, shard);
  if (scenario.ids > 0) job.row_width = 1 + scenario.training.embedding().factors();
  return job;
}

template <typename Floats>
bool SameBits(const std::vector<float>& expected, const Floats& is) {
  if (expected.size() != static_cast<size_t>(is.size())) return false;
  return expected.empty() ||
         std::memcmp(expected.data(), is.data(), expected.size() * sizeof(float)) == 0;
}

bool SameColumn(const Referee::Column& column, double count, double mean, double m2) {
  return column.count == count && Near(column.mean, mean, mean) &&
         Near(column.m2, m2, m2 + count * mean * mean);
}

bool SameSums(const Referee::Sums& expected, const EvaluationSums& is) {
  return expected.rows == is.rows && expected.log_loss == is.log_loss &&
         expected.cells == is.cells && expected.bins == is.score_bins;
}

bool SameSums(const Referee::Sums& expected, const EvaluationSumsMessage& is) {
  std::map<uint32_t, uint64_t> cells;
  std::map<uint32_t, uint64_t> bins;
  for (int i = 0; i < is.cell_size(); ++i) cells[is.cell(i)] += is.cell_count(i);
  for (int i = 0; i < is.score_bin_size(); ++i) bins[is.score_bin(i)] += is.score_count(i);
  return expected.rows == is.rows() && expected.log_loss == is.log_loss() &&
         expected.cells == cells && expected.bins == bins;
}

bool SameCounters(const Referee::State& state, const ShardState::Counters& counters) {
  return counters.gradients_accepted() == state.accepted &&
         counters.duplicates_ignored() == state.duplicates &&
         counters.non_finite_updates() == state.poisoned && counters.refused() == state.refused &&
         counters.undecodable_rows() == state.undecodable_rows &&
         counters.time_jumps() == state.time_jumps;
}

// The first part of the live state that is not the fold of the log; null: none.
const char* Difference(const Referee::State& state, const ServerProcessor& live, bool held_rounds) {
  if (live.state_lost() != state.lost) return "whether it is lost";
  for (WorkerId worker = 0; worker < state.members.size(); ++worker) {
    const Referee::Member& member = state.members[worker];
    if (live.clocks().clock(worker) != member.clock) return "a clock";
    if (live.clocks().left(worker) != member.left) return "who has left";
    if (live.buffer_rows(worker) != member.buffer_rows) return "a buffer's size";
  }
  const std::optional<uint64_t> open = live.open_snapshot();
  if (state.snapshot_open != open.has_value() || (open && *open != state.snapshot)) {
    return "the snapshot that is open";
  }
  if (!SameBits(*state.weights, live.shard().weights())) return "the weights";
  if (!SameBits(*state.slots, live.shard().slots())) return "the optimizer's state";
  if (live.steps() != state.steps) return "the steps";
  if (live.rows_trained() != state.rows_trained) return "the rows trained on";
  if (live.train_loss() != state.train_loss) return "the training loss";
  if (!SameSums(*state.progressive, live.progressive())) return "the progressive sums";
  if (!SameSums(*state.tail, live.tail())) return "the tail sums";
  if (!SameCounters(state, live.counters())) return "the counters";
  for (size_t i = 0; i < state.columns.size(); ++i) {
    const Moments& moments = live.moments();
    if (!SameColumn(state.columns[i], moments.count[i], moments.mean[i], moments.m2[i])) {
      return "the moments";
    }
  }
  if (state.lost) {
    std::vector<WorkerId> silent;
    for (WorkerId worker = 0; worker < state.members.size(); ++worker) {
      if (!state.reports->contains(worker)) silent.push_back(worker);
    }
    return live.WaitedFor() == silent ? nullptr : "who has reported";
  }
  if (!held_rounds) return nullptr;
  std::vector<WorkerId> missing;
  bool someone = false;
  for (WorkerId worker = 0; worker < state.members.size(); ++worker) {
    if (state.members[worker].left) continue;
    if (state.members[worker].held != nullptr) {
      someone = true;
    } else {
      missing.push_back(worker);
    }
  }
  if (!someone) missing.clear();
  return live.WaitedFor() == missing ? nullptr : "whom the round waits for";
}

}  // namespace

std::map<EmbeddingId, std::vector<float>> EmbeddingRowsOf(const Scenario& scenario,
                                                          const ShardTask& task) {
  std::map<EmbeddingId, std::vector<float>> rows;
  for (EmbeddingId id : AllIds(scenario)) {
    if (ShardOfEmbedding(id, scenario.shards) != task.shard()) continue;
    std::vector<float>& values = rows[id];
    values.resize(task.processor().embeddings()->width());
    const std::vector<EmbeddingId> ids = {id};
    if (!task.processor().ReadEmbeddings(ids, values).ok()) values.clear();
  }
  return rows;
}

Inspector::Inspector(World& world)
    : world_(world), rows_(world.scenario), snapshots_(world.scenario.shards) {
  for (ShardId shard = 0; shard < world.scenario.shards; ++shard) {
    shards_.push_back({Referee(JobOf(world.scenario, shard))});
    if (const auto& start = world.scenario.start) {
      Referee& referee = shards_.back().referee;
      referee.StartFrom(start->StartOf(referee.job()));
    }
  }
}

bool Inspector::AllLeft() const {
  return std::all_of(shards_.begin(), shards_.end(), [](const Shard& shard) {
    const std::vector<Referee::Member>& members = shard.referee.now().members;
    return std::all_of(members.begin(), members.end(),
                       [](const Referee::Member& member) { return member.left; });
  });
}

bool Inspector::AnyLost() const {
  return std::ranges::any_of(shards_, [](const Shard& shard) { return shard.referee.was_lost(); });
}

bool Inspector::AnyBeyondHelp() const {
  return std::ranges::any_of(shards_,
                             [](const Shard& shard) { return shard.referee.IsBeyondHelp(); });
}

void Inspector::OnAppended(Topic topic, int32_t partition, const LogRecord& record) {
  if (topic == Topic::kInputData) rows_.OnInput(static_cast<WorkerId>(partition), record);
  if (topic != Topic::kGradients) return;
  Shard& shard = shards_.at(static_cast<size_t>(partition));
  shard.referee.Append(record.key, record.value, record.timestamp_ms);
  CheckSkew();
  if (partition != 0) return;  // only shard 0 is told what tells rows apart
  for (; shard.audited < shard.referee.accepted().size(); ++shard.audited) {
    const Referee::Accepted& accepted = shard.referee.accepted()[shard.audited];
    // Where a lost shard begins to count anew, a worker in a buffer may have counted before.
    const bool counts = world_.scenario.one_pass() || !shard.referee.was_lost();
    const std::string wrong = counts ? rows_.Check(accepted) : "";
    if (!wrong.empty()) {
      Fail("the update of worker " + std::to_string(accepted.worker) + ", clock " +
           std::to_string(accepted.clock) + ": " + wrong);
    }
  }
}

// A worker goes on when all shards have its update, so none is two in front of another.
void Inspector::CheckSkew() {
  for (WorkerId worker = 0; worker < world_.scenario.workers; ++worker) {
    uint64_t slowest = UINT64_MAX;
    uint64_t fastest = 0;
    for (const Shard& shard : shards_) {
      if (shard.referee.was_lost()) continue;
      const uint64_t clock = shard.referee.now().members[worker].clock;
      slowest = std::min(slowest, clock);
      fastest = std::max(fastest, clock);
    }
    if (slowest == UINT64_MAX) return;
    if (fastest > slowest) world_.Count("shards at different clocks");
    if (fastest - slowest > 1) {
      Fail("worker " + std::to_string(worker) + " is at clock " + std::to_string(slowest) +
           " on one shard and at " + std::to_string(fastest) + " on another");
    }
  }
}

void Inspector::OnFolded(const ShardTask& task) {
  const Referee& referee = RefereeOf(task);
  if (task.position() > referee.end()) return Fail("a position behind the log's end");
  const bool at_cut = task.processor().at_cut();
  const Referee::State* const cut = at_cut ? referee.AtCut(task.position()) : nullptr;
  if (at_cut && cut == nullptr) return Fail("a cut that is not in the log");
  const Referee::State& state = at_cut ? *cut : referee.At(task.position());
  const char* difference = Difference(state, task.processor(), world_.scenario.sequential());
  if (difference != nullptr) {
    Fail(std::string("the live state is not the fold of the log: ") + difference +
         ", at position " + std::to_string(task.position()));
  }
}

void Inspector::OnAnswers(const ShardTask& task, std::span<const OutgoingRecord> answers) {
  const Referee::State& state = RefereeOf(task).At(task.position());
  const auto [answered, answered_with_old] = CheckAnswers(task, answers);
  const auto check = [&](const std::set<uint32_t>& expected, const std::set<WorkerId>& is) {
    for (const uint32_t worker : expected) {
      if (is.contains(WorkerId(worker))) continue;
      Fail("worker " + std::to_string(worker) + " is not answered after gradient " +
           std::to_string(task.position() - 1));
    }
  };
  check(state.answered, answered);
  check(state.answered_with_old, answered_with_old);
}

void Inspector::OnAnnouncement(const ShardTask& task, std::span<const OutgoingRecord> answers) {
  // That nobody is left out shows when a run hangs.
  CheckAnswers(task, answers);
}

Inspector::Answered Inspector::CheckAnswers(const ShardTask& task,
                                            std::span<const OutgoingRecord> answers) {
  Answered answered;
  std::vector<Referee::Unfinished> unfinished;
  for (const OutgoingRecord& answer : answers) {
    if (answer.topic != Topic::kWeights) {
      Fail("an answer to another topic");
      continue;
    }
    bool bad = false;
    const std::optional<std::string> body = Referee::Join(answer.value, unfinished, bad);
    Weights message;
    if (bad || (body && !message.ParseFromString(*body))) Fail("an answer without sense");
    if (!body) continue;
    const auto worker = static_cast<WorkerId>(answer.partition);
    (message.replaced() ? answered.second : answered.first).insert(worker);
    if (message.epoch() != kEpoch || message.shard() != task.shard()) {
      Fail("an answer of another job or shard");
    }
    if (message.replaced()) {
      CheckOldAnswer(task, worker, message);
    } else {
      CheckAnswer(task, worker, message);
    }
  }
  if (!unfinished.empty()) Fail("an answer without its last chunk");
  return answered;
}

void Inspector::CheckAnswer(const ShardTask& task, WorkerId worker, const Weights& message) {
  world_.Count("answer");
  const Referee& referee = RefereeOf(task);
  const Referee::State& state = referee.At(task.position());
  const Referee::Member& member = state.members.at(worker);
  const bool released = referee.IsReleased(state, worker);
  if (message.lost() != state.lost) Fail("an answer that says wrongly whether the shard is lost");
  if (state.lost) {
    world_.Count("answer of a lost shard");
    if (message.has_slice() || message.clock() != 0) Fail("an answer by a shard that has nothing");
    return;
  }
  if (message.clock() != member.clock || message.left() != member.left) {
    Fail("an answer of another clock than the worker's");
  }
  const std::optional<uint64_t> bound = referee.Bound();
  if (message.released() && !message.left() && bound && referee.Ahead(state, worker) > *bound) {
    Fail("a clock released beyond the bound");
  }
  if (message.released() != released) Fail("an answer held back or released wrongly");
  CheckMark(task, member, message);
  if (message.rows().end() != member.rows_end ||
      message.rows_before().end() != member.rows_end_before) {
    Fail("an answer with another number of rows");
  }
  if (message.rows().updates_without_rows() != member.without_rows ||
      message.rows_before().updates_without_rows() != member.without_rows_before) {
    Fail("an answer with another number of rounds without rows");
  }
  if (!released || member.left) return;
  if (!SameBits(*state.weights, message.slice().dense())) Fail("an answer with other weights");
  CheckRows(
      member.wanted, message.embeddings(), [&](uint64_t id) { return referee.RowOf(state, id); },
      "an answer with other embedding rows");
  if (task.shard() == 0) CheckColumns(state.columns, message.moments());
}

void Inspector::CheckOldAnswer(const ShardTask& task, WorkerId worker, const Weights& message) {
  world_.Count("answer of the clock before");
  const Referee::State& state = RefereeOf(task).At(task.position());
  const Referee::Member& member = state.members.at(worker);
  if (message.clock() + 1 != member.clock || message.left() || !message.released()) {
    Fail("an old answer that is not of the clock before");
  }
  CheckMark(task, member, message);
  if (message.rows().end() != member.rows_end_before ||
      message.rows().updates_without_rows() != member.without_rows_before) {
    Fail("an old answer with another number of rows");
  }
  if (!SameBits(*state.old_weights, message.slice().dense())) {
    Fail("an old answer with other weights");
  }
  CheckRows(
      state.old_wanted, message.embeddings(),
      [&](uint64_t id) { return RefereeOf(task).OldRowOf(state, id); },
      "an old answer with other embedding rows");
  if (task.shard() == 0) CheckColumns(state.old_columns, message.moments());
}

// By shard 0's answers workers hear of a snapshot, and by theirs the other shards.
void Inspector::CheckMark(const ShardTask& task, const Referee::Member& member,
                          const Weights& message) {
  const bool marked = task.shard() == 0 && member.cut;
  const uint64_t snapshot = RefereeOf(task).At(task.position()).snapshot;
  if (message.mark().snapshot() != (marked ? snapshot : 0) ||
      message.mark().cut() != (marked ? *member.cut : 0)) {
    Fail("an answer that says another cut");
  }
}

void Inspector::CheckRows(const std::vector<uint64_t>& wanted, const EmbeddingBlock& rows,
                          const std::function<std::vector<float>(uint64_t id)>& row_of,
                          const char* wrong) {
  if (!std::ranges::equal(wanted, rows.id())) return Fail(wrong);
  std::vector<float> expected;
  for (const uint64_t id : wanted) {
    const std::vector<float> row = row_of(id);
    expected.insert(expected.end(), row.begin(), row.end());
  }
  if (!SameBits(expected, rows.value())) Fail(wrong);
  if (!wanted.empty()) world_.Count("answer with embedding rows");
}

void Inspector::CheckRows(const Referee::State& state, const ShardTask& task) {
  for (const auto& [id, values] : EmbeddingRowsOf(world_.scenario, task)) {
    if (SameBits(RefereeOf(task).RowOf(state, id), values)) continue;
    Fail("the embedding rows are not the fold of the log, at position " +
         std::to_string(task.position()));
  }
}

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
    if (!SameBits(expected->second.values, row.values())) return "a row's values";
    if (!SameBits(expected->second.slots, row.slots())) return "a row's optimizer state";
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
  std::map<uint64_t, std::vector<float>> replaced;
  const EmbeddingBlock& block = saved.previous_round().embeddings();
  auto value = block.value().begin();
  for (const uint64_t id : block.id()) {
    for (uint32_t i = 0; i < referee.job().row_width; ++i) replaced[id].push_back(*value++);
  }
  for (const auto& [id, born] : referee.job().born_rows) {
    const auto found = replaced.find(id);
    const std::vector<float> is =
        found != replaced.end() ? found->second : referee.RowOf(state, id);
    if (!SameBits(referee.OldRowOf(state, id), is)) return "the rows of the clock before";
  }
  return nullptr;
}

void Inspector::CheckColumns(const std::vector<Referee::Column>& columns,
                             const MomentsMessage& moments) {
  for (size_t i = 0; i < columns.size(); ++i) {
    const auto at = static_cast<int>(i);
    if (moments.count_size() <= at ||
        !SameColumn(columns[i], moments.count(at), moments.mean(at), moments.m2(at))) {
      return Fail("an answer with other moments");
    }
  }
}

void Inspector::OnSentByWorker(WorkerId worker, std::span<const OutgoingRecord> records) {
  std::vector<Referee::Unfinished> unfinished;
  for (const OutgoingRecord& record : records) {
    if (record.topic != Topic::kGradients) continue;
    const Referee& referee = shards_.at(static_cast<size_t>(record.partition)).referee;
    if (referee.was_lost()) continue;  // zombies may know of clocks that nobody else does
    const std::optional<uint64_t> bound = referee.Bound();
    bool bad = false;
    const std::optional<std::string> body = Referee::Join(record.value, unfinished, bad);
    Gradient message;
    if (bad || (body && !message.ParseFromString(*body))) Fail("an update without sense");
    if (!body || !message.has_update()) continue;
    const Slice& slice = message.update().slice();
    if (slice.dense_size() == 0 && slice.sparse_index_size() > 0) {
      world_.Count("sparse update");
    }
    // What the worker trained on must have been released to it.
    uint64_t slowest = message.clock();
    for (const Referee::Member& member : referee.now().members) {
      if (!member.left) slowest = std::min(slowest, member.clock);
    }
    const bool left = referee.now().members[worker].left;
    if (bound && !left && message.clock() - slowest > *bound) {
      Fail("worker " + std::to_string(worker) + " trained beyond the bound");
    }
    if (message.clock() > referee.now().members[worker].clock) {
      Fail("worker " + std::to_string(worker) + " is ahead of the server");
    }
  }
}

void Inspector::OnCheckpointCommitted(ShardId shard) { CheckParameters(shard); }

void Inspector::OnCopiesLost(ShardId shard) {
  shards_.at(shard).newest.clear();
  shards_.at(shard).parameters_end = 0;
  shards_.at(shard).history = {};
}

// From here on it is the fold of its log again, in another way.
void Inspector::OnStateLost(const ShardTask& task) {
  const ShardId shard = task.shard();
  const auto partition = static_cast<int32_t>(shard);
  Shard& lost = shards_.at(shard);
  lost.referee.Lose(task.position(), lost.letters);
  lost.audited = std::min(lost.audited, lost.referee.accepted().size());
  for (const LogRecord* record :
       world_.log.Committed(Topic::kGradients, partition, task.position())) {
    OnAppended(Topic::kGradients, partition, *record);
  }
}

void Inspector::OnCopy(ShardId shard, const OrderedByteMap& copy) {
  const std::string wrong = shards_.at(shard).history.Check(copy);
  if (!wrong.empty()) Fail("a copy of shard " + std::to_string(shard) + ": " + wrong);
}

void Inspector::OnSnapshotPart(uint64_t id, const ShardTask& task, const OrderedByteMap& store) {
  const ShardId shard(task.shard());
  const Referee::State* const cut = referee(shard).AtCut(task.position());
  if (cut == nullptr || cut->snapshot != id) return Fail("a part of a snapshot that is not there");
  OnFolded(task);
  OnCopy(shard, store);
  if (ReadParametersOffset(store).value_or(Offset(0)) != shards_[shard].history.end()) {
    Fail("a part of a snapshot from a store that is behind");
  }
  SnapshotAudit::Part part;
  for (const Referee::Member& member : cut->members) {
    part.clocks.push_back(Clock(member.clock));
    part.left.push_back(member.left);
  }
  part.begin = referee(shard).job().begin;
  const std::span<const float> weights = task.processor().shard().weights();
  part.weights.assign(weights.begin(), weights.end());
  const bool faults = std::exchange(world_.faults, false);  // of the disk, while we look
  part.rows = EmbeddingRowsOf(world_.scenario, task);
  CheckRows(*cut, task);
  world_.faults = faults;
  world_.Count("part of a snapshot");
  const std::string wrong = snapshots_.Add(id, shard, std::move(part));
  if (!wrong.empty() && world_.forged) world_.Count("snapshot spoilt by a stranger");
  if (!wrong.empty() && !world_.forged) Fail(wrong);
  if (!wrong.empty()) return;
  stored_[id].parts[shard] = Stored(task, store, *cut);
  if (!snapshots_.whole(id)) return;
  world_.Count("whole snapshot");
  if (!snapshots_.left_alike(id)) world_.Count("snapshot in which shards differ in who has left");
}

StoredSnapshot::Part Inspector::Stored(const ShardTask& task, const OrderedByteMap& store,
                                       const Referee::State& cut) {
  StoredSnapshot::Part part;
  const ServerProcessor& processor = task.processor();
  const ParameterShard& shard = processor.shard();
  const size_t keys = shard.range().size();
  part.begin = shard.range().begin;
  part.weights.assign(shard.weights().begin(), shard.weights().end());
  for (size_t at = 0; at < shard.slots().size(); at += keys) {
    const std::span<const float> slot = shard.slots().subspan(at, keys);
    part.slots.emplace_back(slot.begin(), slot.end());
  }
  part.state = SnapshotStateFrom(processor);
  if (const EmbeddingTable* const table = processor.embeddings()) {
    const ServerOptions options = MakeServerOptions(world_.scenario, task.shard());
    const Status visited = VisitSnapshotRows(
        *table, *options.embeddings, store, processor.oldest_step_ms(),
        [&](EmbeddingId id, const EmbeddingRowHead& head, std::span<const float> floats) {
          part.rows.push_back({id, head, {floats.begin(), floats.end()}});
          return absl::OkStatus();
        });
    if (!visited.ok()) Fail("the rows of a snapshot: " + visited.ToString());
  }
  part.cut = cut;
  return part;
}

std::shared_ptr<StoredSnapshot> Inspector::NewestSnapshot() const {
  for (auto at = stored_.rbegin(); at != stored_.rend(); ++at) {
    if (snapshots_.whole(at->first)) return std::make_shared<StoredSnapshot>(at->second);
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
      if (block.replaced_size() > 0) old_weights[begin + i] = block.replaced(static_cast<int>(i));
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
    if (member.rows().end() != expected.rows_end ||
        member.rows_before().end() != expected.rows_end_before) {
      return fail("the rows counted");
    }
    if (member.rows().updates_without_rows() != expected.without_rows ||
        member.rows_before().updates_without_rows() != expected.without_rows_before) {
      return fail("rounds without rows");
    }
    if (member.buffer_rows() != expected.buffer_rows) return fail("a buffer's size");
    if (!std::ranges::equal(member.wanted(), expected.wanted)) return fail("the rows wanted");
    if (member.has_cut() != expected.cut.has_value() || member.cut() != expected.cut.value_or(0)) {
      return fail("a worker's cut");
    }
    if (member.has_pending() != (expected.held != nullptr)) return fail("who has answered");
    if (expected.held != nullptr &&
        member.pending().SerializeAsString() != expected.held->SerializeAsString()) {
      return fail("an update that is held");
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
  if (saved.snapshot() != state.snapshot || saved.snapshot_open() != state.snapshot_open) {
    return fail("the snapshot");
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
  if (saved.steps() != state.steps) return fail("the steps");
  if (saved.rows_trained() != state.rows_trained) return fail("the rows trained on");
  if (saved.train_loss() != state.train_loss) return fail("the training loss");
  if (!SameSums(*state.progressive, saved.progressive())) return fail("the progressive sums");
  if (!SameSums(*state.tail, saved.tail())) return fail("the tail sums");
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

void Inspector::CheckEnd(const ShardTask& task) {
  const Referee& referee = RefereeOf(task);
  if (task.position() != referee.end()) return Fail("the server has not read all");
  OnFolded(task);
  CheckRows(referee.now(), task);
  CheckParameters(task.shard());
  CheckDeadLetters(task.shard(), referee.dead_letters().size(), true);
  MemoryByteMap nothing;
  CheckRecovery(task, nothing);
}

void Inspector::CheckEnd() {
  // What was counted before is lost with shard 0.
  if (!referee(0).was_lost()) {
    if (const std::string wrong = rows_.CheckEnd(referee(0)); !wrong.empty()) Fail(wrong);
  }
  CheckSameRows();
}

// What a worker sent, every shard has; in one pass it is of the same rows on all of them.
void Inspector::CheckSameRows() {
  using Update = std::pair<uint32_t, uint64_t>;  // worker and clock
  std::vector<std::map<Update, const Referee::Accepted*>> updates(shards_.size());
  for (size_t shard = 0; shard < shards_.size(); ++shard) {
    for (const Referee::Accepted& accepted : shards_[shard].referee.accepted()) {
      updates[shard][{accepted.worker, accepted.clock}] = &accepted;
    }
  }
  // What a shard lost, it does not take again.
  if (AnyLost()) return;
  for (const auto& of_shard : updates) {
    for (const auto& [update, accepted] : of_shard) {
      if (accepted->poisoned) continue;  // by a stranger, maybe, who told one shard only
      for (const auto& of_other : updates) {
        const auto other = of_other.find(update);
        if (other == of_other.end()) return Fail("an update that not all shards have");
        const Gradient::Update& message = other->second->message;
        if (other->second->poisoned || !world_.scenario.one_pass()) continue;
        if (message.row_count() != accepted->message.row_count() ||
            message.rows_end() != accepted->message.rows_end()) {
          return Fail("an update of different rows on two shards");
        }
      }
    }
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
  std::vector<OutgoingRecord> out;
  for (Offset at = fresh.gradients_position();
       const LogRecord* record = world_.log.Next(Topic::kGradients, partition, at);) {
    at = record->offset + 1;
    const GradientRecord gradient = {record->offset, record->key, record->value,
                                     record->timestamp_ms};
    if (!fresh.ProcessGradient(gradient, out).ok()) {
      return Fail("recovery: a gradient");
    }
  }
  if (!out.empty()) Fail("recovery: answers while replaying");
  if (fresh.position() != task.position()) return Fail("recovery: another position");
  if (EmbeddingRowsOf(world_.scenario, fresh) != EmbeddingRowsOf(world_.scenario, task)) {
    return Fail("recovery: other embedding rows");
  }
  OnFolded(fresh);
}

}  // namespace millrace::simulation
