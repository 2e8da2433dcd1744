#include "durability/snapshots/snapshot_taker.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "base/clock.h"
#include "durability/snapshots/snapshot_files.h"
#include "durability/snapshots/snapshot_model.h"
#include "durability/snapshots/snapshot_request.h"
#include "durability/snapshots/snapshot_writer.h"
#include "messages/snapshot.pb.h"
#include "processors/policy.h"
#include "tasks/parameter_options.h"
#include "topics/server_groups.h"

namespace millrace {
namespace {

// Without an update for so long, shards are cut where they are. Of several, an update that one
// shard has and another has not yet would spoil the snapshot: a slow worker's is waited for.
constexpr std::chrono::seconds kQuiet(2);
constexpr std::chrono::seconds kQuietOfSeveral(5);
constexpr std::chrono::seconds kMostQuiet(25);
// Workers held at a cut wait; so long, and for some of the slowest worker's updates, but no longer.
constexpr std::chrono::seconds kMostToTheCut(30);
constexpr std::chrono::minutes kMostForUpdates(10);
constexpr std::chrono::seconds kMostForParts(120);
constexpr std::chrono::seconds kMostAtTheEnd(30);
constexpr std::chrono::milliseconds kLook(200);

// The cut lies one update after those that may be in flight; the first of them may have just begun.
SnapshotTaker::Time::duration MostToTheCut(SnapshotTaker::Time::duration update, size_t pipeline) {
  const auto updates = static_cast<int>(pipeline) + 2;
  return kMostToTheCut + std::min<SnapshotTaker::Time::duration>(updates * update, kMostForUpdates);
}

SnapshotTaker::Time::duration Quiet(SnapshotTaker::Time::duration update, uint32_t shards) {
  if (shards == 1) return kQuiet;
  return std::min<SnapshotTaker::Time::duration>(kQuietOfSeveral + 2 * update, kMostQuiet);
}

void Warn(const std::string& folder, const Status& status) {
  spdlog::warn("snapshot {}: not written: {}", folder, TextOf(status));
}

// A snapshot without its model is complete nevertheless: the model can be made of it later.
void ExportModel(const std::string& snapshot) {
  const std::string folder = SnapshotModelFolder(snapshot);
  const StatusOr<SnapshotManifest> manifest = ReadManifest(snapshot);
  const StatusOr<std::string> why_no_graph =
      manifest.ok() ? ExportSnapshot(snapshot, *manifest, folder) : manifest.status();
  if (why_no_graph.ok()) {
    LogModel(folder, *why_no_graph);
  } else {
    spdlog::warn("model {}: not written: {}", folder, TextOf(why_no_graph.status()));
  }
}

}  // namespace

Status SnapshotTaker::WritePart(uint64_t id, const ServerOptions& options,
                                const ServerProcessor& processor,
                                const OrderedByteMap& store) const {
  SnapshotPart head;
  head.set_job(config_.name());
  head.set_epoch(config_.epoch());
  head.set_snapshot(id);
  return WriteSnapshotPart(PartialSnapshotFolder(config_, id), head, options, processor, store);
}

void SnapshotTaker::PartWritten(uint64_t id, ShardId shard, const Status& written, Time began,
                                Time now) {
  const std::string folder = SnapshotFolder(config_, id);
  if (!written.ok()) return Warn(folder, written);
  const std::chrono::duration<double> took = now - began;
  spdlog::info("shard {}: its part of snapshot {} was written in {:.2f} s", shard, folder,
               took.count());
  if (shard == 0) unfinished_ = {id, now};
}

StatusOr<bool> SnapshotTaker::TryToEnd(uint64_t id) {
  const std::string folder = SnapshotFolder(config_, id);
  SnapshotManifest head;
  head.set_job(config_.name());
  head.set_epoch(config_.epoch());
  head.set_snapshot(id);
  head.set_created_ms(NowMs());
  *head.mutable_features() = features_;
  *head.mutable_training() = training_.training();
  const std::string partial = PartialSnapshotFolder(config_, id);
  const StatusOr<bool> all_parts = WriteManifest(partial, head);
  if (all_parts.ok() && !*all_parts) return false;
  Status named = all_parts.ok() ? NameSnapshot(partial, folder) : all_parts.status();
  if (!named.ok()) {
    Warn(folder, named);
    return named;
  }
  spdlog::info("snapshot {}: complete", folder);
  RemovePartialSnapshots(config_, id);
  Export(folder);
  RemoveOld(folder);
  return true;
}

void SnapshotTaker::Export(const std::string& snapshot) {
  if (IsExternal(training_.training())) return;  // only its trainers know what the numbers mean
  models_.Post(snapshot, [snapshot] { ExportModel(snapshot); });
}

void SnapshotTaker::RemoveOld(const std::string& newest) {
  const size_t kept = config_.server().snapshots_kept();
  if (kept == 0) return;
  models_.Post("what is older than " + newest, [this, kept] { RemoveOldSnapshots(config_, kept); });
}

void SnapshotTaker::ExportLeftOut() {
  const std::optional<std::string> newest = NewestSnapshot(config_);
  if (newest) RemoveOld(*newest);
  std::error_code unreadable;  // the export says why
  if (!newest || std::filesystem::exists(SnapshotModelFolder(*newest), unreadable)) return;
  if (std::filesystem::exists(ManifestPath(*newest), unreadable)) Export(*newest);
}

std::string SnapshotTaker::PartsMissing(uint64_t id) const {
  const std::string folder = PartialSnapshotFolder(config_, id);
  std::string shards;
  for (ShardId shard = 0; shard < ShardsOfGroup(training_); ++shard) {
    std::error_code unreadable;  // counts as missing
    if (std::filesystem::exists(SnapshotFile(folder, "part", shard, "json"), unreadable)) continue;
    shards += (shards.empty() ? "" : ", ") + std::to_string(shard);
  }
  return "the parts of shards " + shards +
         " are missing; give their servers the same --snapshot-dir, on a disk that all servers "
         "share";
}

void SnapshotTaker::FollowPace(ShardId shard, const VectorClock& clocks, Time now) {
  const std::optional<Clock> round = clocks.Min();
  const auto [pace, is_new] = paces_.try_emplace(shard, Pace{round.value_or(0), now});
  if (is_new || !round || *round == pace->second.round) return;
  // (Where a round takes less than the time between two calls, all of it is next to nothing.)
  if (pace->second.round > 0) pace->second.took = now - pace->second.since;
  pace->second.round = *round;
  pace->second.since = now;
}

void SnapshotTaker::SayGivenUp(ShardId shard, const ServerProcessor& processor) {
  if (shard != 0) return;
  const uint64_t id = processor.snapshot_given_up();
  if (said_ && *said_ < id) {
    spdlog::warn("snapshot {}: cancelled: another snapshot was in progress; request it again", id);
  }
  said_ = std::max(id, said_.value_or(0));
}

void SnapshotTaker::FollowOpen(ShardId shard, const ServerProcessor& processor, Time now) {
  const std::optional<uint64_t> open = processor.open_snapshot();
  if (!open) {
    at_work_.erase(shard);
    return;
  }
  const uint64_t updates = processor.counters().gradients_accepted();
  if (!at_work_.contains(shard) || at_work_.at(shard).open.id != *open) {
    at_work_[shard] = {.open = {*open, now}, .updates = updates, .since_update = now};
    spdlog::info("shard {}: snapshot {} requested", shard, *open);
    return;
  }
  AtWork& at_work = at_work_.at(shard);
  if (at_work.updates == updates) return;
  at_work.updates = updates;
  at_work.since_update = now;
}

void SnapshotTaker::CutOrCancel(Time now, std::vector<OutgoingRecord>& out) {
  const auto found = at_work_.find(ShardId(0));
  if (found == at_work_.end()) return;
  AtWork& at_work = found->second;
  const uint64_t id = at_work.open.id;
  const Time::duration update = paces_.at(ShardId(0)).took;
  const Time::duration most = MostToTheCut(update, PipelineOf(training_.training()));
  const bool is_late = now - at_work.open.since > most;
  const bool is_quiet = now - at_work.since_update > Quiet(update, ShardsOfGroup(training_));
  if (!at_work.is_told && (is_quiet || is_late)) {
    spdlog::info(
        "snapshot {}: too few updates came for its cut; it is taken of the shards as they are", id);
    for (ShardId shard = 0; shard < ShardsOfGroup(training_); ++shard) {
      out.push_back(SnapshotCutHere(config_, shard, id));
    }
    at_work.is_told = true;
    at_work.open.since = now;
  } else if (at_work.is_told && is_late) {
    spdlog::warn(
        "snapshot {}: cancelled: shard 0 did not read the order to cut in time; see whether this "
        "ServerApp reads gradients (its log, the broker), then request the snapshot again",
        id);
    Cancel(id, false, out);
    at_work.open.since = now;
  }
}

void SnapshotTaker::Tick(ShardId shard, const ServerProcessor& processor, Time now,
                         std::vector<OutgoingRecord>& out) {
  FollowPace(shard, processor.clocks(), now);
  SayGivenUp(shard, processor);
  FollowOpen(shard, processor, now);
  if (shard != 0) return;
  CutOrCancel(now, out);
  if (!unfinished_ || now < next_look_) return;
  next_look_ = now + kLook;
  const uint64_t id = unfinished_->id;
  const StatusOr<bool> ended = TryToEnd(id);
  if (ended.ok() && *ended) {
    unfinished_.reset();
  } else if (!ended.ok()) {
    if (id != 0) Cancel(id, true, out);
    unfinished_.reset();
  } else if (id != 0 && now - unfinished_->since > kMostForParts) {
    // (What the job ends with is waited for as long as the job: see Finished.)
    Warn(SnapshotFolder(config_, id), absl::DeadlineExceededError(PartsMissing(id)));
    Cancel(id, true, out);
    unfinished_.reset();
  }
}

// All shards at once: if each gave up at its own pace, some would stand at the cut for nothing.
void SnapshotTaker::Cancel(uint64_t id, bool is_incomplete, std::vector<OutgoingRecord>& out) {
  for (ShardId shard = 0; shard < ShardsOfGroup(training_); ++shard) {
    out.push_back(SnapshotCancel(config_, shard, id, is_incomplete));
  }
  said_ = std::max(id, said_.value_or(0));
  std::error_code ignored;
  std::filesystem::remove_all(PartialSnapshotFolder(config_, id), ignored);
}

bool SnapshotTaker::Finished(Time now) {
  if (!unfinished_) return models_.idle();
  if (!finishing_) finishing_ = now;
  const StatusOr<bool> ended = TryToEnd(unfinished_->id);
  if (!ended.ok() || *ended) {
    unfinished_.reset();
  } else if (now - *finishing_ > kMostAtTheEnd) {
    Warn(SnapshotFolder(config_, unfinished_->id),
         absl::DeadlineExceededError(PartsMissing(unfinished_->id)));
    unfinished_.reset();
  }
  return !unfinished_ && models_.idle();
}

}  // namespace millrace
