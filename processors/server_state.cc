// ServerProcessor's state to and from the message that a checkpoint saves.
#include <cmath>
#include <string>
#include <utility>

#include "base/check.h"
#include "processors/server_processor.h"
#include "topics/drift_codec.h"
#include "topics/figures_codec.h"
#include "topics/slice_codec.h"

namespace millrace {
namespace {

Status BadState(const std::string& reason) { return absl::InvalidArgumentError(reason); }

// A shard that loaded less or more than was saved would differ from the fold of its log.
Status NotOurState(ShardId shard, const Status& reason) {
  return absl::DataLossError(
      "the saved state of shard " + std::to_string(shard) +
      " is damaged, or was written by another program: " + std::string(reason.message()) +
      ". Restore the topic parameters and the data folder, or start a new job (another --job)");
}

}  // namespace

void ServerProcessor::SaveState(ShardState& state) const {
  CheckInvariants();
  state.set_epoch(options_.epoch);
  state.set_shard(options_.number());
  state.set_steps(steps());
  SaveMembers(state);
  decoder_.Save(state);
  previous_.Save(state);
  sync_.Save(state);
  cut_.Save(state);
  seal_.Save(state);
  state.set_snapshot_request(snapshot_request_);
  state.set_snapshot_steps(snapshot_steps_);
  state.set_lost(lost_.has_value());
  state.set_restored(is_restored_);
  if (lost_) lost_->Save(state);
  state.set_seen_ms(seen_ms_);
  state.set_step_ms(step_ms_);
  state.set_shrinkage(model_.shrinkage());
  if (model_.parameters() != nullptr) model_.parameters()->Save(state);
  ToProto(moments_, *state.mutable_moments());
  ToProto(progressive_, *state.mutable_progressive());
  ToProto(tail_, *state.mutable_tail());
  ToProto(window_.last(), *state.mutable_window());
  state.set_window_end(window_.last_end());
  ToProto(window_.open(), *state.mutable_window_open());
  ToProto(drift_, *state.mutable_drift());
  state.set_forgotten(forgotten_);
  state.set_resize(size_.number);
  state.set_workers(size_.number > 0 ? size_.workers : 0);
  state.set_resize_ordered(ordered_.number);
  state.set_workers_ordered(ordered_.number > 0 ? ordered_.workers : 0);
  state.set_rows_trained(rows_trained_);
  state.set_train_loss(train_loss_);
  *state.mutable_counters() = counters_;
}

void ServerProcessor::SaveMembers(ShardState& state) const {
  for (const auto& [worker, member] : members_) {
    ShardState::Member& saved = *state.add_members();
    saved.set_worker(worker);
    saved.set_clock(clocks_.clock(worker));
    saved.set_left(clocks_.left(worker));
    member.rows.SaveTo(saved);
    saved.set_buffer_rows(member.buffer_rows);
    saved.set_joined(member.joined);
    for (const std::vector<EmbeddingId>& ids : member.wanted) {
      saved.add_wanted()->mutable_id()->Add(ids.begin(), ids.end());
    }
    for (const Gradient::Update& update : member.held) *saved.add_pending() = update;
  }
}

Status CheckStateFits(const ShardState& state, const ServerOptions& options) {
  if (state.epoch() == options.epoch && state.shard() == options.number() &&
      static_cast<uint32_t>(state.members_size()) == options.workers &&
      static_cast<size_t>(state.moments().count_size()) == options.numeric_columns) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      "the saved state is of epoch " + std::to_string(state.epoch()) + ", shard " +
      std::to_string(state.shard()) + ", " + std::to_string(state.members_size()) +
      " workers and " + std::to_string(state.moments().count_size()) +
      " numeric columns: it belongs to another job. Give that --job-epoch and --workers; or "
      "delete the job's topics and data folders; or use another --job");
}

Status CheckStateTimes(const ShardState& state) {
  if (state.step_ms() < 0 || state.step_ms() > state.seen_ms()) {
    return BadState("its last step is later than the end of the log that it has read");
  }
  if (!std::isfinite(state.shrinkage()) || state.shrinkage() < 0) {
    return BadState("its shrinkage is no sum of penalties");
  }
  if (state.position() < 0) return BadState("its position is below 0");
  const ShardState::PreviousRound& previous = state.previous_round();
  if (previous.step_ms() < 0 || previous.step_ms() > state.step_ms()) {
    return BadState("its previous round is later than its last");
  }
  if (!(previous.shrinkage() >= 0 && previous.shrinkage() <= state.shrinkage())) {
    return BadState("its previous round has shrunk its rows further than its last");
  }
  return absl::OkStatus();
}

