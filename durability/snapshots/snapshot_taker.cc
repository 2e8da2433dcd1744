#include "durability/snapshots/snapshot_taker.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

#include "base/clock.h"
#include "durability/snapshots/snapshot_files.h"
#include "durability/snapshots/snapshot_request.h"
#include "durability/snapshots/snapshot_writer.h"
#include "messages/snapshot.pb.h"

namespace millrace {
namespace {

// Workers held at a cut wait; so long, and for some of the slowest worker's updates, but no longer.
constexpr std::chrono::seconds kMostToTheCut(30);
constexpr int kUpdatesToTheCut = 3;  // two, of which the first may have just begun
constexpr std::chrono::minutes kMostForUpdates(10);
constexpr std::chrono::seconds kMostForParts(120);
constexpr std::chrono::seconds kMostAtTheEnd(30);
constexpr std::chrono::milliseconds kLook(200);

void Warn(const std::string& folder, const Status& status) {
  spdlog::warn("the snapshot {} is not made: {}", folder,
               std::string_view(status.message().data(), status.message().size()));
}

}  // namespace

void SnapshotTaker::WritePart(uint64_t id, const ServerOptions& options,
                              const ServerProcessor& processor, const OrderedByteMap& store,
                              Time now) {
  const std::string folder = SnapshotFolder(config_, id);
  const Time begin = std::chrono::steady_clock::now();
  SnapshotPart head;
  head.set_job(config_.name());
  head.set_epoch(config_.epoch());
  head.set_snapshot(id);
  const Status written = WriteSnapshotPart(folder, head, options, processor, store);
  if (!written.ok()) return Warn(folder, written);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  spdlog::info("shard {}: its part of the snapshot {} is written, in {:.2f} s", options.shard,
               folder, took.count());
  if (options.shard == 0) unfinished_ = {id, now};
}

bool SnapshotTaker::TryToEnd(uint64_t id) {
  const std::string folder = SnapshotFolder(config_, id);
  SnapshotManifest head;
  head.set_job(config_.name());
  head.set_epoch(config_.epoch());
  head.set_snapshot(id);
  head.set_created_ms(NowMs());
  *head.mutable_features() = features_;
  *head.mutable_training() = training_.training();
  const StatusOr<bool> ended = WriteManifest(folder, head);
  if (!ended.ok()) {
    Warn(folder, ended.status());
    return true;
  }
  if (*ended) spdlog::info("the snapshot {} is whole", folder);
  return *ended;
}

std::string SnapshotTaker::PartsMissing(uint64_t id) const {
  const std::string folder = SnapshotFolder(config_, id);
  std::string shards;
  for (ShardId shard = 0; shard < training_.shards(); ++shard) {
    std::error_code unreadable;  // counts as missing
    if (std::filesystem::exists(SnapshotFile(folder, "part", shard, "json"), unreadable)) continue;
    shards += (shards.empty() ? "" : ", ") + std::to_string(shard);
  }
  return "of shards " + shards +
         " no part has come; give their servers the same --snapshot-dir, on a disk that all share";
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
    spdlog::warn(
        "the snapshot {} is not made: it was given up, or asked for while another one was on its "
        "way or the workers had not come past that one's cut; ask again",
        id);
  }
  said_ = id;
}

void SnapshotTaker::Tick(ShardId shard, const ServerProcessor& processor, Time now,
                         std::vector<OutgoingRecord>& out) {
  FollowPace(shard, processor.clocks(), now);
  SayGivenUp(shard, processor);
  const std::optional<uint64_t> open = processor.open_snapshot();
  if (!open) {
    at_work_.erase(shard);
  } else if (!at_work_.contains(shard) || at_work_.at(shard).id != *open) {
    at_work_[shard] = {*open, now};
    spdlog::info("shard {}: on its way to the cut of the snapshot {}, two updates of every worker",
                 shard, *open);
  } else if (now - at_work_.at(shard).since >
             kMostToTheCut + std::min<Time::duration>(kUpdatesToTheCut * paces_.at(shard).took,
                                                      kMostForUpdates)) {
    spdlog::warn(
        "shard {}: the snapshot {} is given up: not every worker has sent the two updates "
        "that lead to its cut; make one while rows come",
        shard, *open);
    out.push_back(SnapshotCancel(config_, shard, *open));
    at_work_.at(shard).since = now;
  }
  if (shard != 0 || !unfinished_ || now < next_look_) return;
  next_look_ = now + kLook;
  if (TryToEnd(unfinished_->id)) {
    unfinished_.reset();
  } else if (unfinished_->id != 0 && now - unfinished_->since > kMostForParts) {
    // (What the job ends with is waited for as long as the job: see Finish.)
    Warn(SnapshotFolder(config_, unfinished_->id),
         absl::DeadlineExceededError(PartsMissing(unfinished_->id)));
    unfinished_.reset();
  }
}

void SnapshotTaker::Finish() {
  const Time begin = std::chrono::steady_clock::now();
  while (unfinished_ && !TryToEnd(unfinished_->id)) {
    if (std::chrono::steady_clock::now() - begin > kMostAtTheEnd) {
      return Warn(SnapshotFolder(config_, unfinished_->id),
                  absl::DeadlineExceededError(PartsMissing(unfinished_->id)));
    }
    std::this_thread::sleep_for(kLook);
  }
}

}  // namespace millrace
