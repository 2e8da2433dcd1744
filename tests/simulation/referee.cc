#include "tests/simulation/referee.h"

#include <algorithm>
#include <utility>

#include "tests/simulation/referee_messages.h"

namespace millrace::simulation {

Referee::Referee(Job job) : job_(std::move(job)) {
  const bool has_optimizer = job_.training.update().kind() == Training::Update::GRADIENT;
  switch (job_.training.optimizer().kind()) {
    case Training::Optimizer::SGD:
      slots_per_key_ = 0;
      break;
    case Training::Optimizer::MOMENTUM:
    case Training::Optimizer::ADAGRAD:
      slots_per_key_ = 1;
      break;
    case Training::Optimizer::ADAM:
    case Training::Optimizer::FTRL:
      slots_per_key_ = 2;
      break;
  }
  if (!has_optimizer || !job_.parameters.empty()) slots_per_key_ = 0;
  for (const NamedJob& parameter : job_.parameters) {
    slots_per_key_ = std::max(slots_per_key_, parameter.handler.slots());
  }
  State start;
  start.members.resize(job_.workers);
  for (Member& member : start.members) member.rows_before.resize(Pipeline());
  for (uint32_t worker = job_.first_workers; worker < job_.workers; ++worker) {
    start.members[worker].left = true;
  }
  start.size = job_.first_workers;
  start.weights = std::make_shared<std::vector<float>>(job_.born);
  start.slots = std::make_shared<std::vector<float>>(job_.keys * slots_per_key_);
  start.old_weights = start.weights;
  start.rows = std::make_shared<Rows>();
  start.old_rows = start.rows;
  auto named = std::make_shared<std::vector<NamedState>>(job_.parameters.size());
  for (size_t number = 0; number < named->size(); ++number) {
    (*named)[number].is_table = job_.parameters[number].row_width > 0;
  }
  start.named = std::move(named);
  start.progressive = std::make_shared<Sums>();
  start.tail = std::make_shared<Sums>();
  start.window_open = start.tail;
  start.window = start.tail;
  start.watch = std::make_shared<const Watch>();
  start.columns.resize(job_.numeric + 2);
  start.old_columns = start.columns;
  start.class_rows.resize(job_.classes);
  start.old_class_rows = start.class_rows;
  states_.push_back(std::move(start));
}

void Referee::StartFrom(State state) {
  for (Member& member : state.members) {
    const Counted oldest = member.rows_before.empty() ? Counted() : member.rows_before.back();
    member.rows_before.resize(Pipeline(), oldest);
  }
  states_.front() = std::move(state);
}

uint64_t Referee::Pipeline() const {
  if (Bound() == 0 || job_.training.schedule() == Training::BUFFER) return 1;
  const uint64_t wanted = job_.training.has_pipeline() ? job_.training.pipeline() : 2;
  return Bound() ? std::min(wanted, *Bound() + 1) : wanted;
}

std::optional<uint64_t> Referee::Bound() const {
  switch (job_.training.consistency().model()) {
    case Training::Consistency::SEQUENTIAL:
      return 0;
    case Training::Consistency::BOUNDED:
      return job_.training.consistency().max_delay();
    case Training::Consistency::EVENTUAL:
      break;
  }
  return std::nullopt;
}

uint64_t Referee::Ahead(const State& state, uint32_t worker) const {
  uint64_t slowest = state.members[worker].clock;
  for (const Member& member : state.members) {
    if (!member.left) slowest = std::min(slowest, member.clock);
  }
  return state.members[worker].clock - slowest;
}

bool Referee::IsReleased(const State& state, uint32_t worker) const {
  if (state.members[worker].left || !Bound()) return true;
  return Ahead(state, worker) <= *Bound();
}

void Referee::Reply(State& state, const Gradient& message) {
  state.answered.insert(message.worker());
  state.replies[message.worker()] = message.number();
}

void Referee::Append(const std::string& key, const std::string& value, int64_t timestamp_ms) {
  State state = states_.back();
  state.answered.clear();
  state.replies.clear();
  state.answered_with_old.clear();
  state.old_wanted.clear();
  const int64_t position = end();
  const auto bury_record = [&] {
    dead_letters_.push_back({"gradients", job_.shard, position});
    ++state.dead_letters;
  };
  const auto refuse = [&] {
    ++state.refused;
    bury_record();
    states_.push_back(state);
  };
  const uint64_t worker = key.size() == 4 ? BigEndian(key, 0, 4) : job_.workers;
  if (worker == 0xffffffff) {
    Gradient request;
    std::vector<Unfinished> none;
    bool bad = false;
    const std::optional<std::string> body = Join(value, none, bad);
    const bool sense = body && request.ParseFromString(*body) && request.epoch() == job_.epoch;
    if (!sense) return refuse();
    if (state.sealed) {
    } else if (request.has_resize()) {
      Order(state, request.resize());
    } else if (request.has_reshard()) {
      OrderShards(state, request.reshard());
    } else if (!Request(state, request)) {
      return refuse();
    }
    if (!state.sealed) ResizeAtOnce(state);
    BeginPeriodic(state);
    states_.push_back(std::move(state));
    return;
  }
  if (worker >= job_.workers) return refuse();
  Member& member = state.members[worker];
  bool bad = false;
  const std::optional<std::string> body = Join(value, member.unfinished, bad);
  if (bad) return refuse();
  if (!body) {
    states_.push_back(std::move(state));
    return;
  }
  Gradient message;
  if (!message.ParseFromString(*body) || message.worker() != worker) return refuse();
  if (message.has_update() && !Unpack(*message.mutable_update())) return refuse();
  if (!Fits(message)) return refuse();
  if (state.sealed) {
    TakeWhileSealed(state, message);
    states_.push_back(std::move(state));
    return;
  }
  HearOfJoin(state, message.worker(), message.joined());
  if (state.lost) {
    TakeWhileLost(state, std::move(message));
  } else if (message.has_restore()) {
    TakeLateReport(state, message);
  } else if (message.has_ask()) {
    TakeAsk(state, message);
  } else {
    if (!IsDue(member, message)) {
      if (message.has_update()) ++state.duplicates;
      // Only who repeats what is held is answered later, when the round ends or the cut is left.
      const bool held = !member.left && message.joined() == member.joined &&
                        message.clock() >= member.clock &&
                        message.clock() < member.clock + member.held.size();
      if (!held) Reply(state, message);
    } else if (message.has_leave() && IsAtLastCut(member)) {
      // It is to be said to the shards that come.
    } else if (message.has_leave()) {
      SeeTime(state, timestamp_ms);
      Leave(state, message);
    } else {
      SeeTime(state, timestamp_ms);
      Gradient::Update update = message.update();
      const bool poison = IsPoison(update);
      Counted before = member.rows;
      if (!member.held.empty()) before.end = member.held.back()->rows_end();
      const bool targets_known = state.columns[job_.numeric].count > 0;
      accepted_.push_back(
          {position, message.worker(), message.clock(), before, poison, targets_known, update});
      if (poison) {
        ++state.poisoned;
        bury_record();
        Gradient::Update nothing;
        nothing.set_rows_end(update.rows_end());
        nothing.set_repeated_end(update.repeated_end());
        nothing.set_buffer_rows(update.buffer_rows());
        nothing.set_drifts(update.drifts());
        nothing.set_resize(update.resize());
        nothing.set_workers(update.workers());
        if (update.has_mark()) *nothing.mutable_mark() = update.mark();
        *nothing.mutable_dead_letters() = update.dead_letters();
        *nothing.mutable_wanted() = update.wanted();
        update = nothing;
      }
      Take(state, message.worker(), std::move(update));
    }
  }
  ResizeAtOnce(state);
  BeginPeriodic(state);
  states_.push_back(std::move(state));
}

void Referee::TakeAsk(State& state, const Gradient& message) {
  Member& member = state.members[message.worker()];
  const bool asks_for_old = message.has_clock() && message.clock() + 1 == member.clock;
  const bool has_old = !job_.alone && Bound() == 0 && !member.left;
  const std::vector<uint64_t> wanted(message.ask().wanted().begin(), message.ask().wanted().end());
  if (asks_for_old && has_old) {
    state.answered_with_old.insert(message.worker());
    state.old_wanted = wanted;
    return;
  }
  Reply(state, message);
  const bool of_now = !message.has_clock() || (message.clock() <= member.clock &&
                                               member.clock - message.clock() < Pipeline());
  if (of_now && !wanted.empty()) KeepWanted(member, wanted);
}

bool Referee::IsDue(const Member& member, const Gradient& message) const {
  if (member.left || message.clock() != member.clock + member.held.size()) return false;
  if (message.joined() != member.joined) return false;
  if (message.has_leave()) return member.held.empty();
  if (member.held.size() == Pipeline()) return false;
  if (Pipeline() == 1 || job_.shard != 0) return true;
  const uint64_t end = member.held.empty() ? member.rows.end : member.held.back()->rows_end();
  return message.update().rows_begin() == end;
}

void Referee::KeepWanted(Member& member, std::vector<uint64_t> wanted) const {
  member.wanted.push_back(std::move(wanted));
  if (member.wanted.size() > Pipeline()) member.wanted.pop_front();
}

void Referee::Count(Member& member, const Gradient::Update& update) {
  for (size_t i = member.rows_before.size(); i-- > 1;) {
    member.rows_before[i] = member.rows_before[i - 1];
  }
  member.rows_before[0] = member.rows;
  Counted& rows = member.rows;
  rows.without = update.rows_end() > rows.end ? 0 : rows.without + 1;
  rows.end = std::max(rows.end, update.rows_end());
  rows.repeated = std::max(rows.repeated, update.repeated_end());
}

// The newest that anybody has said; six hours from it are a jump, in either direction.
void Referee::SeeTime(State& state, int64_t timestamp_ms) {
  const int64_t now_ms = timestamp_ms < 0 ? 0 : timestamp_ms;
  const int64_t away = now_ms > state.seen_ms ? now_ms - state.seen_ms : state.seen_ms - now_ms;
  if (state.seen_ms > 0 && away > 21'600'000) ++state.time_jumps;
  state.seen_ms = std::max(state.seen_ms, now_ms);
}

void Referee::Take(State& state, uint32_t worker, Gradient::Update message) {
  ++state.accepted;
  if (Bound() == 0) {
    NoteCut(state, worker, message.mark());
    state.members[worker].held.push_back(
        std::make_shared<const Gradient::Update>(std::move(message)));
    FinishRound(state);
  } else if (IsHeldAtCut(state, state.members[worker]) || IsAtLastCut(state.members[worker]) ||
             !state.members[worker].held.empty()) {
    state.members[worker].held.push_back(
        std::make_shared<const Gradient::Update>(std::move(message)));
  } else {
    TakeNow(state, worker, message);
  }
  ComeToCut(state);
}

// Eventual and bounded.
void Referee::TakeNow(State& state, uint32_t worker, const Gradient::Update& message) {
  NoteCut(state, worker, message.mark());
  double present = 0;
  for (const Member& member : state.members) {
    if (!member.left) present += 1;
  }
  const State before = state;
  state.step_ms = state.seen_ms;
  StepBy(state, {&message}, present);
  ForgetBy(state, {&message});
  Tally(state, worker, message);
  ++state.members[worker].clock;
  AnswerReleased(before, state);
  if (IsReleased(state, worker)) state.answered.insert(worker);
}

void Referee::AnswerReleased(const State& before, State& state) const {
  for (uint32_t worker = 0; worker < job_.workers; ++worker) {
    if (!IsReleased(before, worker) && IsReleased(state, worker)) state.answered.insert(worker);
  }
}

void Referee::Leave(State& state, const Gradient& message) {
  NoteCut(state, message.worker(), message.leave().mark());
  const State before = state;
  for (const Gradient::Joined& other : message.leave().joined()) {
    if (other.worker() != message.worker()) HearOfJoin(state, other.worker(), other.clock());
  }
  state.members[message.worker()].left = true;
  state.members[message.worker()].unfinished.clear();  // it sends nothing any more
  state.answered.insert(message.worker());
  Bury(state, message.leave().dead_letters());
  if (Bound() == 0) {
    FinishRound(state);
  } else {
    AnswerReleased(before, state);
  }
  ComeToCut(state);
}

void Referee::FinishRound(State& state) {
  std::vector<const Gradient::Update*> messages;
  for (const Member& member : state.members) {
    if (member.left) continue;
    if (member.held.empty()) return;
    messages.push_back(member.held.front().get());
  }
  if (messages.empty()) return;
  state.old_weights = state.weights;
  state.old_columns = state.columns;
  state.old_range = state.range;
  state.old_class_rows = state.class_rows;
  state.old_drifts = state.drifts;
  state.old_told = state.told;
  state.old_told_size = state.told_size;
  uint64_t told = 0;
  uint32_t told_size = 0;
  for (const Gradient::Update* message : messages) {
    if (message->resize() <= told) continue;
    told = message->resize();
    told_size = message->workers();
  }
  state.old_rows = state.rows;
  state.old_step_ms = std::exchange(state.step_ms, state.seen_ms);
  StepBy(state, messages, 0);
  ForgetBy(state, messages);
  for (uint32_t worker = 0; worker < job_.workers; ++worker) {
    Member& member = state.members[worker];
    if (member.left) continue;
    Tally(state, worker, *member.held.front());
    member.held.pop_front();
    ++member.clock;
    state.answered.insert(worker);
  }
  ResizeByRound(state, told, told_size);
}

}  // namespace millrace::simulation
