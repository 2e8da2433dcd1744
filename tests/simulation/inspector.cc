#include "tests/simulation/inspector.h"

#include <algorithm>
#include <set>

#include "base/hash.h"
#include "stores/memory_byte_map.h"
#include "tasks/checkpoint.h"
#include "tests/simulation/inspector_compare.h"
#include "tests/simulation/referee_job.h"
#include "tests/simulation/trainers.h"
#include "topics/figures_codec.h"
#include "topics/partitioning.h"

namespace millrace::simulation {
namespace {

bool SameParameters(const Referee::State& state, const ServerProcessor& live) {
  if (state.named->empty()) return true;
  ShardState saved;
  live.SaveState(saved);
  return SameParameters(state, saved);
}

// The first part of the live state that is not the fold of the log; null: none.
const char* Difference(const Referee::State& state, const ServerProcessor& live, bool held_rounds) {
  if (live.state_lost() != state.lost) return "whether it is lost";
  for (WorkerId worker = 0; worker < state.members.size(); ++worker) {
    const Referee::Member& member = state.members[worker];
    if (live.clocks().clock(worker) != member.clock) return "a clock";
    if (live.clocks().left(worker) != member.left) return "who has left";
    if (live.joined(worker) != member.joined) return "who has joined";
    if (live.buffer_rows(worker) != member.buffer_rows) return "a buffer's size";
  }
  std::optional<uint64_t> open = live.open_snapshot();
  if (open && *open > live.newest_snapshot()) open.reset();  // it waits, which is none of the state
  if (state.snapshot_open != open.has_value() || (open && *open != state.snapshot)) {
    return "the snapshot that is open";
  }
  if (live.seal().next_shards() != state.next_shards) return "to how many shards the job goes over";
  if (live.seal().is_sealed() != state.sealed) return "whether it is sealed";
  if (!SameBits(*state.weights, live.shard().weights())) return "the weights";
  if (!SameBits(*state.slots, live.shard().slots())) return "the optimizer's state";
  if (!SameParameters(state, live)) return "the named parameters";
  if (live.steps() != state.steps) return "the steps";
  if (live.rows_trained() != state.rows_trained) return "the rows trained on";
  if (live.train_loss() != state.train_loss) return "the training loss";
  if (!SameSums(*state.progressive, live.progressive())) return "the progressive sums";
  if (!SameSums(*state.tail, live.tail())) return "the tail sums";
  if (!SameSums(*state.window, live.window().last())) return "the last window's sums";
  if (state.window_end != live.window().last_end()) return "the last window's end";
  if (!SameSums(*state.window_open, live.window().open())) return "the open window's sums";
  if (!SameCounters(state, live.counters())) return "the counters";
  MomentsMessage moments;
  ToProto(live.moments(), moments);
  if (!SameMoments(state.columns, moments)) return "the moments";
  if (!SameRange(state.range, moments)) return "the range of the targets";
  const DriftDetector::Drift& drift = live.drift().last();
  if (drift.count != state.watch->drifts || drift.row != state.watch->row) return "the drifts";
  if (live.resize() != state.resize) return "the change of the workers";
  if (live.moments().resize != state.told || live.moments().workers != state.told_size) {
    return "the change that workers are told of";
  }
  if (state.drifts != live.moments().drifts) return "the drifts that workers are told of";
  if (!SameClassRows(state.class_rows, live.moments().class_rows)) return "the rows of a class";
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
    if (!state.members[worker].held.empty()) {
      someone = true;
    } else {
      missing.push_back(worker);
    }
  }
  if (!someone) missing.clear();
  return live.WaitedFor() == missing ? nullptr : "whom the round waits for";
}

// Empty, or what in shard 0's part of a trainer's step is not what its program says.
std::string CheckStep(const Scenario& scenario, const Referee::Accepted& accepted) {
  if (accepted.poisoned) return "";
  const Gradient::Update& update = accepted.message;
  // Somebody else's, who puts nothing into it.
  const int named = update.put_size() + update.part_size() + update.table_size();
  if (named == 0 && update.attempt() == 0) return "";
  const WorkerId worker(accepted.worker);
  const Clock clock(accepted.clock);
  const std::vector<float> nothing(KeysOf(scenario).back().end);
  const TrainerStep step = StepOf(scenario, worker, clock, nothing, {}, [&](EmbeddingId row) {
    return std::vector<float>(WidthOf(scenario, row));
  });
  if (update.weight_sum() != step.weight) return "another weight than its step has";
  if (update.row_count() != step.rows || update.new_rows() != step.rows) return "other rows";
  for (const ParameterPart& put : update.put()) {
    const auto right = step.put.find(put.parameter());
    if (right == step.put.end()) return "a put that its step does not have";
    for (int i = 0; i < put.value_size(); ++i) {  // shard 0 has the first keys
      if (put.value(i) != right->second[static_cast<size_t>(i)]) return "other values put";
    }
  }
  for (const ParameterPart& part : update.part()) {
    if (!step.part.contains(part.parameter())) return "a part that its step does not have";
  }
  std::set<uint32_t> tables;
  for (const EmbeddingId row : step.table_rows.ids) tables.insert(TableParameterOf(scenario, row));
  if (!std::ranges::equal(tables, update.table())) return "other tables than its step names";
  std::vector<EmbeddingId> rows;
  std::vector<EmbeddingId> wanted;
  for (const EmbeddingId row : step.table_rows.ids) {
    if (Mix64(row) % scenario.shards == 0) rows.push_back(row);
  }
  for (const EmbeddingId row : step.wanted) {
    if (Mix64(row) % scenario.shards == 0) wanted.push_back(row);
  }
  if (!std::ranges::equal(rows, update.embeddings().id())) return "other rows than its step has";
  if (!std::ranges::equal(wanted, update.wanted())) return "it wants other rows";
  return "";
}

// By worker, of a job whose workers change; else none.
std::vector<RowNumber> LeasedRowsOf(const World& world) {
  std::vector<RowNumber> rows;
  if (!world.scenario.resizes()) return rows;
  for (const std::vector<WorkerLeases>& plan : world.plan) {
    rows.push_back(RowNumber(plan.empty() ? 0 : plan.back().next_row()));
  }
  return rows;
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

bool Inspector::AllLeftIn(const Referee& referee) {
  return std::ranges::all_of(referee.now().members, &Referee::Member::left);
}

bool Inspector::AllLeft() const {
  return std::ranges::all_of(shards_, [](const Shard& shard) { return AllLeftIn(shard.referee); });
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
  const size_t taken = shard.referee.accepted().size();
  shard.referee.Append(record.key, record.value, record.timestamp_ms);
  // Its server has told everybody so. (Who comes to work that is done leaves as it is.)
  if (world_.scenario.resizes() && shard.has_ended && shard.referee.accepted().size() > taken) {
    Fail("a shard that has ended goes on");
  }
  shard.has_ended |= AllLeftIn(shard.referee);
  CheckSkew();
  if (partition != 0) return;  // only shard 0 is told what tells rows apart
  for (; shard.audited < shard.referee.accepted().size(); ++shard.audited) {
    const Referee::Accepted& accepted = shard.referee.accepted()[shard.audited];
    // Where a lost shard begins to count anew, a worker in a buffer may have counted before.
    const bool counts = world_.scenario.one_pass() || !shard.referee.was_lost();
    if (accepted.message.progressive().unpredicted() > 0) world_.Count("row without a prediction");
    const std::string wrong = !counts                      ? ""
                              : world_.scenario.external() ? CheckStep(world_.scenario, accepted)
                                                           : rows_.Check(accepted);
    if (!wrong.empty()) {
      Fail("the update of worker " + std::to_string(accepted.worker) + ", clock " +
           std::to_string(accepted.clock) + ": " + wrong);
    }
  }
}

// A worker has no more updates in flight, so no shard is further ahead of another.
void Inspector::CheckSkew() {
  for (WorkerId worker = 0; worker < world_.scenario.workers; ++worker) {
    uint64_t slowest = UINT64_MAX;
    uint64_t fastest = 0;
    uint64_t joined = 0;
    for (const Shard& shard : shards_) {
      joined = std::max(joined, shard.referee.now().members[worker].joined);
    }
    for (const Shard& shard : shards_) {
      if (shard.referee.was_lost()) continue;
      if (shard.referee.now().members[worker].joined < joined) continue;  // it has not heard of it
      const uint64_t clock = shard.referee.now().members[worker].clock;
      slowest = std::min(slowest, clock);
      fastest = std::max(fastest, clock);
    }
    if (slowest == UINT64_MAX) return;
    if (fastest > slowest) world_.Count("shards at different clocks");
    if (fastest > slowest + 1) world_.Count("shards at clocks further apart");
    if (fastest - slowest > shards_.front().referee.Pipeline()) {
      Fail("worker " + std::to_string(worker) + " is at clock " + std::to_string(slowest) +
           " on one shard and at " + std::to_string(fastest) + " on another");
    }
  }
}

void Inspector::OnFolded(const ShardTask& task) {
  const Referee& referee = RefereeOf(task);
  if (task.position() > referee.end()) return Fail("a position after the log's end");
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

void Inspector::OnAnswers(const ShardTask& task, std::span<const Offset> due,
                          std::span<const OutgoingRecord> answers) {
  if (due.size() > 1) world_.Count("answers to several updates at once");
  std::set<uint32_t> expected;
  std::set<uint32_t> expected_with_old;
  std::map<uint32_t, uint64_t> replies;
  for (const Offset position : due) {
    const Referee::State& state = RefereeOf(task).At(position);
    expected.insert(state.answered.begin(), state.answered.end());
    expected_with_old.insert(state.answered_with_old.begin(), state.answered_with_old.end());
    for (const auto& [worker, number] : state.replies) replies[worker] = number;
  }
  const auto [answered, answered_with_old] = CheckAnswers(task, answers, replies);
  const auto check = [&](const std::set<uint32_t>& ought, const std::set<WorkerId>& is) {
    for (const uint32_t worker : ought) {
      if (is.contains(WorkerId(worker))) continue;
      Fail("worker " + std::to_string(worker) + " is not answered after gradient " +
           std::to_string(task.position() - 1));
    }
  };
  check(expected, answered);
  check(expected_with_old, answered_with_old);
}

void Inspector::OnAnnouncement(const ShardTask& task, std::span<const OutgoingRecord> answers) {
  // That nobody is left out shows when a run hangs.
  CheckAnswers(task, answers, {});
}

void Inspector::CheckRows(const Referee::State& state, const ShardTask& task) {
  for (const auto& [id, values] : EmbeddingRowsOf(world_.scenario, task)) {
    if (RefereeOf(task).SameRow(RefereeOf(task).RowOf(state, id), values)) continue;
    Fail("the embedding rows are not the fold of the log, at position " +
         std::to_string(task.position()));
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
    if (world_.scenario.online() && message.update().row_count() > 0) {
      const bool has_rows = message.update().embeddings().id_size() > 0;
      world_.Count(has_rows ? "change by an online learner, with embedding rows"
                            : "change by an online learner");
      if (message.update().repeated_end() > 0) world_.Count("rows of a buffer learnt from again");
    }
    // What the worker trained on must have been released to it. (Another shard than 0 may hear of a
    // worker that has joined when others go on already by what it has said before.)
    uint64_t slowest = message.clock();
    for (const Referee::Member& member : referee.now().members) {
      const bool is_new = record.partition > 0 && member.joined > 0 &&
                          member.clock < member.joined + referee.Pipeline();
      if (!member.left && !is_new) slowest = std::min(slowest, member.clock);
    }
    const bool left = referee.now().members[worker].left;
    if (bound && !left && message.clock() - slowest > *bound) {
      Fail("worker " + std::to_string(worker) + " trained beyond the bound");
    }
    const uint64_t clock = referee.now().members[worker].clock;
    if (message.clock() > clock) world_.Count("update ahead of another in flight");
    if (message.clock() >= clock + referee.Pipeline()) {
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

void Inspector::OnImage(ShardId shard, const ShardImage::View& view) {
  const Referee& judge = referee(shard);
  if (view.position > judge.end()) return Fail("a follower shows a position after the log's end");
  const Referee::State* const cut = view.at_cut ? judge.AtCut(view.position) : nullptr;
  if (view.at_cut && cut == nullptr) return Fail("a follower shows a cut that is not in the log");
  const Referee::State& state = view.at_cut ? *cut : judge.At(view.position);
  std::vector<float> rows;
  bool all_left = true;
  for (const Referee::Member& member : state.members) all_left = all_left && member.left;
  for (const EmbeddingId id : AllIds(world_.scenario)) {
    if (ShardOfEmbedding(id, world_.scenario.shards) != shard) continue;
    const std::vector<float> row = judge.RowOf(state, id);
    rows.insert(rows.end(), row.begin(), row.end());
  }
  if (SameBits(*state.weights, view.weights) && judge.SameRow(rows, view.rows) &&
      all_left == view.has_ended) {
    return;
  }
  Fail("a follower of shard " + std::to_string(shard) +
       " shows something else than the fold of the log, at position " +
       std::to_string(view.position));
}

void Inspector::OnSnapshotPart(uint64_t id, const ShardTask& task, const OrderedByteMap& store,
                               bool is_newest) {
  const ShardId shard(task.shard());
  const Referee::State* const cut = referee(shard).AtCut(task.position());
  if (cut == nullptr || cut->snapshot != id) return Fail("a part of a snapshot that is not there");
  OnFolded(task);
  OnCopy(shard, store);
  // (Whoever has taken the shard over may have checkpointed further.)
  if (is_newest &&
      ReadParametersOffset(store).value_or(Offset(0)) != shards_[shard].history.end()) {
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
  if (!wrong.empty() && snapshots_.is_of_other_clocks() && world_.MayBeCutHere(id)) {
    return world_.Count("snapshot whose shards are told to cut at different clocks");
  }
  if (!wrong.empty() && world_.forged) world_.Count("snapshot spoilt by a stranger");
  if (!wrong.empty() && !world_.forged) Fail(wrong);
  if (!wrong.empty()) return;
  stored_[id].parts[shard] = Stored(task, store, *cut);
  if (!snapshots_.whole(id)) return;
  world_.Count("whole snapshot");
  if (world_.MayBeCutHere(id)) world_.Count("whole snapshot of shards cut where they are");
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
  part.of = MakeServerOptions(world_.scenario, task.shard());
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
  for (const Referee::NamedJob& parameter : RefereeOf(task).job().parameters) {
    part.keys_of.push_back(parameter.keys);
  }
  return part;
}

std::shared_ptr<StoredSnapshot> Inspector::NewestSnapshot() const {
  for (auto at = stored_.rbegin(); at != stored_.rend(); ++at) {
    if (!snapshots_.whole(at->first)) continue;
    auto snapshot = std::make_shared<StoredSnapshot>(at->second);
    snapshot->is_forged = world_.forged;
    return snapshot;
  }
  return nullptr;
}

bool Inspector::AllSealed() const {
  return std::ranges::all_of(shards_,
                             [](const Shard& shard) { return shard.referee.now().sealed; });
}

void Inspector::OnSealed(const ShardTask& task, std::unique_ptr<MemoryByteMap> store) {
  OnFolded(task);
  const Referee::State& state = RefereeOf(task).now();
  const Referee::State& first = referee(ShardId(0)).now();
  for (uint32_t worker = 0; worker < state.members.size(); ++worker) {
    const Referee::Member& member = state.members[worker];
    const Referee::Member& of_first = first.members[worker];
    if (member.clock != of_first.clock || member.left != of_first.left) {
      if (!world_.forged) Fail("shards that are sealed at different clocks");
      return;
    }
  }
  StoredSnapshot::Part part = Stored(task, *store, state);
  part.store = std::move(store);
  part.state.set_snapshot(state.snapshot);
  part.state.set_snapshot_cancelled(state.snapshot_cancelled);
  part.state.set_snapshot_request(state.request);
  sealed_.parts[task.shard()] = std::move(part);
}

std::shared_ptr<StoredSnapshot> Inspector::Sealed() const {
  if (sealed_.parts.size() < shards_.size()) return nullptr;
  auto sealed = std::make_shared<StoredSnapshot>(sealed_);
  sealed->start = SnapshotStart::kSameJob;
  sealed->is_forged = world_.forged;
  return sealed;
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
  if (world_.scenario.external()) {
    CheckLastSteps();
  } else if (!referee(0).was_lost()) {
    if (const std::string wrong = rows_.CheckEnd(referee(0), LeasedRowsOf(world_)); !wrong.empty())
      Fail(wrong);
  }
  CheckSameRows();
}

// Each trainer has made all of its steps, and no others.
void Inspector::CheckLastSteps() {
  for (const Shard& shard : shards_) {
    for (WorkerId worker = 0; worker < world_.scenario.workers; ++worker) {
      const uint64_t clock = shard.referee.now().members[worker].clock;
      const uint64_t steps{world_.scenario.rows[worker]};
      if (clock < steps || (clock > steps && !world_.forged)) {
        Fail("trainer " + std::to_string(worker) + " has made " + std::to_string(clock) +
             " of its " + std::to_string(steps) + " steps");
      }
    }
  }
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
  // What a shard lost, it does not take again. And where a forged update has taken the place of one
  // in flight, shard 0 gets the rows of that later than others, which have it.
  if (AnyLost() || (world_.forged && shards_.front().referee.Pipeline() > 1)) return;
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

}  // namespace millrace::simulation
