#include "server/all_weights.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/distinct_ids.h"
#include "formats/npy_file.h"
#include "models/online_softmax.h"
#include "models/wide_network.h"
#include "server/server_metrics.h"
#include "tasks/task_options.h"
#include "topics/partitioning.h"
#include "topics/row_codec.h"
#include "topics/server_groups.h"

namespace millrace {
namespace {

// A row for each column of bins; those with fewer edges than others end in NaN.
Status WriteBinEdges(const std::string& path, const FeatureSpec& spec) {
  if (spec.bin_edges().empty()) return absl::OkStatus();
  int most = 1;
  for (const auto& column : spec.bin_edges()) most = std::max(most, column.edge_size());
  std::vector<double> edges;
  for (const auto& column : spec.bin_edges()) {
    edges.insert(edges.end(), column.edge().begin(), column.edge().end());
    edges.resize(edges.size() + static_cast<size_t>(most - column.edge_size()),
                 std::numeric_limits<double>::quiet_NaN());
  }
  return WriteNpy(path, edges, static_cast<size_t>(spec.bin_edges_size()),
                  static_cast<size_t>(most));
}

}  // namespace

Status CheckFolderExists(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path();
  if (folder.empty()) folder = ".";
  std::error_code ignored;
  if (access(folder.c_str(), W_OK | X_OK) == 0 && !std::filesystem::is_directory(path, ignored)) {
    return absl::OkStatus();
  }
  return absl::NotFoundError(path + " cannot be written: there is no folder " + folder +
                             " in which this user may write, or a folder has that name");
}

AllWeights::AllWeights(const JobConfig& config, const JobFeatures& features,
                       const JobTraining& training, const HostedShards& hosted)
    : config_(config),
      features_(features),
      training_(training),
      model_(MakeModel(features, training.training())),
      hosted_(hosted),
      ids_(ShardsOfGroup(training)) {}

StatusOr<std::unique_ptr<AllWeights>> AllWeights::Create(const JobConfig& config,
                                                         const JobFeatures& features,
                                                         const JobTraining& training,
                                                         const HostedShards& hosted, Wakeup* wakeup,
                                                         const std::atomic<bool>& stop) {
  const Server& server = config.server();
  if (!server.has_test_file() && !server.has_weights_file()) return nullptr;
  if (!hosted.contains(0)) {
    spdlog::info(
        "this process evaluates nothing and writes no weights file: the one that hosts shard 0 "
        "does");
    return nullptr;
  }
  if (server.has_weights_file()) {
    MILLRACE_RETURN_IF_ERROR(CheckFolderExists(server.weights_file()));
  }
  std::unique_ptr<AllWeights> all(new AllWeights(config, features, training, hosted));
  if (server.has_test_file()) MILLRACE_RETURN_IF_ERROR(all->OpenEvaluation());
  all->NameRows();
  MILLRACE_RETURN_IF_ERROR(all->Follow(wakeup, stop));
  return all;
}

Status AllWeights::OpenEvaluation() {
  const Server& server = config_.server();
  MILLRACE_ASSIGN_OR_RETURN(TestSet test_set,
                            ReadTestSet(server.test_file(), config_.csv(), features_.spec()));
  if (test_set.rejected > 0) {
    spdlog::warn("{}: {} rows are malformed and are not used for evaluation; the first: {}",
                 server.test_file(), test_set.rejected, test_set.first_reject);
  }
  const uint64_t rejected = test_set.rejected;
  if (server.has_evaluation_log()) {
    MILLRACE_ASSIGN_OR_RETURN(evaluation_log_, EvaluationLog::Open(server.evaluation_log(), false));
  }
  evaluator_ = std::make_unique<Evaluator>(
      std::move(test_set), *model_, RowShapeFrom(features_).classes,
      training_.training().scaling() == Training::RUNNING,
      [this, rejected](const EvaluationInput& input, const EvaluationFigures& figures) {
        if (evaluation_log_) evaluation_log_->Write(NowMs(), 0, input.clock, figures);
        const std::lock_guard<std::mutex> lock(mutex_);
        points_.push_back(EvaluationPoint(0, input.clock, figures, rejected, input.last));
      });
  return absl::OkStatus();
}

void AllWeights::NameRows() {
  if (config_.server().has_weights_file() && IsWide(features_, training_.training())) {
    const RowShape shape = RowShapeFrom(features_);
    for (EmbeddingId id = shape.numeric; id < shape.features; ++id) file_ids_.push_back(id);
  }
  std::vector<EmbeddingId> ids = file_ids_;
  if (evaluator_ != nullptr) {
    ids.insert(ids.end(), evaluator_->ids().begin(), evaluator_->ids().end());
  }
  SortDistinct(ids);
  ids_ = SplitByShard(ids, ShardsOfGroup(training_));
}

Status AllWeights::Follow(Wakeup* wakeup, const std::atomic<bool>& stop) {
  for (ShardId shard = 0; shard < ids_.size(); ++shard) {
    if (hosted_.contains(shard)) continue;
    MILLRACE_ASSIGN_OR_RETURN(
        followed_[shard],
        FollowedShard::Create(config_, MakeServerOptions(features_, training_, shard), ids_[shard],
                              wakeup, stop));
  }
  return absl::OkStatus();
}

StatusOr<bool> AllWeights::OthersEnded() const {
  for (const auto& [shard, followed] : followed_) {
    bool has_ended = false;
    MILLRACE_RETURN_IF_ERROR(
        followed->Read([&](const FollowedShard::View& view) { has_ended = view.has_ended; })
            .status());
    if (!has_ended) return false;
  }
  return true;
}

StatusOr<bool> AllWeights::GatherWeights(std::vector<float>& parameters) const {
  parameters.resize(model_->parameter_count());
  const auto copy = [&](std::span<const float> weights, KeyRange range) {
    MILLRACE_CHECK(weights.size() == range.size() && range.end <= parameters.size());
    std::ranges::copy(weights, parameters.begin() + static_cast<ptrdiff_t>(range.begin));
  };
  for (const auto& [shard, hosted] : hosted_) {
    if (shard >= ids_.size()) continue;
    const ParameterShard& part = hosted->task().processor().shard();
    copy(part.weights(), part.range());
  }
  for (const auto& [shard, followed] : followed_) {
    MILLRACE_ASSIGN_OR_RETURN(
        const bool has_view,
        followed->Read([&](const FollowedShard::View& view) { copy(view.weights, view.range); }));
    if (!has_view) return false;
  }
  return true;
}

Status AllWeights::GatherRows(const std::vector<EmbeddingId>& ids, std::vector<float>& rows) const {
  const size_t width = model_->row_width();
  const uint32_t shards = ShardsOfGroup(training_);
  const std::vector<std::vector<EmbeddingId>> by_shard = SplitByShard(ids, shards);
  std::vector<std::vector<float>> values(shards);
  for (const auto& [shard, hosted] : hosted_) {
    if (shard >= ids_.size()) continue;
    values[shard].resize(by_shard[shard].size() * width);
    MILLRACE_RETURN_IF_ERROR(
        hosted->task().processor().ReadEmbeddings(by_shard[shard], values[shard]));
  }
  for (const auto& [shard, followed] : followed_) {
    const auto copy = [&, ids = std::span<const EmbeddingId>(ids_[shard]),
                       &out = values[shard]](const FollowedShard::View& view) {
      MILLRACE_CHECK(view.rows.size() == ids.size() * width);
      auto at = ids.begin();
      for (const EmbeddingId id : by_shard[shard]) {
        at = std::lower_bound(at, ids.end(), id);
        MILLRACE_CHECK(at != ids.end() && *at == id);
        const float* const row = view.rows.data() + static_cast<size_t>(at - ids.begin()) * width;
        out.insert(out.end(), row, row + width);
      }
    };
    MILLRACE_ASSIGN_OR_RETURN(const bool has_view, followed->Read(copy));
    MILLRACE_CHECK(has_view);
  }
  rows.clear();
  std::vector<size_t> taken(shards);
  for (const EmbeddingId id : ids) {
    const ShardId shard = ShardOfEmbedding(id, shards);
    const float* const row = values[shard].data() + taken[shard]++ * width;
    rows.insert(rows.end(), row, row + width);
  }
  return absl::OkStatus();
}

Status AllWeights::OfferEvaluation(bool last) {
  EvaluationInput input;
  MILLRACE_ASSIGN_OR_RETURN(const bool all, GatherWeights(input.parameters));
  if (!all) return absl::OkStatus();
  if (model_->row_width() > 0) {
    MILLRACE_RETURN_IF_ERROR(GatherRows(evaluator_->ids(), input.rows));
  }
  const ServerProcessor& first = hosted_.at(0)->task().processor();
  for (const auto& [worker, entry] : first.clocks().entries()) {
    input.clock = std::max(input.clock, entry.clock);
  }
  input.moments = first.moments();
  input.last = last;
  evaluator_->Offer(std::move(input));
  return absl::OkStatus();
}

void AllWeights::MovePoints(std::vector<OutgoingRecord>& out) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::ranges::move(points_, std::back_inserter(out));
  points_.clear();
}

