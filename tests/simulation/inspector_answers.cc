// What a shard says to its workers.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "tests/simulation/inspector.h"
#include "tests/simulation/inspector_compare.h"

namespace millrace::simulation {
namespace {

// The rows of the last requests, of as many as have such rows. (What an earlier answer has served
// need not be said again.)
std::vector<uint64_t> WantedOf(const Referee::Member& member, const EmbeddingBlock& rows) {
  std::set<uint64_t> wanted;
  for (auto ids = member.wanted.rbegin(); ids != member.wanted.rend(); ++ids) {
    wanted.insert(ids->begin(), ids->end());
    if (std::ranges::equal(wanted, rows.id())) break;
  }
  return {wanted.begin(), wanted.end()};
}

}  // namespace

Inspector::Answered Inspector::CheckAnswers(const ShardTask& task,
                                            std::span<const OutgoingRecord> answers,
                                            const std::map<uint32_t, uint64_t>& replies) {
  Answered answered;
  std::vector<Referee::Unfinished> unfinished;
  SharedWeights shared;
  for (const OutgoingRecord& answer : answers) {
    if (answer.topic != Topic::kWeights) {
      Fail("an answer to another topic");
      continue;
    }
    bool bad = false;
    const std::optional<std::string> body = Referee::Join(answer.value, unfinished, bad);
    if (bad) Fail("an answer without sense");
    if (!body) continue;
    if (answer.partition == SharedWeightsPartition(world_.scenario.workers)) {
      if (!shared.ParseFromString(*body)) Fail("a shared record without sense");
      CheckShared(task, shared, answered.first);
      continue;
    }
    Weights message;
    if (!message.ParseFromString(*body)) Fail("an answer without sense");
    const auto worker = static_cast<WorkerId>(answer.partition);
    if (message.has_shared()) {
      if (message.shared() != shared.version()) Fail("an answer without its shared record");
      *message.mutable_slice() = shared.slice();
      if (shared.has_moments()) *message.mutable_moments() = shared.moments();
      *message.mutable_has_values() = shared.has_values();
    }
    (message.previous_round() ? answered.second : answered.first).insert(worker);
    if (message.epoch() != kEpoch || message.shard() != task.shard()) {
      Fail("an answer of another job or shard");
    }
    const auto reply = replies.find(worker);
    const bool is_reply = reply != replies.end() && !message.previous_round();
    if (message.answers_to() != (is_reply ? reply->second : 0)) {
      Fail("an answer to another message");
    }
    if (message.previous_round()) {
      CheckOldAnswer(task, worker, message);
    } else {
      CheckAnswer(task, worker, message);
    }
  }
  if (!unfinished.empty()) Fail("an answer without its last chunk");
  return answered;
}

void Inspector::CheckShared(const ShardTask& task, const SharedWeights& shared,
                            std::set<WorkerId>& answered) {
  world_.Count("shared weights");
  if (shared.epoch() != kEpoch || shared.shard() != task.shard()) {
    Fail("shared weights of another job or shard");
  }
  for (const SharedWeights::Answer& answer : shared.answers()) {
    const WorkerId worker(answer.worker());
    Weights message;
    message.set_clock(answer.clock());
    message.set_released(answer.released());
    message.set_left(answer.left());
    *message.mutable_rows() = answer.rows();
    *message.mutable_rows_before() = answer.rows_before();
    message.set_min_clock(shared.min_clock());
    *message.mutable_mark() = answer.mark();
    *message.mutable_slice() = shared.slice();
    if (shared.has_moments()) *message.mutable_moments() = shared.moments();
    *message.mutable_has_values() = shared.has_values();
    CheckAnswer(task, worker, message);
    answered.insert(worker);
  }
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
  if (!SameRows(message, member)) Fail("an answer with another number of rows");
  const bool tells = bound && *bound > 0 && !message.left();
  if (tells && message.clock() - message.min_clock() != referee.Ahead(state, worker)) {
    Fail("an answer with another lowest clock");
  }
  if (!released || member.left) return;
  if (!SameBits(*state.weights, message.slice().dense())) Fail("an answer with other weights");
  CheckHasValues(state, {}, message.has_values());
  CheckRows(
      referee, WantedOf(member, message.embeddings()), message.embeddings(),
      [&](uint64_t id) { return referee.RowOf(state, id); }, "an answer with other embedding rows");
  if (task.shard() == 0) {
    CheckMoments(state.columns, state.class_rows, state.drifts, message.moments());
    if (!SameRange(state.range, message.moments())) Fail("an answer with another range of targets");
    CheckTold(state.told, state.told_size, message.moments());
  }
}

void Inspector::CheckOldAnswer(const ShardTask& task, WorkerId worker, const Weights& message) {
  world_.Count("answer of the clock before");
  const Referee::State& state = RefereeOf(task).At(task.position());
  const Referee::Member& member = state.members.at(worker);
  if (message.clock() + 1 != member.clock || message.left() || !message.released()) {
    Fail("an old answer that is not of the clock before");
  }
  CheckMark(task, member, message);
  if (!IsSame(message.rows(), member.rows_before[0])) {
    Fail("an old answer with another number of rows");
  }
  if (!SameBits(*state.old_weights, message.slice().dense())) {
    Fail("an old answer with other weights");
  }
  CheckHasValues(state, message.clock(), message.has_values());
  CheckRows(
      RefereeOf(task), state.old_wanted, message.embeddings(),
      [&](uint64_t id) { return RefereeOf(task).OldRowOf(state, id); },
      "an old answer with other embedding rows");
  if (task.shard() == 0) {
    CheckMoments(state.old_columns, state.old_class_rows, state.old_drifts, message.moments());
    if (!SameRange(state.old_range, message.moments())) {
      Fail("an old answer with another range of targets");
    }
    CheckTold(state.old_told, state.old_told_size, message.moments());
  }
}

void Inspector::CheckHasValues(const Referee::State& state, std::optional<uint64_t> clock,
                               const google::protobuf::RepeatedField<uint32_t>& has_values) {
  const std::vector<uint32_t> right = Referee::WithValues(state, clock);
  if (!std::ranges::equal(right, has_values)) {
    Fail("an answer that says wrongly which parameters have values");
  }
  if (right.size() < state.named->size()) world_.Count("answer without values of a parameter");
}

// By shard 0's answers workers hear of a snapshot, and by theirs the other shards.
void Inspector::CheckMark(const ShardTask& task, const Referee::Member& member,
                          const Weights& message) {
  const uint32_t next_shards = RefereeOf(task).At(task.position()).next_shards;
  if (task.shard() == 0 && next_shards > 0) {
    if (message.mark().next_shards() != next_shards || message.mark().snapshot() != 0 ||
        message.mark().cut() != *member.last_cut) {
      Fail("an answer that says another last cut");
    }
    return;
  }
  const bool marked = task.shard() == 0 && member.cut;
  const uint64_t snapshot = RefereeOf(task).At(task.position()).snapshot;
  if (message.mark().snapshot() != (marked ? snapshot : 0) ||
      message.mark().cut() != (marked ? *member.cut : 0)) {
    Fail("an answer that says another cut");
  }
}

void Inspector::CheckRows(const Referee& referee, const std::vector<uint64_t>& wanted,
                          const EmbeddingBlock& rows,
                          const std::function<std::vector<float>(uint64_t id)>& row_of,
                          const char* wrong) {
  if (!std::ranges::equal(wanted, rows.id())) return Fail(wrong);
  std::vector<float> expected;
  for (const uint64_t id : wanted) {
    std::vector<float> row = row_of(id);
    row.resize(referee.WidthOf(id));  // as it travels
    expected.insert(expected.end(), row.begin(), row.end());
  }
  if (!referee.SameRow(expected, {rows.value().begin(), rows.value().end()})) Fail(wrong);
  if (!wanted.empty()) world_.Count("answer with embedding rows");
}

void Inspector::CheckMoments(const std::vector<Referee::Column>& columns,
                             const std::vector<uint64_t>& class_rows, uint64_t drifts,
                             const MomentsMessage& moments) {
  if (moments.drifts() != drifts) Fail("an answer with other drifts");
  if (!SameClassRows(class_rows, moments.class_rows()))
    Fail("an answer with other rows of a class");
  if (!SameMoments(columns, moments)) return Fail("an answer with other moments");
}

void Inspector::CheckTold(uint64_t number, uint32_t size, const MomentsMessage& moments) {
  if (moments.resize() == number && moments.workers() == size) return;
  Fail("an answer that tells of another change of the workers");
}

}  // namespace millrace::simulation
