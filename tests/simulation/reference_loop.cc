#include "tests/simulation/reference_loop.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/check.h"
#include "models/drift_detector.h"
#include "models/evaluation.h"
#include "models/gradient_sum.h"
#include "models/initial_weights.h"
#include "models/local_solver.h"
#include "models/moments.h"
#include "models/online_softmax.h"
#include "models/optimizer.h"
#include "stores/embedding_table.h"
#include "tests/simulation/plain_learner.h"
#include "tests/simulation/plain_trainers.h"
#include "topics/partitioning.h"

namespace millrace::simulation {
namespace {

OptimizerOptions OptimizerFrom(const Training& training) {
  const Training::Optimizer& from = training.optimizer();
  OptimizerOptions to;
  const std::pair<Training::Optimizer::Kind, OptimizerOptions::Kind> kinds[] = {
      {Training::Optimizer::SGD, OptimizerOptions::Kind::kSgd},
      {Training::Optimizer::MOMENTUM, OptimizerOptions::Kind::kMomentum},
      {Training::Optimizer::ADAGRAD, OptimizerOptions::Kind::kAdaGrad},
      {Training::Optimizer::ADAM, OptimizerOptions::Kind::kAdam},
      {Training::Optimizer::FTRL, OptimizerOptions::Kind::kFtrl}};
  for (const auto& [named, kind] : kinds) {
    if (from.kind() == named) to.kind = kind;
  }
  if (training.update().kind() == Training::Update::ONLINE) to.kind = OptimizerOptions::Kind::kSum;
  to.learning_rate = from.learning_rate();
  to.decay = from.decay();
  to.momentum = from.momentum();
  to.beta1 = from.beta1();
  to.beta2 = from.beta2();
  to.epsilon = from.epsilon();
  to.ftrl_beta = from.ftrl_beta();
  to.l1 = from.l1();
  to.l2 = training.l2();
  return to;
}

// The nearest number of `digits` binary digits whose last is 2^least or more; of two the even one.
float Rounded(float value, int digits, int least) {
  const auto exact = static_cast<double>(value);
  if (value == 0) return value;
  const double step = std::ldexp(1.0, std::max(std::ilogb(exact) - digits + 1, least));
  return static_cast<float>(std::nearbyint(exact / step) * step);
}

// What one worker adds to a round.
struct Update {
  WorkerId worker = 0;
  bool trained = false;
  double weight = 0;
  std::vector<float> values;
  Moments moments;
  EvaluationSums tested;  // of an online learner's rows: each by what was learnt before it
  std::map<EmbeddingId, std::vector<float>> rows;  // the sums of those that were named
};

class Loop {
 public:
  explicit Loop(const Scenario& scenario)
      : scenario_(scenario),
        training_(scenario.training),
        model_(MakeModel(scenario)),
        optimizer_(Optimizer::Create(OptimizerFrom(training_))),
        weights_(InitialWeights(model_->random_init_ranges(), training_.embedding().seed(),
                                {0, model_->parameter_count()})),
        slots_(optimizer_->slot_count() * weights_.size()),
        moments_(scenario.numeric),
        steps_(scenario.shards),
        shrinkage_(scenario.shards) {
    // A row that nobody has updated has the values that it is born with.
    const ServerOptions options = MakeServerOptions(scenario, 0);
    if (!options.embeddings) return;
    EmbeddingTable newborn(*options.embeddings, nullptr);
    for (EmbeddingId id : AllIds(scenario)) {
      rows_[id].values.resize(model_->row_width());
      rows_[id].slots.resize(optimizer_->slot_count() * model_->row_width());
      const std::vector<EmbeddingId> ids = {id};
      MILLRACE_CHECK(newborn.Read(ids, {}, rows_[id].values).ok());
    }
  }

