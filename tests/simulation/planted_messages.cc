// Errors in what a server takes from messages, and in what it answers.
#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "base/big_endian.h"
#include "tests/simulation/planted_shapes.h"

namespace millrace::simulation {
namespace {

// Takes the update that it took last once more.
class ForgetsDeduplication final : public AltersUpdates {
 public:
  using AltersUpdates::AltersUpdates;

 protected:
  bool Alter(Gradient& update) const override {
    const VectorClock& clocks = task().processor().clocks();
    const WorkerId worker(update.worker());
    if (!clocks.Contains(worker) || update.clock() + 1 != clocks.clock(worker)) {
      return false;
    }
    update.set_clock(update.clock() + 1);
    return true;
  }
};

// Counts an update's rows without the probabilities of their predictions.
class LosesCalibration final : public AltersUpdates {
 public:
  using AltersUpdates::AltersUpdates;

 protected:
  bool Alter(Gradient& update) const override {
    EvaluationSumsMessage& sums = *update.mutable_update()->mutable_progressive();
    if (sums.calibration_bin_size() == 0) return false;
    sums.clear_calibration_bin();
    sums.clear_calibration_rows();
    sums.clear_calibration_correct();
    sums.clear_calibration_confidence();
    return true;
  }
};

// Takes other rows together than it should when it watches for drift.
class WatchesOtherBlocks final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  ServerOptions Options() const override {
    ServerOptions options = ServerHost::Options();
    ++options.drift_pace.block_rows;
    return options;
  }
};

// Of an update that names several rows the last one makes no step; all else of it is taken.
class LosesARow final : public AltersUpdates {
 public:
  using AltersUpdates::AltersUpdates;

 protected:
  bool Alter(Gradient& update) const override {
    if (update.update().embeddings().id_size() < 2) return false;
    EmbeddingBlock& rows = *update.mutable_update()->mutable_embeddings();
    const int width = rows.value_size() / rows.id_size();
    rows.mutable_id()->RemoveLast();
    rows.mutable_value()->Truncate(rows.id_size() * width);
    return true;
  }
};

// An update's rows make another step by the same gradients; nothing else does.
class StepsRowsTwice final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  Status Fold(const GradientRecord& record, std::vector<OutgoingRecord>& out) override {
    const uint64_t steps = task().processor().steps();
    MILLRACE_RETURN_IF_ERROR(ServerHost::Fold(record, out));
    const std::optional<Gradient> update = UpdateIn(record.value);
    if (!update || task().processor().steps() == steps) return absl::OkStatus();
    const EmbeddingBlock& rows = update->update().embeddings();
    std::vector<float> gradients(rows.value().begin(), rows.value().end());
    for (float& value : gradients) value /= static_cast<float>(update->update().weight_sum());
    const float rate = static_cast<float>(world_.scenario.training.optimizer().learning_rate());
    return task().processor().embeddings()->Update(
        std::vector<EmbeddingId>(rows.id().begin(), rows.id().end()), gradients,
        {.ms = record.timestamp_ms}, 0, [rate](auto gradient, std::span<float> values, auto) {
          for (size_t i = 0; i < values.size(); ++i) values[i] -= rate * gradient[i];
        });
  }
};

// Takes a time that is hours away from the last one for a clock that is wrong, and stays near.
class DoubtsTheTime final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  Status Fold(const GradientRecord& record, std::vector<OutgoingRecord>& out) override {
    constexpr int64_t kHour = 3'600'000;
    GradientRecord doubted = record;
    doubted.timestamp_ms = std::min(record.timestamp_ms, last_ms_ + kHour);
    last_ms_ = doubted.timestamp_ms;
    return ServerHost::Fold(doubted, out);
  }

 private:
  int64_t last_ms_ = 0;
};

class ForgetsAnnouncement final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  StatusOr<bool> Announce(std::vector<OutgoingRecord>&) override { return false; }
};

class ReleasesOneTooFar final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  ServerOptions Options() const override {
    ServerOptions options = ServerHost::Options();
    options.consistency = ConsistencyPolicy::Bounded(*options.consistency.bound() + 1);
    return options;
  }
};

// Takes an update whatever its clock, if that is to come.
class BelievesAClockToCome final : public AltersUpdates {
 public:
  using AltersUpdates::AltersUpdates;

 protected:
  bool Alter(Gradient& update) const override {
    const VectorClock& clocks = task().processor().clocks();
    const WorkerId worker(update.worker());
    if (!clocks.Contains(worker)) return false;
    const Clock present = clocks.clock(worker);
    if (update.clock() <= present) return false;
    update.set_clock(present);
    return true;
  }
};

// Says nothing to who sends what is old.
class DropsInSilence final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  Status Fold(const GradientRecord& record, std::vector<OutgoingRecord>& out) override {
    const std::optional<Gradient> update = UpdateIn(record.value);
    const VectorClock& clocks = task().processor().clocks();
    const WorkerId worker(update ? update->worker() : 0);
    const bool old = update && clocks.Contains(worker) && update->clock() < clocks.clock(worker);
    Status status = ServerHost::Fold(record, out);
    if (old) out.clear();
    return status;
  }
};

