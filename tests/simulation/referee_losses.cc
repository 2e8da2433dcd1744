// A shard of which no copy is left: what it makes of the workers' reports.
#include <algorithm>
#include <tuple>
#include <utility>

#include "tests/simulation/referee.h"

namespace millrace::simulation {
namespace {

// Of two that believe to be this worker.
bool KnowsLess(const Gradient& one, const Gradient& other) {
  const auto knowledge = [](const Gradient& report) {
    return std::tuple(report.has_clock(), report.clock(), report.restore().left(),
                      report.restore().has_slice());
  };
  return knowledge(one) < knowledge(other);
}

// What a worker reports of its rows.
Referee::Member RowsOf(const Gradient::Restore& said, uint64_t pipeline) {
  Referee::Member member;
  const auto counted = [](const RowProgress& rows) {
    return Referee::Counted{rows.end(), rows.updates_without_rows(), rows.repeated_end()};
  };
  member.rows = counted(said.rows());
  for (const RowProgress& before : said.rows_before()) {
    member.rows_before.push_back(counted(before));
  }
  const bool knows = !member.rows_before.empty();
  member.rows_before.resize(pipeline, knows ? member.rows_before.back() : Referee::Counted());
  return member;
}

// So many of the updates that it had under way were accepted.
void CountSent(const Gradient::Restore& said, uint64_t updates, Referee::Member& member) {
  for (int i = 0; i < said.sent_rows_size() && static_cast<uint64_t>(i) < updates; ++i) {
    if (said.sent_rows(i) <= member.rows.end) continue;
    member.rows_before.insert(member.rows_before.begin(), member.rows);
    member.rows_before.pop_back();
    member.rows = {said.sent_rows(i), 0, member.rows.repeated};
  }
}

void RaiseRows(uint64_t end, Referee::Member& member) {
  member.rows.end = std::max(member.rows.end, end);
  for (Referee::Counted& before : member.rows_before) before.end = std::max(before.end, end);
}

// What both have said of their worker.
Gradient Merged(Gradient one, Gradient other, uint64_t pipeline) {
  if (KnowsLess(one, other)) std::swap(one, other);
  Gradient::Restore& best = *one.mutable_restore();
  const Gradient::Restore& rest = other.restore();
  best.set_committed_row(std::max(best.committed_row(), rest.committed_row()));
  best.set_least_clock(std::max(best.least_clock(), rest.least_clock()));
  if (!best.has_slice() && !best.left() && rest.has_slice()) {
    *best.mutable_slice() = rest.slice();
    *best.mutable_moments() = rest.moments();
  }
  // What the other has sent since was accepted.
  Referee::Member member = RowsOf(rest, pipeline);
  if (one.clock() > other.clock()) CountSent(rest, one.clock() - other.clock(), member);
  if (member.rows.end <= best.rows().end()) return one;
  best.clear_rows_before();
  const auto say = [](const Referee::Counted& counted, RowProgress& progress) {
    progress.set_end(counted.end);
    progress.set_updates_without_rows(counted.without);
    progress.set_repeated_end(counted.repeated);
  };
  say(member.rows, *best.mutable_rows());
  for (const Referee::Counted& before : member.rows_before) say(before, *best.add_rows_before());
  return one;
}

bool HasLeft(const Gradient& report) { return report.has_clock() && report.restore().left(); }

}  // namespace

void Referee::Lose(int64_t position, size_t dead_letters) {
  State lost = states_.front();
  lost.lost = true;
  lost.reports = std::make_shared<const Reports>();
  lost.dead_letters = dead_letters;
  states_.erase(states_.begin() + position, states_.end());
  states_.push_back(std::move(lost));
  cuts_.erase(cuts_.lower_bound(position), cuts_.end());
  std::erase_if(accepted_, [&](const Accepted& taken) { return taken.position >= position; });
  dead_letters_.resize(dead_letters);
  was_lost_ = true;
}

void Referee::TakeWhileLost(State& state, Gradient message) const {
  if (!message.has_restore()) {
    state.answered.insert(message.worker());  // it is asked what it has
    return;
  }
  Reports reports = *state.reports;
  const auto [place, is_first] = reports.try_emplace(message.worker(), message);
  if (!is_first) place->second = Merged(std::move(message), place->second, Pipeline());
  const bool is_restored = reports.size() == job_.workers && GoOnFrom(state, reports);
  state.lost = !is_restored;
  state.restored = is_restored;
  state.reports = is_restored ? nullptr : std::make_shared<const Reports>(std::move(reports));
}

bool Referee::GoOnFrom(State& state, const Reports& reports) const {
  const Gradient* newest = nullptr;
  std::optional<uint64_t> slowest;  // of those that say where they are
  for (const auto& [worker, report] : reports) {
    if (report.has_clock() && !HasLeft(report)) {
      slowest = std::min(slowest.value_or(report.clock()), report.clock());
    }
    if (!report.restore().has_slice()) continue;
    if (newest == nullptr || report.clock() > newest->clock()) newest = &report;
  }
  if (newest == nullptr) return false;
  const Gradient::Restore& from = newest->restore();
  state.weights = std::make_shared<const std::vector<float>>(from.slice().dense().begin(),
                                                             from.slice().dense().end());
  state.steps = newest->clock();
  state.periodic_at = state.steps;
  for (int i = 0; i < from.moments().count_size(); ++i) {
    state.columns[static_cast<size_t>(i)] = {from.moments().count(i), from.moments().mean(i),
                                             from.moments().m2(i)};
  }
  state.columns[job_.numeric] = {from.moments().target_count(), from.moments().target_mean(),
                                 from.moments().target_m2()};
  state.columns.back() = {from.moments().error_count(), from.moments().error_mean(), 0};
  state.range = {from.moments().target_least(), from.moments().target_most(),
                 from.moments().range_votes()};
  for (int k = 0; k < from.moments().class_rows_size(); ++k) {
    state.class_rows.at(static_cast<size_t>(k)) = from.moments().class_rows(k);
  }
  state.old_weights = state.weights;
  state.old_columns = state.columns;
  state.old_range = state.range;
  state.drifts = from.moments().drifts();
  state.old_class_rows = state.class_rows;
  state.old_drifts = state.drifts;
  uint64_t round = newest->clock();
  for (const auto& [worker, report] : reports) {
    if (!HasLeft(report)) round = std::max(round, report.restore().least_clock());
  }
  for (const auto& [worker, report] : reports) {
    const Gradient::Restore& said = report.restore();
    Member& member = state.members[worker];
    member.left = HasLeft(report);
    member.clock = report.has_clock() ? report.clock() : slowest.value_or(newest->clock());
    member.clock = std::max(member.clock, said.least_clock());
    if (Bound() == 0 && !member.left) member.clock = round;
    Member rows = RowsOf(said, Pipeline());
    RaiseRows(said.committed_row(), rows);
    if (report.has_clock() && member.clock > report.clock()) {
      CountSent(said, member.clock - report.clock(), rows);
    }
    member.rows = rows.rows;
    member.rows_before = rows.rows_before;
    state.answered.insert(worker);
  }
  return true;
}

// Somebody may have reported in the worker's place who knew less.
void Referee::TakeLateReport(State& state, const Gradient& message) {
  const uint32_t worker = message.worker();
  state.answered.insert(worker);
  const Gradient::Restore& said = message.restore();
  const bool left = HasLeft(message);
  Member& member = state.members[worker];
  const uint64_t clock = std::max({message.clock(), said.least_clock(), member.clock});
  const bool is_further = clock > member.clock || said.committed_row() > member.rows.end;
  if (!state.restored || member.left || (!left && !is_further)) return;
  const bool of_all = Bound() == 0 && !left;
  for (uint32_t other = 0; other < job_.workers; ++other) {
    Member& moved = state.members[other];
    state.answered.insert(other);
    if (moved.left || (other != worker && !of_all)) continue;
    for (; moved.clock < clock && !moved.held.empty(); ++moved.clock) {
      Count(moved, *moved.held.front());
      moved.held.pop_front();
    }
    if (left || clock > moved.clock) moved.held.clear();
    moved.clock = std::max(moved.clock, clock);
  }
  if (said.rows().end() > member.rows.end) {
    const Member rows = RowsOf(said, Pipeline());
    member.rows = rows.rows;
    member.rows_before = rows.rows_before;
  }
  RaiseRows(said.committed_row(), member);
  if (!left) return;
  member.left = true;
  member.unfinished.clear();
  if (Bound() == 0) FinishRound(state);
}

bool Referee::IsBeyondHelp() const {
  if (!now().lost || now().reports->size() < job_.workers) return false;
  return std::ranges::none_of(*now().reports,
                              [](const auto& entry) { return entry.second.restore().has_slice(); });
}

}  // namespace millrace::simulation
