#include "durability/snapshots/snapshot_model.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/types.h"
#include "durability/snapshots/snapshot_files.h"
#include "durability/snapshots/snapshot_reader.h"
#include "exports/dense_model.h"
#include "exports/model_shape.h"
#include "exports/model_writer.h"
#include "formats/npy_file.h"
#include "messages/exported_model.pb.h"
#include "models/model.h"
#include "models/moments.h"
#include "models/online_softmax.h"
#include "processors/shard_model.h"
#include "tasks/model_description.h"
#include "tasks/parameter_options.h"
#include "tasks/setting_bounds.h"
#include "tasks/task_options.h"
#include "topics/figures_codec.h"

namespace millrace {
namespace {

// What a job trains.
struct ModelOfJob {
  Training training;
  ModelShape shape;
  std::unique_ptr<Model> model;
};

ModelDescription DescriptionOf(const SnapshotManifest& manifest, const ShardState& state,
                               const Moments& moments, const ModelOfJob& job) {
  ModelDescription description;
  description.set_job(manifest.job());
  description.set_epoch(manifest.epoch());
  description.set_snapshot(manifest.snapshot());
  description.set_created_ms(manifest.created_ms());
  for (const SnapshotPart::Worker& worker : manifest.workers()) {
    description.set_clock(std::max(description.clock(), worker.clock()));
  }
  *description.mutable_features() = manifest.features().spec();
  *description.mutable_training() = manifest.training();
  *description.mutable_shape() = job.shape;
  DescribeMoments(moments, manifest.features(), job.training, *job.model, description);
  DescribeFigures(state, description);
  return description;
}

StatusOr<std::vector<float>> ReadWeights(const std::string& snapshot,
                                         const SnapshotManifest& manifest) {
  std::vector<float> weights(manifest.parameters());
  for (const SnapshotPart& part : manifest.parts()) {
    if (part.begin() == part.end()) continue;
    const std::string path = SnapshotFile(snapshot, "weights", ShardId(part.shard()), "npy");
    MILLRACE_ASSIGN_OR_RETURN(NpyReader reader, NpyReader::Open(path, kNpyFloat, std::nullopt));
    MILLRACE_RETURN_IF_ERROR(
        reader.Read(std::span<float>(weights).subspan(part.begin(), part.end() - part.begin())));
  }
  return weights;
}

// The embedding rows of a part, ascending.
class PartRows {
 public:
  // Of no rows.
  PartRows() = default;

  static StatusOr<PartRows> Open(const std::string& snapshot, const SnapshotPart& part,
                                 size_t width, size_t slots) {
    const auto open = [&](std::string_view what, std::string_view type,
                          std::optional<size_t> columns) {
      return NpyReader::Open(SnapshotFile(snapshot, what, ShardId(part.shard()), "npy"), type,
                             columns);
    };
    PartRows rows;
    rows.left_ = part.rows();
    rows.shrinkage_ = part.shrinkage();
    rows.width_ = width;
    rows.floats_.resize(width + slots);
    MILLRACE_ASSIGN_OR_RETURN(rows.ids_, open("embedding-ids", kNpyUint64, std::nullopt));
    MILLRACE_ASSIGN_OR_RETURN(rows.values_, open("embedding-values", kNpyFloat, width));
    MILLRACE_ASSIGN_OR_RETURN(rows.slots_, open("embedding-slots", kNpyFloat, slots));
    MILLRACE_ASSIGN_OR_RETURN(rows.updates_, open("embedding-updates", kNpyUint32, std::nullopt));
    if (part.shrinkage() != 0) {
      MILLRACE_ASSIGN_OR_RETURN(rows.missed_,
                                open("embedding-shrinkage", kNpyDouble, std::nullopt));
    }
    MILLRACE_RETURN_IF_ERROR(rows.Next());
    return rows;
  }

  // Whether there is one.
  bool has_row() const { return has_row_; }
  EmbeddingId id() const { return id_; }
  // How many updates have named it.
  uint32_t updates() const { return named_; }
  // Its values as a server would serve them now.
  std::span<const float> Values(const EmbeddingTableOptions& table) {
    const std::span<float> values = std::span(floats_).first(width_);
    const double missed = shrinkage_ - row_shrinkage_;
    if (missed > 0) table.catch_up(missed, values, std::span(floats_).subspan(width_));
    return values;
  }

  Status Next() {
    has_row_ = left_ > 0;
    if (!has_row_) return absl::OkStatus();
    --left_;
    MILLRACE_RETURN_IF_ERROR(ids_->Read(std::span(&id_, 1)));
    MILLRACE_RETURN_IF_ERROR(values_->Read(std::span(floats_).first(width_)));
    MILLRACE_RETURN_IF_ERROR(slots_->Read(std::span(floats_).subspan(width_)));
    MILLRACE_RETURN_IF_ERROR(updates_->Read(std::span(&named_, 1)));
    return missed_ ? missed_->Read(std::span(&row_shrinkage_, 1)) : absl::OkStatus();
  }

