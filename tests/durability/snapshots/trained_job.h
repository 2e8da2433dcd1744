// Jobs of every kind that have been running for a while, and the models of their snapshots.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/distinct_ids.h"
#include "durability/snapshots/snapshot_files.h"
#include "durability/snapshots/snapshot_model.h"
#include "durability/snapshots/snapshot_writer.h"
#include "exports/model_reader.h"
#include "models/mixed_softmax.h"
#include "models/online_softmax.h"
#include "processors/server_processor.h"
#include "processors/shard_model.h"
#include "stores/memory_byte_map.h"
#include "tasks/checkpoint.h"
#include "tasks/checkpoint_assembler.h"
#include "tasks/state_codec.h"
#include "tasks/task_options.h"
#include "tests/models/random_rows.h"
#include "topics/figures_codec.h"
#include "topics/partitioning.h"

namespace millrace {

inline constexpr EmbeddingId kIds = 60;  // those of rows; hashed features are among them
inline constexpr uint32_t kWorkers = 2;

struct JobCase {
  const char* name;
  size_t classes = 2;  // 0: a regression
  bool ids = false;
  std::function<void(Training&)> set = [](Training&) {};
};

inline void SendGradients(Training& training) {
  training.mutable_update()->set_kind(Training::Update::GRADIENT);
}
inline void Widen(Training& training) { training.set_wide_above(1); }

inline std::vector<JobCase> AllJobCases() {
  const auto of_model = [](Training::Model model) {
    return [model](Training& training) { training.set_model(model); };
  };
  return {
      {"OnlineOfTwoClasses"},
      {"OnlineOfManyClasses", 4},
      {"OnlineWide", 3, false, Widen},
      {"OnlineWithIds", 2, true},
      {"OnlineWideWithIds", 3, true, Widen},
      {"OnlineRegression", 0},
      {"OnlineRegressionWithIds", 0, true},
      {"OnlineUnscaled", 2, false, [](Training& t) { t.set_scaling(Training::NONE); }},
      {"Softmax", 3, false, SendGradients},
      {"WideSoftmaxThatMissesPenalties", 3, false,
       [](Training& t) {
         SendGradients(t);
         Widen(t);
         t.set_l2(0.01);
       }},
      {"RegressionWithIds", 0, true, SendGradients},
      {"FactorizationMachine", 2, true, of_model(Training::FACTORIZATION_MACHINE)},
      {"FactorizationMachineOfANumber", 0, true, of_model(Training::FACTORIZATION_MACHINE)},
      {"DeepFm", 2, true, of_model(Training::DEEP_FM)},
      {"DeepFmWithClassWeights", 2, true,
       [](Training& t) {
         t.set_model(Training::DEEP_FM);
         t.add_class_weight("class 1=3");
       }},
      {"Network", 3, false, of_model(Training::NETWORK)},
      {"NetworkWithClassWeights", 3, true,
       [](Training& t) {
         t.set_model(Training::NETWORK);
         t.add_class_weight("class 1=3");
       }},
      {"BalancedNetwork", 3, true,
       [](Training& t) {
         t.set_model(Training::NETWORK);
         t.add_class_weight("balanced");
       }},
      {"WideNetwork", 3, true,
       [](Training& t) {
         t.set_model(Training::NETWORK);
         Widen(t);
       }},
      {"NetworkOfANumber", 0, true, of_model(Training::NETWORK)},
  };
}

// A job that has been running for a while, on some shards.
class TrainedJob {
 public:
  TrainedJob(const JobCase& each, uint32_t shards) : random_(7) {
    FeatureSpec& spec = *features_.mutable_spec();
    spec.set_label("y");
    if (each.classes == 0) spec.set_regression(true);
    for (size_t k = 0; k < each.classes; ++k) spec.add_classes("class " + std::to_string(k));
    for (const char* column : {"a", "b"}) spec.add_numeric(column);
    spec.add_categorical("c");
    spec.set_categorical_buckets(16);
    if (each.ids) spec.add_ids("u");
    if (each.ids) spec.add_ids("v");
    features_.set_feature_count(20);  // indicators of missing numbers, too
    features_.set_workers(kWorkers);
    features_.set_job("job");
    Training& training = *training_.mutable_training();
    training.mutable_embedding()->set_admit_after(2);
    training.mutable_embedding()->set_initial_limit(0.5);
    each.set(training);
    SetDefaults(training);
    training_.set_shards(shards);
    model_ = MakeModel(features_, training);
    std::vector<float> weights = RandomFloats(model_->parameter_count(), 0.5f, random_);
    for (ShardId shard = 0; shard < shards; ++shard) AddShard(shard, weights);
    weights_ = std::move(weights);
  }