bool AllWeights::EvaluationIsDue(Time now) {
  const Server& server = config_.server();
  if (const uint64_t every = server.evaluation_every(); every > 0) {
    const uint64_t steps = hosted_.at(0)->task().processor().steps();
    if (evaluated_at_ && steps / every == *evaluated_at_ / every) return false;
    evaluated_at_ = steps;
    return true;
  }
  if (now < next_evaluation_) return false;
  const std::chrono::duration<double> interval(server.evaluation_interval_s());
  next_evaluation_ = now + std::chrono::duration_cast<Time::duration>(interval);
  return true;
}

Status AllWeights::Tick(Time now, std::vector<OutgoingRecord>& out) {
  for (const auto& [shard, followed] : followed_) {
    MILLRACE_RETURN_IF_ERROR(followed->status());
  }
  if (evaluator_ == nullptr) return absl::OkStatus();
  if (evaluator_->idle() && EvaluationIsDue(now)) {
    MILLRACE_RETURN_IF_ERROR(OfferEvaluation(false));
  }
  MovePoints(out);
  return absl::OkStatus();
}

Status AllWeights::EvaluateLast(std::vector<OutgoingRecord>& out) {
  if (evaluator_ == nullptr) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(OfferEvaluation(true));
  evaluator_->Finish();
  MovePoints(out);
  return absl::OkStatus();
}