class AppliesPoison final : public AltersUpdates {
 public:
  using AltersUpdates::AltersUpdates;

 protected:
  bool Alter(Gradient& update) const override {
    for (float& value : *update.mutable_update()->mutable_slice()->mutable_dense()) {
      if (!std::isfinite(value)) value = 1;
    }
    for (float& value : *update.mutable_update()->mutable_slice()->mutable_sparse_value()) {
      if (!std::isfinite(value)) value = 1;
    }
    return true;
  }
};

// Adds up a round's gradients as they came. (Plain SGD, one shard; for the rest of the state it is
// right.)
class CombinesInArrivalOrder final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  Status Fold(const GradientRecord& record, std::vector<OutgoingRecord>& out) override {
    const std::optional<Gradient> update = UpdateIn(record.value);
    const ServerProcessor& processor = task().processor();
    if (!update || !processor.clocks().Contains(WorkerId(update->worker()))) {
      return ServerHost::Fold(record, out);
    }
    const WorkerId worker(update->worker());
    const uint64_t accepted = processor.counters().gradients_accepted();
    const uint64_t steps = processor.steps();
    const std::vector<float> before(processor.shard().weights().begin(),
                                    processor.shard().weights().end());
    MILLRACE_RETURN_IF_ERROR(ServerHost::Fold(record, out));
    if (processor.counters().gradients_accepted() > accepted) arrived_.push_back(*update);
    if (processor.clocks().clock(worker) == update->clock()) return absl::OkStatus();
    const std::vector<Gradient> round = std::exchange(arrived_, {});
    if (processor.steps() == steps || round.size() < 3) return absl::OkStatus();
    return Overwrite(before, round, steps);
  }

 private:
  Status Overwrite(const std::vector<float>& before, const std::vector<Gradient>& round,
                   uint64_t step) {
    std::vector<float> sum(before.size());
    double weight = 0;
    for (const Gradient& message : round) {
      const Gradient::Update& update = message.update();
      if (update.row_count() == 0) continue;
      weight += update.weight_sum();
      const Slice& slice = update.slice();
      for (int i = 0; i < slice.dense_size(); ++i) sum[i] += slice.dense(i);
      for (int i = 0; i < slice.sparse_index_size(); ++i) {
        sum[slice.sparse_index(i)] += slice.sparse_value(i);
      }
    }
    const Training::Optimizer& optimizer = world_.scenario.training.optimizer();
    const auto rate = static_cast<float>(optimizer.learning_rate() /
                                         (1 + optimizer.decay() * static_cast<double>(step)));
    ParameterBlock block;
    for (size_t i = 0; i < sum.size(); ++i) {
      block.add_weights(before[i] - rate * (sum[i] * static_cast<float>(1 / weight)));
    }
    auto& shard = const_cast<ParameterShard&>(task().processor().shard());
    return shard.LoadBlock("p" + EncodeBigEndian64(0), FrameOf(block));
  }

  std::vector<Gradient> arrived_;
};

void SequentialSgdOfThree(Scenario& scenario, Faults& faults) {
  Sequential(scenario, faults);
  scenario.shards = 1;
  while (scenario.workers < 3) {
    ++scenario.workers;
    scenario.rows.push_back(9);
  }
  scenario.hashed = 5;
  scenario.training.set_l2(0);
  scenario.training.mutable_update()->set_kind(Training::Update::GRADIENT);
  scenario.training.mutable_optimizer()->set_kind(Training::Optimizer::SGD);
}

// Sends all workers, with the clocks of a round, the weights of the round before.
class SharesOldWeights final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  Status Fold(const GradientRecord& record, std::vector<OutgoingRecord>& out) override {
    const std::span<const float> weights = task().processor().shard().weights();
    const std::vector<float> before(weights.begin(), weights.end());
    MILLRACE_RETURN_IF_ERROR(ServerHost::Fold(record, out));
    for (OutgoingRecord& answer : out) {
      SharedWeights message;
      const bool is_shared = answer.partition == SharedWeightsPartition(world_.scenario.workers);
      if (!is_shared || !message.ParseFromString(answer.value.substr(2))) continue;
      message.mutable_slice()->mutable_dense()->Assign(before.begin(), before.end());
      answer.value = FrameOf(message);
    }
    return absl::OkStatus();
  }
};

// Tells a worker that has to repeat an update something else than what it learnt from.
class ChangesTheAnswerOfTheClockBefore : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  virtual Status Change(Weights& message) const = 0;

  Status Fold(const GradientRecord& record, std::vector<OutgoingRecord>& out) final {
    MILLRACE_RETURN_IF_ERROR(ServerHost::Fold(record, out));
    for (OutgoingRecord& answer : out) {
      Weights message;
      if (!message.ParseFromString(answer.value.substr(2)) || !message.previous_round()) continue;
      MILLRACE_RETURN_IF_ERROR(Change(message));
      answer.value = FrameOf(message);
    }
    return absl::OkStatus();
  }
};

