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
  // Rows that the update of an earlier clock was sent for have been counted.
  const bool is_later = message.clock() > said.clock();
  const uint64_t sent = is_later ? older.sent_row() : 0;
  if (std::max(older.rows().end(), sent) > newer.rows().end()) {
    const bool was_accepted = sent > older.rows().end();
    *newer.mutable_rows_before() = was_accepted ? older.rows() : older.rows_before();
    *newer.mutable_rows() = older.rows();
    if (was_accepted) {
      newer.mutable_rows()->set_end(sent);
      newer.mutable_rows()->set_updates_without_rows(0);
    }
  }
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
    Restored::Member& member = restored.members[worker];
    member.entry = {clock, left};
    member.rows = restore.rows();
    // If it goes on at a later clock, the update that it has sent was accepted.
    const uint64_t sent = said.has_clock() && clock > said.clock() ? restore.sent_row() : 0;
    member.rows.set_end(std::max(restore.rows().end(), restore.committed_row()));
    member.rows_before = restore.rows_before();
    // Nor is a row needed there that is gone.
    member.rows_before.set_end(std::max(restore.rows_before().end(), restore.committed_row()));
    if (sent > member.rows.end()) {
      member.rows_before = member.rows;
      member.rows.set_end(sent);
      member.rows.set_updates_without_rows(0);
    }
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