  std::string WriteSnapshot(const std::string& folder) {
    for (const Shard& shard : shards_) {
      SnapshotPart head;
      head.set_job("job");
      head.set_epoch(1);
      head.set_snapshot(4);
      const Status written =
          WriteSnapshotPart(folder, head, shard.options, *shard.processor, *shard.store);
      EXPECT_TRUE(written.ok()) << written;
    }
    SnapshotManifest head;
    head.set_job("job");
    head.set_epoch(1);
    head.set_snapshot(4);
    *head.mutable_features() = features_;
    *head.mutable_training() = training_.training();
    const StatusOr<bool> whole = WriteManifest(folder, head);
    EXPECT_TRUE(whole.ok() && *whole) << whole.status();
    return folder;
  }

  // What the evaluation of the server has of these rows.
  std::vector<float> ScoresOf(const std::vector<const Row*>& rows) {
    std::vector<EmbeddingId> ids;
    for (const Row* row : rows) model_->AppendIds(*row, ids);
    SortDistinct(ids);
    const std::vector<float> values = RowsOf(ids);
    Scaler scaler = training_.training().scaling() == Training::RUNNING
                        ? Scaler(moments_)
                        : Scaler::Identity(moments_.columns());
    scaler.set_target(moments_.target);
    scaler.set_class_rows(moments_.class_rows);
    std::vector<float> scores(rows.size() * model_->score_count());
    if (const OnlineSoftmax* online = model_->online()) {
      const std::vector<float> mixed = online->MixedParameters(weights_);
      const std::vector<float> mixed_rows = online->MixBlocks(weights_, values);
      MixedSoftmax(online->shape())
          .Compute(rows, scaler, mixed, {ids, mixed_rows}, nullptr, scores);
    } else {
      model_->Compute(rows, scaler, weights_, {ids, values}, nullptr, scores);
    }
    return scores;
  }

  std::vector<Row> SomeRows() {
    const bool has_ids = features_.spec().ids_size() > 0;
    const size_t classes = std::max(features_.spec().classes_size(), 1);
    std::vector<EmbeddingId> ids;
    for (EmbeddingId id = 0; id < kIds + 10; ++id) ids.push_back(id * id);
    std::vector<Row> rows = RandomRows({.numeric = 2,
                                        .hashed = 18,
                                        .hashed_in_row = 5,
                                        .missing = 0.2,
                                        .ids = ids,
                                        .ids_in_row = has_ids ? 2u : 0u},
                                       classes, 40, random_);
    return rows;
  }

  // What the feed of the weights has of a shard.
  std::string FeedBody(ShardId shard, uint64_t version) const {
    const StatusOr<MessageBytes> body = shards_[shard].processor->SharedAnswer(version, {});
    EXPECT_TRUE(body.ok()) << body.status();
    return body->Joined();
  }

  // The last part of a checkpoint of all of a shard, as readers of `parameters` assemble it.
  CheckpointAssembler::Part CheckpointOf(ShardId shard) const {
    CheckpointAssembler::Part part;
    const ParameterShard& weights = shards_[shard].processor->shard();
    for (size_t block = 0; block < weights.block_count(); ++block) {
      ParameterShard::Encoded encoded = weights.EncodeBlock(block);
      part.entries.push_back({std::move(encoded.key), std::move(encoded.value)});
    }
    const Status read = shards_[shard].store->Scan("", "\xff", [&](auto key, auto value) {
      part.entries.push_back({std::string(key), std::string(value)});
      return true;
    });
    EXPECT_TRUE(read.ok()) << read;
    ShardState state;
    shards_[shard].processor->SaveState(state);
    const auto pieces = EncodeState(std::move(state));
    EXPECT_TRUE(pieces.ok()) << pieces.status();
    for (const std::string& piece : *pieces) part.state += piece;
    part.end = Offset(1);
    return part;
  }

  const JobFeatures& features() const { return features_; }
  const JobTraining& training() const { return training_; }
  const Model& model() const { return *model_; }
  size_t classes() const { return static_cast<size_t>(features_.spec().classes_size()); }
  const Moments& moments() const { return moments_; }

 private:
  struct Shard {
    ServerOptions options;
    std::unique_ptr<MemoryByteMap> store;
    std::unique_ptr<ServerProcessor> processor;
  };