 private:
  std::optional<NpyReader> ids_, values_, slots_, updates_, missed_;
  uint64_t left_ = 0;
  double shrinkage_ = 0;  // of the part
  size_t width_ = 0;
  bool has_row_ = false;
  EmbeddingId id_ = 0;
  uint32_t named_ = 0;
  double row_shrinkage_ = 0;
  std::vector<float> floats_;  // values, then the optimizer's
};

// Visits the admitted rows of all parts in the order of their ids. `mix` makes of a row's values
// those that predict.
Status VisitRows(const std::string& snapshot, const SnapshotManifest& manifest,
                 const EmbeddingTableOptions& table,
                 const std::function<std::vector<float>(std::span<const float>)>& mix,
                 const ModelToWrite::TakeRow& take) {
  std::vector<PartRows> parts;
  for (const SnapshotPart& part : manifest.parts()) {
    MILLRACE_ASSIGN_OR_RETURN(PartRows rows,
                              PartRows::Open(snapshot, part, table.width(), table.slot_floats));
    parts.push_back(std::move(rows));
  }
  while (true) {
    PartRows* first = nullptr;
    for (PartRows& part : parts) {
      if (part.has_row() && (first == nullptr || part.id() < first->id())) first = &part;
    }
    if (first == nullptr) return absl::OkStatus();
    if (first->updates() >= table.admit_after) {
      MILLRACE_RETURN_IF_ERROR(take(first->id(), mix(first->Values(table))));
    }
    MILLRACE_RETURN_IF_ERROR(first->Next());
  }
}

Status NoModel(const std::string& path, const std::string& what) {
  return absl::DataLossError(path + ": no model can be made of it: " + what +
                             "; use another snapshot");
}

// JSON names defaults, so a manifest does not tell what the user has said. It matters in two
// places: a loss that was given is an error beside classes, and 0 may be the user's --wide-above,
// or stand for its default, which is another number. Then the number of parameters tells.
StatusOr<ModelOfJob> FindModel(const std::string& path, const SnapshotManifest& manifest) {
  if (const auto setting = FirstOutOfBounds(manifest.training())) {
    return NoModel(path, std::string(setting->field) + ": " + setting->Complaint());
  }
  const JobFeatures& features = manifest.features();
  MILLRACE_RETURN_IF_ERROR(CheckHasModel(features));
  ModelOfJob job{manifest.training(), {}, nullptr};
  if (!features.spec().regression()) {
    job.training.clear_loss();
    job.training.clear_huber_limit();
  }
  for (const bool as_it_says : {true, false}) {
    if (!as_it_says) job.training.clear_wide_above();
    Status valid = CheckModel(features, job.training);
    if (valid.ok()) {
      job.shape = ShapeOfModel(features, job.training);
      valid = CheckShape(job.shape);
    }
    if (!valid.ok()) return NoModel(path, std::string(valid.message()));
    job.model = MakeModel(features, job.training);
    if (job.model->parameter_count() == manifest.parameters()) return job;
  }
  return NoModel(path, "it has another number of parameters than a model of its features");
}

StatusOr<ShardState> ReadFirstState(const std::string& snapshot, size_t columns, size_t classes) {
  const std::string path = SnapshotFile(snapshot, "state", 0, "pb");
  MILLRACE_ASSIGN_OR_RETURN(ShardState state, ReadSnapshotState(path));
  for (const Status& checked :
       {CheckMoments(state.moments(), columns, classes), CheckSums(state.progressive(), classes),
        CheckSums(state.window(), classes)}) {
    if (!checked.ok()) return NoModel(path, std::string(checked.message()));
  }
  return state;
}

}  // namespace

void LogModel(const std::string& model, const std::string& why_no_graph) {
  if (why_no_graph.empty()) {
    spdlog::info("model {}: complete", model);
  } else {
    spdlog::info("model {}: complete, without model.onnx: {}", model, why_no_graph);
  }
}

std::string SnapshotModelFolder(const std::string& snapshot) { return snapshot + "/model"; }

StatusOr<std::string> ExportSnapshot(const std::string& snapshot, const SnapshotManifest& manifest,
                                     const std::string& model_folder) {
  MILLRACE_ASSIGN_OR_RETURN(ModelOfJob job, FindModel(ManifestPath(snapshot), manifest));
  const Model& model = *job.model;
  const OnlineSoftmax* const online = model.online();
  DescribeRows(model, job.shape);
  MILLRACE_ASSIGN_OR_RETURN(const ShardState state,
                            ReadFirstState(snapshot, job.shape.numeric(), job.shape.classes()));
  const Moments moments = MomentsOfColumns(state.moments(), job.shape.numeric());
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<float> weights, ReadWeights(snapshot, manifest));
  const std::vector<float> predicting =
      online != nullptr ? online->MixedParameters(weights) : weights;
  ModelToWrite write{.description = DescriptionOf(manifest, state, moments, job),
                     .weights = predicting,
                     .moments = moments};
  std::string why_no_graph = WhyNotDense(job.shape);
  if (model.row_width() == 0) {
    MILLRACE_RETURN_IF_ERROR(WriteModel(model_folder, write));
    return why_no_graph;
  }

  JobTraining training;
  training.set_shards(static_cast<uint32_t>(manifest.parts_size()));
  *training.mutable_training() = job.training;
  const EmbeddingTableOptions table =
      TableOptionsOf(MakeServerOptions(manifest.features(), training, 0));
  const auto mix = [&](std::span<const float> values) {
    return online != nullptr ? online->MixBlocks(weights, values)
                             : std::vector<float>(values.begin(), values.end());
  };
  write.visit_rows = [&](const ModelToWrite::TakeRow& take) {
    return VisitRows(snapshot, manifest, table, mix, take);
  };
  MILLRACE_RETURN_IF_ERROR(WriteModel(model_folder, write));
  return why_no_graph;
}

}  // namespace millrace
