#include "processors/lost_state.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "processors/server_options.h"
#include "topics/figures_codec.h"
#include "topics/slice_codec.h"

namespace millrace {
namespace {

bool KnowsLess(const Gradient& one, const Gradient& other) {
  const auto knows = [](const Gradient& message) {
    const Gradient::Restore& restore = message.restore();
    return std::make_tuple(message.has_clock(), message.clock(), restore.left(),
                           restore.has_slice());
  };
  return knows(one) < knows(other);
}

bool HasLeft(const Gradient& said) { return said.has_clock() && said.restore().left(); }

// So many of the updates that the worker had in flight were accepted.
void CountSent(const Gradient::Restore& restore, uint64_t updates, RowHistory& rows) {
  for (const uint64_t sent : restore.sent_rows()) {
    if (updates-- == 0) return;
    if (sent > rows.now().end()) rows.Count(sent);
  }
}

}  // namespace

void LostState::Take(Gradient message) {
  MILLRACE_CHECK(message.has_restore() && message.worker() < workers_);
  Gradient::Restore& restore = *message.mutable_restore();
  const bool are_numbers =
      AllWithin(restore.slice(), kLargestValue) && FromProto(restore.moments()).IsValid();
  if (!are_numbers) restore.clear_slice();
  const auto [place, is_first] = said_.try_emplace(WorkerId(message.worker()), message);
  if (is_first) return;
  Gradient& said = place->second;
  // Of two that believe to be this worker the one counts that knows more; weights of the other are
  // better than none.
  if (KnowsLess(message, said)) std::swap(said, message);
  Gradient::Restore& newer = *message.mutable_restore();
  Gradient::Restore& older = *said.mutable_restore();
  newer.set_committed_row(std::max(newer.committed_row(), older.committed_row()));
  newer.set_least_clock(std::max(newer.least_clock(), older.least_clock()));
  if (older.has_slice() && !newer.has_slice() && !newer.left()) {
    newer.mutable_slice()->Swap(older.mutable_slice());
    newer.mutable_moments()->Swap(older.mutable_moments());
  }
  // Rows that the updates of earlier clocks were sent for have been counted.
  RowHistory rows = RowHistory::Of(older, pipeline_);
  if (message.clock() > said.clock()) CountSent(older, message.clock() - said.clock(), rows);
  if (rows.now().end() > newer.rows().end()) rows.SaveTo(newer);
  said = std::move(message);
}

std::vector<WorkerId> LostState::Silent() const {
  std::vector<WorkerId> silent;
  for (WorkerId worker = 0; worker < workers_; ++worker) {
    if (!said_.contains(worker)) silent.push_back(worker);
  }
  return silent;
}

std::optional<LostState::Restored> LostState::Restore(bool sequential) const {
  const Gradient* newest = nullptr;
  std::optional<Clock> least;
  for (const auto& [worker, said] : said_) {
    if (said.has_clock() && !HasLeft(said)) {
      least = std::min(least.value_or(Clock(said.clock())), Clock(said.clock()));
    }
    if (!said.restore().has_slice()) continue;
    if (newest == nullptr || said.clock() > newest->clock()) newest = &said;
  }
  if (said_.size() < workers_ || newest == nullptr) return std::nullopt;
  Restored restored;
  restored.clock = Clock(newest->clock());
  restored.slice = newest->restore().slice();
  restored.moments = newest->restore().moments();
  Clock round(newest->clock());
  for (const auto& [worker, said] : said_) {
    if (!HasLeft(said)) round = std::max(round, Clock(said.restore().least_clock()));
  }
  for (const auto& [worker, said] : said_) {
    const Gradient::Restore& restore = said.restore();
    const bool left = HasLeft(said);
    Clock clock = said.has_clock() ? Clock(said.clock()) : least.value_or(Clock(newest->clock()));
    clock = std::max(clock, Clock(restore.least_clock()));
    if (sequential && !left) clock = round;
    RowHistory rows = RowHistory::Of(restore, pipeline_);
    rows.RaiseTo(restore.committed_row());  // no row is needed that is gone
    // If it goes on at a later clock, the updates that it has sent were accepted.
    if (said.has_clock() && clock > said.clock()) CountSent(restore, clock - said.clock(), rows);
    restored.members.emplace(worker, Restored::Member{{clock, left}, std::move(rows)});
  }
  MILLRACE_CHECK(restored.members.size() == workers_);
  return restored;
}

void LostState::Save(ShardState& state) const {
  for (const auto& [worker, said] : said_) *state.add_restoring() = said;
}

Status LostState::Load(const ShardState& state, const GradientShape& shape) {
  said_.clear();
  for (const Gradient& said : state.restoring()) {
    MILLRACE_RETURN_IF_ERROR(CheckGradient(said, shape));
    if (!said.has_restore() || !said_.try_emplace(WorkerId(said.worker()), said).second) {
      return absl::InvalidArgumentError("the saved state has two messages of worker " +
                                        std::to_string(said.worker()) +
                                        " about its weights, or a message of another kind");
    }
  }
  return absl::OkStatus();
}

}  // namespace millrace