  Trained Run(const SkippedUpdates& skipped, const std::set<Clock>& rounds,
              const Presence& presence) {
    Trained trained;
    std::vector<RowNumber> counted(scenario_.workers);  // by shard 0
    const auto has_rows = [&](WorkerId worker) { return counted[worker] < scenario_.rows[worker]; };
    const auto is_skipped = [&](ShardId shard, WorkerId worker, Clock clock) {
      return shard < skipped.size() && skipped[shard].contains({worker, clock});
    };
    for (Clock clock = 0;; ++clock) {
      std::vector<WorkerId> present;
      for (WorkerId worker = 0; worker < scenario_.workers; ++worker) {
        const bool is_there = presence.empty() || (presence.contains(clock) &&
                                                   presence.at(clock).workers.contains(worker));
        if (has_rows(worker) && is_there) present.push_back(worker);
      }
      beside_ = scenario_.resizes() ? scenario_.first_workers : scenario_.workers_with_rows();
      if (presence.contains(clock) && presence.at(clock).told > 0) {
        beside_ = presence.at(clock).told;
      }
      if (present.empty()) break;
      if (rounds.contains(clock)) trained.after[clock] = State();
      std::vector<Update> round;
      for (const WorkerId worker : present) round.push_back(Compute(worker, counted[worker]));
      const uint64_t told = moments_.drifts;  // by the workers of this round
      for (ShardId shard = 0; shard < scenario_.shards; ++shard) {
        std::vector<Update> taken = round;
        std::erase_if(
            taken, [&](const Update& update) { return is_skipped(shard, update.worker, clock); });
        Apply(taken, shard);
      }
      if (told > forgotten_) Forget(told);
      for (const WorkerId worker : present) {
        const bool counts =
            !is_skipped(ShardId(0), worker, clock) || skipped[0].at({worker, clock});
        if (counts) counted[worker] = scenario_.BatchEnd(worker, counted[worker]);
      }
    }
    trained.end = State();
    trained.moments = moments_;
    trained.misled = misled_;
    if (!rounds.empty()) trained.after.try_emplace(*rounds.rbegin(), trained.end);
    return trained;
  }

 private:
  struct EmbeddingRow {
    std::vector<float> values;
    std::vector<float> slots;
    // Of its shard when an update last named it. Until then it is as it is born, whatever the
    // penalty.
    std::optional<double> shrinkage;
  };