  void AddShard(ShardId of, const std::vector<float>& weights) {
    Shard shard{MakeServerOptions(features_, training_, of), std::make_unique<MemoryByteMap>(),
                nullptr};
    shard.processor = std::make_unique<ServerProcessor>(shard.options, shard.store.get());
    const auto begin = weights.begin() + static_cast<ptrdiff_t>(shard.options.range.begin);
    std::copy_n(begin, shard.options.range.size(),
                shard.processor->mutable_shard().mutable_weights().begin());
    if (shard.processor->embeddings() != nullptr) AddRows(shard);
    ShardState state;
    shard.processor->SaveState(state);
    for (ShardState::Member& member : *state.mutable_members()) member.set_clock(9);
    if (training_.training().l2() > 0) state.set_shrinkage(0.5 + of);
    if (of == 0) AddFigures(state);
    const Status loaded = shard.processor->LoadState(state);
    ASSERT_TRUE(loaded.ok()) << loaded;
    shards_.push_back(std::move(shard));
  }

  void AddFigures(ShardState& state) {
    moments_ = Moments(2);
    for (const Row& row : RandomRows({.numeric = 2, .missing = 0.1}, 2, 30, random_)) {
      moments_.Add(row);
    }
    if (classes() == 0) {
      for (const float target : {3.0f, 5.0f, 10.0f}) moments_.target.Add(target);
    } else {
      for (size_t k = 0; k < classes(); ++k) moments_.class_rows.push_back(3 + 5 * k);
    }
    ToProto(moments_, *state.mutable_moments());
    state.set_rows_trained(77);
    if (classes() != 2) return;
    EvaluationSums sums;
    for (uint32_t i = 0; i < 10; ++i) sums.Add(i % 2, std::vector<float>{0.25f, 0.75f});
    ToProto(sums, *state.mutable_progressive());
  }

  // Of every third id; some are not admitted yet.
  void AddRows(Shard& shard) {
    const EmbeddingTableOptions table = TableOptionsOf(shard.options);
    Checkpoint named;
    named.rows = FrozenRows(table.table, table.width(), table.slot_floats);
    for (EmbeddingId id = 0; id < kIds; id += 3) {
      if (ShardOfEmbedding(id * id, shard.options.shards) != shard.options.shard) continue;
      std::mt19937 random(static_cast<uint32_t>(id) + 1);
      std::vector<float> floats = RandomFloats(table.width() + table.slot_floats, 0.5f, random);
      for (float& each : std::span(floats).subspan(table.width())) each = std::abs(each);
      const auto updates = static_cast<uint32_t>(1 + id % 4);
      const double shrinkage = training_.training().l2() > 0 ? 0.25 : 0;
      named.rows.Add(id * id, 0, {.updates = updates, .updated_ms = 1000, .shrinkage = shrinkage},
                     updates >= 2 ? std::span<const float>(floats) : std::span<const float>());
    }
    WriteBatch batch;
    named.VisitRecords(0, [&batch](std::string_view key, std::string_view value) {
      batch.Put(std::string(key), std::string(value));
      return true;
    });
    ASSERT_TRUE(shard.store->Write(batch).ok());
  }

  std::vector<float> RowsOf(const std::vector<EmbeddingId>& ids) {
    const size_t width = model_->row_width();
    std::vector<float> values;
    for (const EmbeddingId id : ids) {
      std::vector<float> row(width);
      const ShardId shard = ShardOfEmbedding(id, training_.shards());
      const Status read = shards_[shard].processor->ReadEmbeddings(std::vector{id}, row);
      EXPECT_TRUE(read.ok()) << read;
      values.insert(values.end(), row.begin(), row.end());
    }
    return values;
  }

  std::mt19937 random_;
  JobFeatures features_;
  JobTraining training_;
  std::unique_ptr<Model> model_;
  std::vector<float> weights_;
  std::vector<Shard> shards_;
  Moments moments_;
};

inline StatusOr<ExportedModel> ExportOf(const std::string& snapshot) {
  const StatusOr<SnapshotManifest> manifest = CheckSnapshot(snapshot);
  if (!manifest.ok()) return manifest.status();
  const std::string folder = SnapshotModelFolder(snapshot);
  MILLRACE_RETURN_IF_ERROR(ExportSnapshot(snapshot, *manifest, folder).status());
  return ReadModel(folder);
}

}  // namespace millrace