Status ServerProcessor::LoadState(const ShardState& state) {
  MILLRACE_RETURN_IF_ERROR(CheckStateFits(state, options_));
  Status loaded = CheckState(state);
  if (loaded.ok()) loaded = LoadMembers(state);
  if (loaded.ok()) loaded = LoadParts(state);
  if (!loaded.ok()) return NotOurState(options_.number(), loaded);
  CheckInvariants();
  return absl::OkStatus();
}

Status ServerProcessor::CheckState(const ShardState& state) const {
  MILLRACE_RETURN_IF_ERROR(
      CheckMoments(state.moments(), options_.numeric_columns, options_.classes, options_.workers));
  if (!FromProto(state.moments()).IsValid())
    return BadState("its moments are not those of any rows");
  MILLRACE_RETURN_IF_ERROR(CheckSums(state.progressive(), options_.classes));
  MILLRACE_RETURN_IF_ERROR(CheckSums(state.tail(), options_.classes));
  MILLRACE_RETURN_IF_ERROR(CheckSums(state.window(), options_.classes));
  MILLRACE_RETURN_IF_ERROR(CheckSums(state.window_open(), options_.classes));
  const uint64_t tested = state.progressive().rows();
  if (state.window_end() > tested || state.window_open().rows() > tested - state.window_end() ||
      state.window().rows() > state.window_end()) {
    return BadState("its windows have rows that were not tested");
  }
  if (state.steps() > kMostClock * options_.workers)
    return BadState("it has too many optimizer steps");
  MILLRACE_RETURN_IF_ERROR(CheckStateTimes(state));
  if (state.snapshot() > kMostSnapshot || state.snapshot_cancelled() > kMostSnapshot) {
    return BadState("its snapshot number is out of range");
  }
  if (state.snapshot_steps() > state.steps()) {
    return BadState("its last periodic snapshot was begun at a step that it has not made");
  }
  if (state.snapshot_open() && state.snapshot() <= state.snapshot_cancelled()) {
    return BadState("its snapshot is under way, though it was cancelled");
  }
  if (state.workers() > options_.workers || state.workers_ordered() > options_.workers) {
    return BadState("it has more workers than the job may have");
  }
  return absl::OkStatus();
}

Status ServerProcessor::CheckMember(const ShardState::Member& member) const {
  const std::string name = "worker " + std::to_string(member.worker());
  if (member.worker() >= options_.workers) return BadState(name + " is not a worker of this job");
  if (member.clock() > kMostClock || member.cut() > kMostClock + 2 * options_.pipeline + 1) {
    return BadState(name + " is at clock " + std::to_string(member.clock()) +
                    ", with its cut at clock " + std::to_string(member.cut()));
  }
  if (member.joined() > member.clock()) return BadState(name + " is at a clock before it joined");
  MILLRACE_RETURN_IF_ERROR(CheckProgress(member.rows()));
  uint64_t end = member.rows().end();
  for (const RowProgress& before : member.rows_before()) {
    MILLRACE_RETURN_IF_ERROR(CheckProgress(before));
    if (before.end() > end) {
      return BadState(name + " has counted rows up to " + std::to_string(end) + ", but up to " +
                      std::to_string(before.end()) + " one update before");
    }
    end = before.end();
  }
  const auto most = static_cast<int>(options_.pipeline);
  if (member.pending_size() > most || member.wanted_size() > most) {
    return BadState(name + " has more updates or requests in flight than " + std::to_string(most));
  }
  for (const ShardState::Wanted& wanted : member.wanted()) {
    if (!wanted.id().empty() && !options_.embeddings)
      return BadState(name + " requests embedding rows, which this job does not have");
    MILLRACE_RETURN_IF_ERROR(CheckIds(wanted.id(), options_.shard, options_.shards));
    if (!options_.parameters.empty()) {
      MILLRACE_RETURN_IF_ERROR(CheckTables(wanted.id(), decoder_.shape().tables));
    }
  }
  if (!member.pending().empty() && member.left())
    return BadState(name + " has left, but an update of it is held");
  Clock clock(member.clock());
  for (const Gradient::Update& update : member.pending()) {
    MILLRACE_RETURN_IF_ERROR(CheckUpdate(update, clock++, decoder_.shape()));
    // (Such a one was dropped when it came.)
    if (!HasSaneParts(update)) return BadState(name + " has an update with a value beyond 1e18");
  }
  return absl::OkStatus();
}