  std::vector<float> State() const {
    std::vector<float> all = weights_;
    for (const auto& [id, row] : rows_) {
      const std::vector<float> values = ValuesOf(id);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

  // Caught up with the penalties that the row has missed.
  std::vector<float> ValuesOf(EmbeddingId id) const {
    const EmbeddingRow& row = rows_.at(id);
    std::vector<float> values = row.values;
    if (!row.shrinkage) return values;
    const double missed = shrinkage_[ShardOfEmbedding(id, scenario_.shards)] - *row.shrinkage;
    if (missed > 0) optimizer_->CatchUp(missed, values, row.slots);
    return values;
  }

  // What a worker's updates have not sent yet.
  struct Kept {
    std::vector<float> values;
    std::map<EmbeddingId, std::vector<float>> rows;
  };

  Update Compute(WorkerId worker, RowNumber begin) {
    Update update;
    update.worker = worker;
    update.moments = Moments(scenario_.numeric);
    std::vector<Row> rows;
    const RowNumber end =
        std::min<RowNumber>(scenario_.BatchEnd(worker, begin), scenario_.rows[worker]);
    for (RowNumber number = begin; number < end; ++number) {
      const uint64_t stream_row = scenario_.StreamRow(worker, number);
      const uint64_t freeze = training_.freeze_after_rows();
      if (IsUndecodable(scenario_, worker, number)) continue;
      if (freeze > 0 && stream_row >= freeze) continue;
      rows.push_back(MakeRow(scenario_, worker, number));
    }
    if (rows.empty()) return update;
    std::vector<const Row*> batch;
    for (const Row& row : rows) batch.push_back(&row);
    GradientSum gradient(weights_.size(), model_->block_size());
    update.trained = true;
    std::vector<EmbeddingId> ids;
    std::vector<float> values;
    for (const Row& row : rows) {
      std::vector<EmbeddingId> named;
      model_->AppendIds(row, named);
      for (EmbeddingId id : named) update.rows[id];
    }
    for (const auto& [id, sum] : update.rows) {
      const std::vector<float> row = ValuesOf(id);
      ids.push_back(id);
      values.insert(values.end(), row.begin(), row.end());
    }
    std::vector<float> row_gradient(values.size());
    const bool scales = training_.scaling() == Training::RUNNING;
    Scaler scaler = Scaler::Identity(scenario_.numeric);
    if (model_->online() != nullptr) {
      Learn(batch, {ids, values, row_gradient}, gradient, update);
    } else {
      for (const Row& row : rows) {
        if (scales) update.moments.Add(row);
        if (scenario_.regression) update.moments.target.Add(row.target);
      }
      Moments seen = moments_;
      seen.Merge(update.moments);
      if (scales) scaler = Scaler(seen);
      const TargetMoments own = seen.target.WithoutVotes();
      scaler.set_target(own);
      // Classes' scores begin at how frequent they have been in the batches before.
      scaler.set_class_rows(moments_.class_rows);
      if (scenario_.counts_classes()) {
        update.moments.class_rows.resize(scenario_.classes);
        for (const Row& row : rows) ++update.moments.class_rows[row.label];
      }
      const std::unique_ptr<Model> weighted = Weighted(rows, update);
      const Model& model = weighted != nullptr ? *weighted : *model_;
      std::vector<float> scores(rows.size() * scenario_.scores());
      update.weight =
          model.Compute(batch, scaler, weights_, {ids, values, row_gradient}, &gradient, scores)
              .weight_sum;
      if (scenario_.regression) CountErrors(rows, scores, own, update);
    }
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto first = row_gradient.begin() + static_cast<ptrdiff_t>(i * model_->row_width());
      update.rows[ids[i]].assign(first, first + static_cast<ptrdiff_t>(model_->row_width()));
    }
    update.values.assign(gradient.values().begin(), gradient.values().end());
    if (scenario_.online()) CheckLearning(rows, ids, values, update);
    if (scenario_.averages()) {
      LocalSolverOptions options;
      options.kind = training_.update().solver() == Training::Update::LBFGS
                         ? LocalSolverOptions::Kind::kLbfgs
                         : LocalSolverOptions::Kind::kSgd;
      options.iterations = training_.update().local_iterations();
      options.learning_rate = training_.update().local_learning_rate();
      options.l2 = training_.l2();
      const std::unique_ptr<Model> weighted = Weighted(rows, update);
      update.values =
          SolveLocally(weighted != nullptr ? *weighted : *model_, batch, scaler, weights_, options)
              .change;
    }
    if (!scenario_.repeatable()) {
      KeepBack(update, gradient.SortedBlocks().size() * gradient.block_size());
    }
    Round(update);
    return update;
  }

  // How far the predictions were off. The scores are relative to all targets up to the end of the
  // batch; a prediction is so to those before it, and to the first, if that is all there is: which
  // itself is predicted by none.
  void CountErrors(const std::vector<Row>& rows, const std::vector<float>& scores,
                   const TargetMoments& own, Update& update) const {
    TargetMoments before = moments_.target;
    const size_t unpredicted = before.known() ? 0 : 1;
    if (unpredicted > 0) before.Add(rows.front().target);
    const double factor = before.deviation() / own.deviation();
    for (size_t i = unpredicted; i < rows.size(); ++i) {
      const double away = static_cast<double>(scores[i]) - own.mean;
      const double prediction = before.mean + away * factor;
      update.moments.target.AddOutcome(before.OutcomeOf(prediction, rows[i].target));
    }
  }

  // The model with the weights of a job with balanced classes: by what the rows up to the end of
  // the batch are, and one more of each class. Null: of any other job.
  std::unique_ptr<Model> Weighted(const std::vector<Row>& rows, Update& update) const {
    if (!scenario_.balances()) return nullptr;
    update.moments.class_rows.assign(scenario_.classes, 0);
    for (const Row& row : rows) ++update.moments.class_rows[row.label];
    std::vector<double> counts(scenario_.classes, 1);
    double all = 0;
    for (size_t k = 0; k < counts.size(); ++k) {
      if (k < moments_.class_rows.size()) counts[k] += static_cast<double>(moments_.class_rows[k]);
      counts[k] += static_cast<double>(update.moments.class_rows[k]);
      all += counts[k];
    }
    std::vector<float> weights;
    for (const double count : counts) {
      const double share = static_cast<double>(counts.size()) * count;
      weights.push_back(static_cast<float>(std::min(100.0, all / share)));
    }
    return model_->WithClassWeights(weights);
  }

  // Row by row: each is scaled by those before it. All workers of a round learn side by side.
  void Learn(RowsView batch, const EmbeddingBatch& embeddings, GradientSum& change,
             Update& update) const {
    RunningScaler scaler(moments_, training_.scaling() == Training::RUNNING);
    std::optional<ClassBalance> balance;
    if (scenario_.balances()) balance.emplace(moments_, scenario_.classes);
    const size_t width = scenario_.scores();
    std::vector<float> scores(batch.size() * width);
    update.weight = model_->online()
                        ->Learn({.rows = batch,
                                 .trained_end = batch.size(),
                                 .concurrent = beside_,
                                 .balance = balance ? &*balance : nullptr},
                                scaler, weights_, embeddings, change, scores)
                        .weight_sum;
    for (size_t i = 0; i < batch.size(); ++i) {
      if (i == 0 && scenario_.regression && !moments_.target.known()) {
        update.tested.AddUnpredicted();
        continue;
      }
      update.tested.AddRow(*batch[i], std::span(scores).subspan(i * width, width),
                           scenario_.classes);
    }
    update.moments = scaler.added();
    if (balance) update.moments.class_rows = balance->added();
  }

  // The learner's bytes are compared with its own; what they should be is seen by other code.
  void CheckLearning(const std::vector<Row>& rows, const std::vector<EmbeddingId>& ids,
                     const std::vector<float>& values, const Update& update) {
    if (!misled_.empty()) return;
    RowBlocks blocks;
    const auto width = static_cast<ptrdiff_t>(model_->row_width());
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto first = values.begin() + static_cast<ptrdiff_t>(i) * width;
      blocks[ids[i]].assign(first, first + width);
    }
    misled_ = DifferenceFromPlainLearner({scenario_, rows, moments_, weights_, blocks, beside_},
                                         {update.values, update.rows});
  }

