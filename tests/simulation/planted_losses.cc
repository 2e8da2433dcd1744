// Errors in what a process does when its topic or its state was lost.
#include <algorithm>
#include <optional>

#include "tests/simulation/planted_shapes.h"

namespace millrace::simulation {
namespace {

// Takes the log as it finds it.
class StartsWhereverTheLogIs final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  Status StartReplay(Offset begin, Offset end) override {
    const Offset position = task().position();
    return ServerHost::StartReplay(std::min(begin, position), std::max(end, position));
  }
};

// Does not look at the record before its position.
class DoesNotRecogniseItsLog final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  Status StartReplay(Offset begin, Offset end) override {
    const Offset position = task().position();
    return ServerHost::StartReplay(position <= end ? std::max(begin, position) : begin, end);
  }
};

// Does not look at its last record again when its partition may have another leader.
class TrustsAnyLeader final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  std::optional<Offset> ConnectionLost() override { return std::nullopt; }
};

// Goes on with a copy of another `parameters`.
class TrustsItsCopy final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  Status CheckCopy(Offset, Offset) const override { return absl::OkStatus(); }
};

// Takes the topic that it finds for its own.
class ReadsAnotherTopic final : public WorkerHost {
 public:
  using WorkerHost::WorkerHost;

 protected:
  Status CheckGone(const Hosted&, WorkerFeed::Range) const override { return absl::OkStatus(); }
};

// A lost shard is not told which rows are there no more.
class DoesNotSayWhichRowsAreGone final : public WorkerHost {
 public:
  using WorkerHost::WorkerHost;

 protected:
  void Change(std::vector<OutgoingRecord>& records) const override {
    for (OutgoingRecord& record : records) {
      Gradient message;
      if (record.topic != Topic::kGradients || !message.ParseFromString(record.value.substr(2)) ||
          !message.has_restore()) {
        continue;
      }
      message.mutable_restore()->clear_committed_row();
      message.mutable_restore()->clear_least_clock();
      record.value = FrameOf(message);
    }
  }
};

// Of the reports to a lost shard those of newer weights come without them.
class PrefersOldWeights final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  Status Fold(const GradientRecord& record, std::vector<OutgoingRecord>& out) override {
    Gradient message;
    const bool is_report = record.value.size() > 2 && record.value[1] == 0 &&
                           message.ParseFromString(std::string(record.value.substr(2))) &&
                           message.restore().has_slice();
    if (!is_report || !task().processor().state_lost()) return ServerHost::Fold(record, out);
    oldest_ = std::min(oldest_, message.clock());
    if (message.clock() == oldest_) return ServerHost::Fold(record, out);
    message.mutable_restore()->clear_slice();
    const std::string value = FrameOf(message);
    GradientRecord altered = record;
    altered.value = value;
    return ServerHost::Fold(altered, out);
  }

 private:
  uint64_t oldest_ = UINT64_MAX;
};

void LostShards(Scenario& scenario, Faults& faults) {
  scenario.max_frame_bytes = kMaxFrameBytes;
  DrawLostCopies(scenario, faults);
  faults.rate = std::max(faults.rate, 0.02);
  faults.checkpoints = std::max(faults.checkpoints, 0.08);
}

}  // namespace

std::vector<PlantedError> PlantedInLosses() {
  std::vector<PlantedError> errors;
  errors.push_back(InWorker<DoesNotSayWhichRowsAreGone>(
      "a lost shard that is not told which rows are gone", 500, LostShards));
  errors.push_back(
      InServer<PrefersOldWeights>("a lost shard that goes on from older weights", 300, LostShards));
  errors.push_back(
      InWorker<ReadsAnotherTopic>("a worker that takes another topic for its own", 50, Losses));
  errors.push_back(InServer<StartsWhereverTheLogIs>(
      "a server that starts wherever the log begins or ends", 100, Losses));
  errors.push_back(InServer<DoesNotRecogniseItsLog>("a server that does not recognise another log",
                                                    100, Losses));
  errors.push_back(InServer<TrustsAnyLeader>(
      "a server that reads on where a new leader has other records", 100, Losses));
  errors.push_back(InServer<TrustsItsCopy>("a copy of a topic that was recreated", 300, Losses));
  return errors;
}

}  // namespace millrace::simulation