Status ServerProcessor::LoadMembers(const ShardState& state) {
  std::map<WorkerId, Member> members;
  held_ = 0;
  for (const ShardState::Member& saved : state.members()) {
    MILLRACE_RETURN_IF_ERROR(CheckMember(saved));
    const auto [place, is_new] = members.try_emplace(WorkerId(saved.worker()));
    if (!is_new) return BadState("worker " + std::to_string(saved.worker()) + " is listed twice");
    Member& member = place->second;
    clocks_.Set(WorkerId(saved.worker()), {Clock(saved.clock()), saved.left()});
    member.rows = RowHistory::Of(saved, options_.pipeline);
    member.buffer_rows = saved.buffer_rows();
    member.joined = Clock(saved.joined());
    for (const ShardState::Wanted& wanted : saved.wanted()) {
      member.wanted.emplace_back(wanted.id().begin(), wanted.id().end());
    }
    for (const Gradient::Update& update : saved.pending()) Hold(member, update);
  }
  if (options_.consistency.sequential() && clocks_.Staleness() > 0) {
    return BadState("its workers are at different clocks within one round");
  }
  members_ = std::move(members);
  return absl::OkStatus();
}

Status ServerProcessor::LoadParts(const ShardState& state) {
  MILLRACE_RETURN_IF_ERROR(decoder_.Load(state));
  MILLRACE_RETURN_IF_ERROR(previous_.Load(state, decoder_.shape()));
  MILLRACE_RETURN_IF_ERROR(sync_.Load(state));
  cut_.Load(state);
  MILLRACE_RETURN_IF_ERROR(seal_.Load(state, options_.workers));
  snapshot_request_ = state.snapshot_request();
  snapshot_steps_ = state.snapshot_steps();
  is_restored_ = state.restored();
  lost_.reset();
  if (state.lost()) {
    lost_.emplace(options_.workers, options_.pipeline);
    MILLRACE_RETURN_IF_ERROR(lost_->Load(state, decoder_.shape()));
  }
  model_.set_steps(state.steps());
  if (model_.parameters() != nullptr) {
    MILLRACE_RETURN_IF_ERROR(model_.mutable_parameters()->Load(state));
  } else if (!state.parameters().empty()) {
    return BadState("it has named parameters, which this job does not have");
  }
  moments_ = FromProto(state.moments());
  size_ = SizeOf(state.resize(), state.workers());
  ordered_ = SizeOf(state.resize_ordered(), state.workers_ordered());
  seen_ms_ = state.seen_ms();
  step_ms_ = state.step_ms();
  model_.set_shrinkage(state.shrinkage());
  progressive_ = FromProto(state.progressive());
  tail_ = FromProto(state.tail());
  window_.Restore(FromProto(state.window()), state.window_end(), FromProto(state.window_open()));
  if (!drift_.Restore(FromProto(state.drift()), progressive_.rows)) {
    return BadState("its watch for drift has seen losses that no rows have");
  }
  forgotten_ = state.forgotten();
  rows_trained_ = state.rows_trained();
  train_loss_ = state.train_loss();
  counters_ = state.counters();
  return absl::OkStatus();
}

void ServerProcessor::CheckInvariants() const {
  MILLRACE_CHECK(members_.size() == options_.workers);
  MILLRACE_CHECK(step_ms_ >= 0 && step_ms_ <= seen_ms_ && previous_.step_ms() <= step_ms_);
  // Of a sequential job all stand at one clock; of the others who is held stands at its cut.
  if (options_.consistency.sequential()) MILLRACE_CHECK(clocks_.Staleness() == 0);
}

}  // namespace millrace