  // The largest of what is new and what was kept is sent, and the others are kept: so many as the
  // fraction says of what was touched. By sorting all of it. (Poison does not come from rows here.)
  void KeepBack(Update& update, size_t touched) {
    Kept& kept = kept_[update.worker];
    const auto part = [this](size_t count) {
      const double fraction = training_.compression().top_k();
      return static_cast<size_t>(std::ceil(fraction * static_cast<double>(count)));
    };
    kept.values.resize(update.values.size());
    std::vector<std::pair<float, size_t>> order;
    for (size_t key = 0; key < kept.values.size(); ++key) {
      kept.values[key] += std::exchange(update.values[key], 0.0f);
      if (kept.values[key] != 0) order.emplace_back(-std::abs(kept.values[key]), key);
    }
    std::sort(order.begin(), order.end());
    order.resize(std::min(order.size(), part(touched)));
    for (const auto& [size, key] : order) {
      update.values[key] = std::exchange(kept.values[key], 0.0f);
    }

    const size_t most_rows = part(update.rows.size());
    for (auto& [id, values] : update.rows) {
      std::vector<float>& row = kept.rows[id];
      row.resize(values.size());
      for (size_t i = 0; i < row.size(); ++i) row[i] += values[i];
    }
    update.rows.clear();
    std::vector<std::pair<float, EmbeddingId>> rows;
    for (const auto& [id, row] : kept.rows) {
      float squares = 0;
      for (const float value : row) squares += value * value;
      rows.emplace_back(-squares, id);
    }
    std::sort(rows.begin(), rows.end());
    rows.resize(std::min(rows.size(), most_rows));
    for (const auto& [size, id] : rows) {
      update.rows[id] = std::move(kept.rows[id]);
      kept.rows.erase(id);
    }
  }

  // As the values arrive at the server.
  void Round(Update& update) const {
    const auto format = training_.compression().values();
    if (format == Training::Compression::FLOAT32) return;
    float largest = 0;
    const auto each = [&](const auto& change) {
      for (float& value : update.values) change(value);
      for (auto& [id, row] : update.rows) {
        for (float& value : row) change(value);
      }
    };
    each([&](float& value) { largest = std::max(largest, std::abs(value)); });
    if (largest == 0) return;
    if (format == Training::Compression::BF16) {
      each([](float& value) { value = Rounded(value, 8, -133); });
    } else {
      const int scale = std::ilogb(largest) - 14;
      each([scale](float& value) { value = Rounded(value, 11, scale - 24); });
    }
  }

  // What the round does to one shard's part of the weights. Shard 0 has the moments.
  void Apply(const std::vector<Update>& round, ShardId shard) {
    if (shard == 0) {
      for (const Update& update : round) {
        moments_.Merge(update.moments);
        Watch(update.tested);
      }
    }
    const KeyRange range = RangeOfShard(shard, scenario_.shards, weights_.size());
    double weight = 0;
    for (const Update& update : round) weight += update.trained ? update.weight : 0;
    if (weight > 0) {
      std::vector<float> sum(weights_.size());
      for (const Update& update : round) {
        if (!update.trained) continue;
        const float share =
            scenario_.averages() ? static_cast<float>(update.weight / weight) : 1.0f;
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += share * update.values[i];
      }
      if (scenario_.averages()) {
        for (size_t i = range.begin; i < range.end; ++i) weights_[i] += sum[i];
      } else {
        const float mean = scenario_.online() ? 1.0f : static_cast<float>(1 / weight);
        const bool in_gradient = training_.optimizer().kind() != Training::Optimizer::FTRL;
        const auto l2 = static_cast<float>(in_gradient ? training_.l2() : 0);
        for (float& value : sum) value *= mean;
        for (size_t i = 0; l2 > 0 && i < model_->penalised_end(); ++i) sum[i] += l2 * weights_[i];
        Step(range, sum, shard);
        StepRows(round, mean, shard);
      }
      ++steps_[shard];
    }
  }