class AnswersTheClockBeforeByThePresent final : public ChangesTheAnswerOfTheClockBefore {
 public:
  using ChangesTheAnswerOfTheClockBefore::ChangesTheAnswerOfTheClockBefore;

 protected:
  Status Change(Weights& message) const override {
    const std::span<const float> now = task().processor().shard().weights();
    message.mutable_slice()->mutable_dense()->Assign(now.begin(), now.end());
    return absl::OkStatus();
  }
};

class AnswersRowsOfTheClockBeforeByThePresent final : public ChangesTheAnswerOfTheClockBefore {
 public:
  using ChangesTheAnswerOfTheClockBefore::ChangesTheAnswerOfTheClockBefore;

 protected:
  Status Change(Weights& message) const override {
    const auto& ids = message.embeddings().id();
    std::vector<float> now(static_cast<size_t>(message.embeddings().value_size()));
    MILLRACE_RETURN_IF_ERROR(
        task().processor().ReadEmbeddings(std::vector<EmbeddingId>(ids.begin(), ids.end()), now));
    message.mutable_embeddings()->mutable_value()->Assign(now.begin(), now.end());
    return absl::OkStatus();
  }
};

// SGD and AdaGrad on a wide model with a penalty.
void WideWithL2(Scenario& scenario, Faults& faults) {
  Sequential(scenario, faults);
  OfClasses(scenario);
  Training& training = scenario.training;
  scenario.wide = true;
  scenario.ids = 0;
  scenario.hashed = 5;
  training.set_model(Training::SOFTMAX);
  training.clear_hidden();
  training.set_schedule(Training::ONE_PASS);
  training.mutable_update()->set_kind(Training::Update::GRADIENT);
  training.set_wide_above(0);
  training.set_l2(0.01);
  const bool sgd = training.optimizer().kind() == Training::Optimizer::SGD;
  training.mutable_optimizer()->set_kind(sgd ? Training::Optimizer::SGD
                                             : Training::Optimizer::ADAGRAD);
}

}  // namespace

std::vector<PlantedError> PlantedInMessages() {
  std::vector<PlantedError> errors;
  errors.push_back(InServer<ForgetsDeduplication>("a dropped deduplication", 20, WholeMessages));
  errors.push_back(InServer<ForgetsAnnouncement>("a forgotten announcement", 20, WithoutTimer));
  errors.push_back(
      InServer<DropsInSilence>("a repeat that is dropped in silence", 200, WithoutTimer));
  errors.push_back(
      InServer<ReleasesOneTooFar>("a bound off by one", 50, [](Scenario& scenario, Faults&) {
        Training::Consistency& consistency = *scenario.training.mutable_consistency();
        consistency.set_model(Training::Consistency::BOUNDED);
        consistency.set_max_delay(std::max<uint64_t>(consistency.max_delay(), 1));
      }));
  errors.push_back(InServer<CombinesInArrivalOrder>("a round combined in arrival order", 20,
                                                    SequentialSgdOfThree));
  errors.push_back(
      InServer<SharesOldWeights>("shared weights of the round before", 20, Sequential));
  errors.push_back(InServer<AnswersTheClockBeforeByThePresent>(
      "a torn restart answered by the present weights", 50, SequentialShards));
  errors.push_back(InServer<AnswersRowsOfTheClockBeforeByThePresent>(
      "a torn restart answered by the present embedding rows", 100, SequentialEmbeddings));
  errors.push_back(
      InServer<WatchesOtherBlocks>("a watch for drift of other blocks", 20, Unchanged));
  errors.push_back(InServer<LosesCalibration>("calibration sums that are lost", 20, WholeMessages));
  errors.push_back(
      InServer<LosesARow>("a step of an embedding row that is lost", 20, EventualEmbeddings));
  errors.push_back(InServer<StepsRowsTwice>("a step of embedding rows that is made twice", 20,
                                            EventualEmbeddings));
  errors.push_back(
      InServer<LosesWhatRowsHaveMissed>("penalties missed that are forgotten", 50, WideWithL2));
  errors.push_back(InServer<DoubtsTheTime>("a clock that jumps and is not believed", 20,
                                           [](Scenario& scenario, Faults& faults) {
                                             EventualEmbeddings(scenario, faults);
                                             faults.clock_jumps = true;
                                           }));
  errors.push_back(InServer<AppliesPoison>("poison that is applied", 100,
                                           [](Scenario& scenario, Faults& faults) {
                                             WholeMessages(scenario, faults);
                                             faults.strangers = true;
                                           }));
  errors.push_back(InServer<BelievesAClockToCome>("an update of a clock to come that is taken", 50,
                                                  [](Scenario& scenario, Faults& faults) {
                                                    WholeMessages(scenario, faults);
                                                    faults.strangers = true;
                                                  }));
  return errors;
}

}  // namespace millrace::simulation
