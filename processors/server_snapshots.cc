// What requests, and marks in updates, do to a shard for snapshots.
#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "processors/server_processor.h"

namespace millrace {

void ServerProcessor::HandleRequest(const Gradient& message, ServerOutput& output) {
  if (lost_) return;
  if (message.has_cancel_snapshot()) {
    const uint64_t id = message.cancel_snapshot().snapshot();
    // (Whose cut the shard has left already may be whole all the same, unless this says otherwise.)
    const std::optional<uint64_t> open = cut_.open();
    if (open && id >= *open) {
      snapshot_given_up_ = std::max(snapshot_given_up_, *open);
    } else if (id > cut_.newest() || message.cancel_snapshot().incomplete()) {
      snapshot_given_up_ = std::max(snapshot_given_up_, id);
    }
    cut_.Cancel(id);
    return;
  }
  if (message.has_cut_here()) {
    const uint64_t id = message.cut_here().snapshot();
    if (cut_.CutHere(id)) output.snapshot = id;
    return;
  }
  const uint64_t number = message.request_snapshot().number();
  if (options_.shard != 0 || number == snapshot_request_) return;
  // Numbers are times of somebody's clock, which may have been wrong: ids ascend all the same.
  const uint64_t id = std::max(number, cut_.newest() + 1);
  const std::optional<uint64_t> open = open_snapshot();
  if (id > kMostSnapshot || seal_.has_begun() || !ResizeAllowsSnapshot() ||
      !cut_.Begin(id, clocks_)) {
    // (The last cut is still told to whoever comes to it, and nobody comes where no rows do.)
    if (!open && id == number && id <= kMostSnapshot && !seal_.has_begun() && !clocks_.AllLeft()) {
      snapshot_waiting_ = id;
    } else if (open != number) {
      snapshot_given_up_ = std::max(snapshot_given_up_, number);
    }
    return;
  }
  if (open) snapshot_given_up_ = std::max(snapshot_given_up_, *open);  // it has only waited
  snapshot_request_ = number;
  for (const auto& [worker, member] : members_) {
    if (!clocks_.left(worker)) output.answers.push_back(worker);
  }
}

// Shard 0 knows better: it has fixed the cuts itself.
void ServerProcessor::NoteMark(WorkerId worker, const SnapshotMark& mark) {
  if (options_.shard == 0) return;
  if (mark.next_shards() > 0) {
    seal_.Note(worker, mark);
  } else {
    cut_.Note(worker, mark);
  }
}

void ServerProcessor::CheckCut(ServerOutput& output) {
  if (const std::optional<uint64_t> snapshot = cut_.Reach(clocks_)) output.snapshot = snapshot;
  CheckSeal();
}

// (A worker hears of it with the answer to its next update, as of any snapshot. Nobody is answered
// for it: the cut is so far ahead that this is soon enough.)
void ServerProcessor::BeginIfPeriodIsOver() {
  if (options_.shard != 0 || options_.snapshot_every == 0 || lost_ || seal_.has_begun()) return;
  if (steps() - snapshot_steps_ < options_.snapshot_every || !ResizeAllowsSnapshot()) return;
  // By the log's time, as the numbers of requests are by somebody's clock.
  const uint64_t now = std::min(static_cast<uint64_t>(seen_ms_), kMostCancelled);
  const uint64_t id = std::max(now, cut_.newest() + 1);
  const std::optional<uint64_t> open = open_snapshot();
  if (id > kMostSnapshot || !cut_.Begin(id, clocks_)) return;
  if (open) snapshot_given_up_ = std::max(snapshot_given_up_, *open);  // it has only waited
  snapshot_waiting_ = 0;  // though its number may be of a fast clock, and higher
  snapshot_steps_ = steps();
}

Status ServerProcessor::LeaveCut(ServerOutput& output) {
  MILLRACE_CHECK(at_cut());
  cut_.Leave();
  if (!options_.consistency.sequential()) {  // otherwise rounds are held as ever
    for (auto& [worker, member] : members_) {
      while (!member.held.empty() && !seal_.HasReached(worker, clocks_.clock(worker))) {
        const Gradient::Update update = TakeHeld(member);
        MILLRACE_RETURN_IF_ERROR(TakeUpdate(worker, update, output));
      }
    }
    CheckSeal();
    TryResize(output);
    TryExchange(output);
  }
  BeginIfPeriodIsOver();
  CheckInvariants();
  return absl::OkStatus();
}

}  // namespace millrace
