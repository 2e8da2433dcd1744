// Errors of those who keep replicas.
#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "base/big_endian.h"
#include "base/check.h"
#include "tests/simulation/planted_shapes.h"

namespace millrace::simulation {
namespace {

// Applies each second checkpoint after the one that follows it.
class AppliesOutOfOrder final : public ReplicaHost {
 public:
  using ReplicaHost::ReplicaHost;

 protected:
  Status Apply(CheckpointAssembler::Part part) override {
    if (!held_) {
      held_ = std::move(part);
      return absl::OkStatus();
    }
    MILLRACE_RETURN_IF_ERROR(ReplicaHost::Apply(std::move(part)));
    return ReplicaHost::Apply(*std::exchange(held_, std::nullopt));
  }

 private:
  std::optional<CheckpointAssembler::Part> held_;
};

// Has the first records of each checkpoint take effect after its last one: the rest is there, and
// says that all of it is.
class AppliesAPartOfACheckpoint final : public ReplicaHost {
 public:
  using ReplicaHost::ReplicaHost;

 protected:
  Status Apply(CheckpointAssembler::Part part) override {
    std::vector<Checkpoint::Entry> late = std::exchange(late_, {});
    std::ranges::move(part.entries, std::back_inserter(late));
    part.entries = std::move(late);
    const bool has_more = part.entries.size() > 1;
    if (has_more) {
      late_.push_back(std::move(part.entries.front()));
      part.entries.erase(part.entries.begin());
    }
    return ReplicaHost::Apply(std::move(part));
  }

 private:
  std::vector<Checkpoint::Entry> late_;
};

// Goes on without what its disk has refused.
class GoesOnWithoutWhatIsRefused final : public ReplicaHost {
 public:
  using ReplicaHost::ReplicaHost;

 protected:
  Status Apply(CheckpointAssembler::Part part) override {
    const Status applied = ReplicaHost::Apply(std::move(part));
    return absl::IsResourceExhausted(applied) ? absl::OkStatus() : applied;
  }
};

// Its offset is that of now, its rows are those of a moment ago.
class GivesACopyAheadOfItsRows final : public ReplicaHost {
 public:
  using ReplicaHost::ReplicaHost;
  std::shared_ptr<Disk> Copy() const override {
    if (before_ == nullptr) return ReplicaHost::Copy();
    std::shared_ptr<Disk> copy = CopyOf(*before_);
    WriteBatch batch;
    batch.Put(kParametersOffsetKey, EncodeBigEndian64(static_cast<uint64_t>(offset_)));
    MILLRACE_CHECK(copy->map->Write(batch).ok());
    return copy;
  }

 protected:
  Status Apply(CheckpointAssembler::Part part) override {
    if (part.end) {
      before_ = ReplicaHost::Copy();
      offset_ = *part.end;
    }
    return ReplicaHost::Apply(std::move(part));
  }

 private:
  std::shared_ptr<Disk> before_;
  Offset offset_ = 0;
};

// Takes the first record of each checkpoint with the next one.
class SeesAPartOfACheckpoint final : public ImageHost {
 public:
  using ImageHost::ImageHost;

 protected:
  Status Take(ShardImage& image, CheckpointAssembler::Part part) override {
    std::vector<Checkpoint::Entry> late = std::exchange(late_, {});
    late_.push_back(std::move(part.entries.front()));
    part.entries.erase(part.entries.begin());
    std::ranges::move(part.entries, std::back_inserter(late));
    part.entries = std::move(late);
    return ImageHost::Take(image, std::move(part));
  }

 private:
  std::vector<Checkpoint::Entry> late_;
};

// Takes a block or row once, and what it is later not.
class KeepsWhatItHas final : public ImageHost {
 public:
  using ImageHost::ImageHost;

 protected:
  Status Take(ShardImage& image, CheckpointAssembler::Part part) override {
    std::erase_if(part.entries, [this](const Checkpoint::Entry& entry) {
      return !entry.key.starts_with(kStateKeyPrefix) && !seen_.insert(entry.key).second;
    });
    return ImageHost::Take(image, std::move(part));
  }

 private:
  std::set<std::string> seen_;
};

}  // namespace

std::vector<PlantedError> PlantedInFollowers() {
  std::vector<PlantedError> errors;
  errors.push_back(
      InFollower<AppliesOutOfOrder>("a replica that takes checkpoints out of order", 10));
  errors.push_back(InFollower<AppliesAPartOfACheckpoint>(
      "a replica that has the end of a checkpoint before all of it", 10));
  errors.push_back(InFollower<GivesACopyAheadOfItsRows>(
      "a copy of a replica whose offset is ahead of its rows", 20));
  errors.push_back(InFollower<GoesOnWithoutWhatIsRefused>(
      "a follower that goes on without what its disk has refused", 100));
  errors.push_back(InImage<SeesAPartOfACheckpoint>(
      "a follower that sees the end of a checkpoint before all of it", 10));
  errors.push_back(InImage<KeepsWhatItHas>("a follower that keeps what it has", 10));
  return errors;
}

}  // namespace millrace::simulation