  // Of a job that acts on drifts.
  void Watch(const EvaluationSums& tested) {
    if (training_.on_drift() != Training::FORGET || tested.rows == 0) return;
    all_tested_.Merge(tested);
    const double loss = DriftLoss(tested, all_tested_, scenario_.classes);
    if (drift_.Add(tested.rows, loss, all_tested_.rows, Clock(0))) ++moments_.drifts;
  }

  // All shards at once, and each row, whether updates have named it or not.
  void Forget(uint64_t drifts) {
    forgotten_ = drifts;
    model_->online()->forgetting().Forget(0, weights_);
    for (auto& [id, row] : rows_) OnlineForgetting::ForgetRow(1, row.values);
  }

  void Step(KeyRange range, const std::vector<float>& gradient, ShardId shard) {
    const size_t slot_count = optimizer_->slot_count();
    const auto begin = static_cast<ptrdiff_t>(range.begin);
    const auto end = static_cast<ptrdiff_t>(range.end);
    std::vector<float> slots;  // of the range, slot by slot
    for (size_t slot = 0; slot < slot_count; ++slot) {
      const auto first = slots_.begin() + static_cast<ptrdiff_t>(slot * weights_.size());
      slots.insert(slots.end(), first + begin, first + end);
    }
    const auto before = [range](size_t key) { return key - std::min<size_t>(range.begin, key); };
    optimizer_->Step(steps_[shard], std::span(gradient).subspan(range.begin, range.size()),
                     std::span(weights_).subspan(range.begin, range.size()), slots,
                     {before(model_->penalised_end()), before(model_->linear_end())});
    for (size_t slot = 0; slot < slot_count; ++slot) {
      std::copy_n(slots.begin() + static_cast<ptrdiff_t>(slot * range.size()), range.size(),
                  slots_.begin() + static_cast<ptrdiff_t>(slot * weights_.size() + range.begin));
    }
  }

  void StepRows(const std::vector<Update>& round, float mean, ShardId shard) {
    std::map<EmbeddingId, std::vector<float>> sums;
    for (const Update& update : round) {
      for (const auto& [id, values] : update.rows) {
        if (ShardOfEmbedding(id, scenario_.shards) != shard) continue;
        std::vector<float>& sum = sums[id];
        sum.resize(values.size());
        for (size_t i = 0; i < values.size(); ++i) sum[i] += values[i];
      }
    }
    const bool in_gradient =
        scenario_.penalises_rows() && training_.optimizer().kind() != Training::Optimizer::FTRL;
    const double l2 = in_gradient ? training_.l2() : 0;
    for (auto& [id, sum] : sums) rows_[id].values = ValuesOf(id);
    if (l2 > 0) shrinkage_[shard] += optimizer_->Shrinkage(steps_[shard], l2);
    for (auto& [id, sum] : sums) {
      EmbeddingRow& row = rows_[id];
      row.shrinkage = shrinkage_[shard];
      for (size_t i = 0; i < sum.size(); ++i) {
        sum[i] *= mean;
        if (l2 > 0) sum[i] += static_cast<float>(l2) * row.values[i];
      }
      optimizer_->Step(steps_[shard], sum, row.values, row.slots,
                       {model_->row_linear_end(), model_->row_linear_end()});
    }
  }

  const Scenario& scenario_;
  const Training& training_;
  const std::unique_ptr<Model> model_;
  const std::unique_ptr<Optimizer> optimizer_;
  std::vector<float> weights_;
  std::vector<float> slots_;
  std::map<EmbeddingId, EmbeddingRow> rows_;
  Moments moments_;
  std::map<WorkerId, Kept> kept_;
  std::vector<uint64_t> steps_;    // by shard
  std::vector<double> shrinkage_;  // the same
  std::string misled_;             // Trained's
  DriftDetector drift_{{kDriftBlockRows, kFirstDriftBlocks}};
  EvaluationSums all_tested_;
  uint64_t forgotten_ = 0;  // of moments_.drifts
  uint32_t beside_ = 1;     // workers that learn side by side
};

}  // namespace

Trained TrainInOneProcess(const Scenario& scenario, const SkippedUpdates& skipped,
                          const std::set<Clock>& rounds, const Presence& presence) {
  if (scenario.external()) return TrainPlainly(scenario, skipped, rounds);
  return Loop(scenario).Run(skipped, rounds, presence);
}

}  // namespace millrace::simulation