StatusOr<bool> AllWeights::GatherFile(std::vector<float>& parameters) const {
  MILLRACE_ASSIGN_OR_RETURN(const bool all, GatherWeights(parameters));
  if (!all) return false;
  std::vector<float> hashed;
  if (!file_ids_.empty()) MILLRACE_RETURN_IF_ERROR(GatherRows(file_ids_, hashed));
  if (const OnlineSoftmax* online = model_->online()) {
    parameters = online->PredictingWeights(parameters, hashed);
    return true;
  }
  if (const WideNetwork* network = model_->network()) {
    parameters = network->NarrowParameters(parameters, hashed);
    return true;
  }
  // Between the numeric columns and the bias.
  parameters.insert(parameters.end() - static_cast<ptrdiff_t>(model_->block_size()), hashed.begin(),
                    hashed.end());
  return true;
}

Status AllWeights::SaveFile() const {
  if (!config_.server().has_weights_file()) return absl::OkStatus();
  const std::string& path = config_.server().weights_file();
  std::vector<float> parameters;
  MILLRACE_ASSIGN_OR_RETURN(const bool all, GatherFile(parameters));
  if (!all) {
    spdlog::warn(
        "{} was not written: this process has not received the weights of all shards; take them "
        "from a snapshot",
        path);
    return absl::OkStatus();
  }
  const size_t width = model_->online() != nullptr ? model_->score_count() : model_->block_size();
  MILLRACE_RETURN_IF_ERROR(WriteNpy(path, parameters, parameters.size() / width, width));
  MILLRACE_RETURN_IF_ERROR(WriteBinEdges(path + ".bins.npy", features_.spec()));
  const Moments& moments = hosted_.at(0)->task().processor().moments();
  if (features_.spec().regression()) {
    const double unit = model_->online() != nullptr ? 1.0 : moments.target.deviation();
    const bool is_kept = moments.target.keeps_to_range();
    constexpr double kNoEnd = std::numeric_limits<double>::infinity();
    const std::vector<double> target = {moments.target.mean, unit,
                                        is_kept ? moments.target.least : -kNoEnd,
                                        is_kept ? moments.target.most : kNoEnd};
    MILLRACE_RETURN_IF_ERROR(WriteNpy(path + ".target.npy", target, 1, target.size()));
  }
  if (!features_.spec().regression() && model_->uses_targets()) {
    std::vector<double> classes(moments.class_rows.begin(), moments.class_rows.end());
    classes.resize(static_cast<size_t>(features_.spec().classes_size()));
    MILLRACE_RETURN_IF_ERROR(WriteNpy(path + ".classes.npy", classes, 1, classes.size()));
  }
  if (moments.columns() == 0) return absl::OkStatus();
  std::vector<double> rows = moments.count;
  rows.insert(rows.end(), moments.mean.begin(), moments.mean.end());
  rows.insert(rows.end(), moments.m2.begin(), moments.m2.end());
  return WriteNpy(path + ".scaling.npy", rows, 3, moments.columns());
}

}  // namespace millrace
