// The reference loop that a sequential one-pass run must equal, byte for byte: one process, no
// Kafka, no shards, no clocks. It shares the features and the arithmetic of models/ with the
// product, and none of the protocol.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/job_flags.h"
#include "apps/program.h"
#include "base/check.h"
#include "durability/snapshots/snapshot_files.h"
#include "features/bin_scan.h"
#include "features/class_scan.h"
#include "features/csv_row_encoder.h"
#include "formats/csv_file.h"
#include "formats/npy_file.h"
#include "models/drift_detector.h"
#include "models/evaluation.h"
#include "models/initial_weights.h"
#include "models/model.h"
#include "models/online_softmax.h"
#include "models/optimizer.h"
#include "stores/embedding_table.h"
#include "tasks/task_options.h"

namespace millrace {
namespace {

StatusOr<std::vector<std::vector<Row>>> ReadPartitions(const JobConfig& config, FeatureSpec& spec) {
  const std::string& path = config.producer().input();
  if (spec.classes_size() == 0 && !spec.regression()) {
    MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<CsvFile> scanned, CsvFile::Open(path));
    MILLRACE_ASSIGN_OR_RETURN(const ClassScan scan, ScanClasses(*scanned, spec, {}));
    for (const std::string& name : scan.classes) spec.add_classes(name);
  }
  if (spec.bins_size() > 0) {
    MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<CsvFile> scanned, CsvFile::Open(path));
    MILLRACE_ASSIGN_OR_RETURN(const BinScan scan, ScanBins(*scanned, spec, {}));
    *spec.mutable_bin_edges() = scan.edges;
  }
  std::vector<std::vector<Row>> partitions(config.workers());
  const uint64_t turn = std::max(config.producer().rows_per_turn(), 1U);
  uint64_t accepted = 0;
  for (uint32_t epoch = 0; epoch < config.producer().epochs(); ++epoch) {
    MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<CsvFile> file, CsvFile::Open(path));
    MILLRACE_ASSIGN_OR_RETURN(CsvRowEncoder encoder,
                              CsvRowEncoder::Create(spec, file->columns(), file->name()));
    CsvRecord record;
    Row row;
    while (true) {
      MILLRACE_ASSIGN_OR_RETURN(const bool more, file->Next(&record));
      if (!more) break;
      if (!record.ok() || !encoder.Encode(record.fields, &row).ok()) continue;
      row.replayed = epoch > 0;
      partitions[accepted++ / turn % config.workers()].push_back(row);
    }
  }
  return partitions;
}

// The rows of a worker, in order.
struct Stream {
  std::vector<Row> rows;
  std::set<size_t> ends;  // no batch goes beyond one
  size_t begin = 0;       // of the next batch
  // From these rows on it takes no part before the round: its worker joins with it.
  std::map<size_t, size_t> joins{};

  bool TakesPartIn(size_t round) const {
    if (begin >= rows.size()) return false;
    const auto behind = joins.upper_bound(begin);
    return behind == joins.begin() || std::prev(behind)->second <= round;
  }
};

// Without leases those of its partition. Else what the lines of the file name, each WORKER
// PARTITION BEGIN END JOINED: a lease, after those before it, and the round with which the worker
// had joined.
StatusOr<std::vector<Stream>> StreamsOf(std::vector<std::vector<Row>> partitions,
                                        const std::string& leases) {
  std::vector<Stream> streams(partitions.size());
  for (size_t i = 0; leases.empty() && i < streams.size(); ++i) {
    streams[i].rows = std::move(partitions[i]);
  }
  if (leases.empty()) return streams;
  std::ifstream file(leases);
  size_t worker = 0, partition = 0, begin = 0, end = 0, joined = 0;
  while (file >> worker >> partition >> begin >> end >> joined) {
    if (worker >= streams.size()) streams.resize(worker + 1);
    if (partition >= partitions.size() || begin >= end || end > partitions[partition].size()) {
      return absl::InvalidArgumentError(leases + ": a lease of rows that there are not");
    }
    std::vector<Row>& rows = streams[worker].rows;
    std::map<size_t, size_t>& joins = streams[worker].joins;
    if (joins.empty() || joins.rbegin()->second != joined) joins[rows.size()] = joined;
    for (size_t row = begin; row < end; ++row) rows.push_back(partitions[partition][row]);
    streams[worker].ends.insert(rows.size());
  }
  if (file.eof()) return streams;
  return absl::InvalidArgumentError(leases + " cannot be read");
}

// The embedding rows, and the sums of a round that wait to be divided.
class Rows {
 public:
  Rows(const ServerOptions& options, const Optimizer& optimizer)
      : optimizer_(optimizer),
        width_(options.embeddings ? options.embeddings->width() : 0),
        parts_{options.row_linear_end, options.row_linear_end} {
    if (!options.embeddings) return;
    newborn_.emplace(*options.embeddings, nullptr);
    admit_after_ = options.embeddings->admit_after;
  }

  // Calls `compute` with the rows that the batch names, and adds what it says of them.
  template <typename Compute>
  BatchLoss With(const Model& model, RowsView batch, const Compute& compute) {
    std::vector<EmbeddingId> all;
    for (const Row* row : batch) model.AppendIds(*row, all);
    const std::set<EmbeddingId> named(all.begin(), all.end());
    const std::vector<EmbeddingId> ids(named.begin(), named.end());
    std::vector<float> values;
    for (const EmbeddingId id : ids) {
      const std::vector<float>& row = Find(id).values;
      values.insert(values.end(), row.begin(), row.end());
    }
    std::vector<float> slopes(values.size());
    const BatchLoss loss = compute(EmbeddingBatch{ids, values, slopes});
    for (size_t i = 0; i < ids.size(); ++i) {
      std::vector<float>& sum = sums_[ids[i]];
      sum.resize(width_);
      for (size_t k = 0; k < width_; ++k) sum[k] += slopes[i * width_ + k];
    }
    return loss;
  }

  void Step(uint64_t step, float factor) {
    for (auto& [id, sum] : sums_) {
      EmbeddingRow& row = rows_[id];
      if (row.updates < admit_after_) ++row.updates;
      if (row.updates < admit_after_) continue;
      for (float& value : sum) value *= factor;
      optimizer_.Step(step, sum, row.values, row.slots, parts_);
    }
    sums_.clear();
  }

  void Forget() {
    for (auto& [id, row] : rows_) OnlineForgetting::ForgetRow(1, row.values);
  }

  // Those that updates have named, as a snapshot of one shard has them, but for their times: these
  // are the log's.
  Status Write(const std::string& folder) const {
    std::vector<EmbeddingId> ids;
    std::vector<float> values;
    std::vector<float> slots;
    std::vector<uint32_t> updates;
    for (const auto& [id, row] : rows_) {
      ids.push_back(id);
      updates.push_back(row.updates);
      const bool admitted = row.updates >= admit_after_;
      for (const float value : row.values) values.push_back(admitted ? value : 0);
      slots.insert(slots.end(), row.slots.begin(), row.slots.end());
    }
    const auto write = [&](std::string_view what, std::string_view type, const auto& array,
                           std::optional<size_t> columns) -> Status {
      const std::string path = SnapshotFile(folder, what, 0, "npy");
      MILLRACE_ASSIGN_OR_RETURN(NpyWriter file, NpyWriter::Create(path, type, columns));
      MILLRACE_RETURN_IF_ERROR(file.Append(std::span(array)));
      return file.Finish(ids.size());
    };
    MILLRACE_RETURN_IF_ERROR(write("embedding-ids", kNpyUint64, ids, std::nullopt));
    MILLRACE_RETURN_IF_ERROR(write("embedding-values", kNpyFloat, values, width_));
    MILLRACE_RETURN_IF_ERROR(write("embedding-slots", kNpyFloat, slots, SlotFloats()));
    return write("embedding-updates", kNpyUint32, updates, std::nullopt);
  }

 private:
  struct EmbeddingRow {
    std::vector<float> values;
    std::vector<float> slots;
    uint32_t updates = 0;  // counted until it is admitted
  };

  size_t SlotFloats() const { return optimizer_.slot_floats(width_, parts_); }

  EmbeddingRow& Find(EmbeddingId id) {
    EmbeddingRow& row = rows_[id];
    if (row.values.empty()) {
      row.values.resize(width_);
      row.slots.resize(SlotFloats());
      const std::vector<EmbeddingId> ids = {id};
      MILLRACE_CHECK(newborn_->Read(ids, {}, row.values).ok());
    }
    return row;
  }

  const Optimizer& optimizer_;
  size_t width_;
  ParameterParts parts_;  // first come an id's weights of a linear model, then its factors
  uint32_t admit_after_ = 1;
  std::optional<EmbeddingTable> newborn_;  // has nothing: each row is read as it is born
  std::map<EmbeddingId, EmbeddingRow> rows_;
  std::map<EmbeddingId, std::vector<float>> sums_;
};

// What one worker adds to a round. Of an online learner `gradient` is the change.
struct Part {
  GradientSum gradient;
  Moments moments;  // of its rows
  double weight = 0;
  EvaluationSums tested{};  // of an online learner: its rows, each before it was learnt from
};

// Of a job that acts on drifts.
class Drifts {
 public:
  explicit Drifts(size_t classes) : classes_(classes) {}

  // After each part of a round, in the order of the workers.
  void Count(const EvaluationSums& tested) {
    if (tested.rows == 0) return;
    all_.Merge(tested);
    const double loss = DriftLoss(tested, all_, classes_);
    is_found_ |= detector_.Add(tested.rows, loss, all_.rows, 0);
  }
  // Whether there was one since the last call.
  bool Take() { return std::exchange(is_found_, false); }

 private:
  const size_t classes_;
  DriftDetector detector_{DriftDetector::Pace()};
  EvaluationSums all_;
  bool is_found_ = false;
};

// The model with the weights of balanced classes: by the rows up to those of the batch, which
// `counted` gets.
std::unique_ptr<Model> Balanced(const Model& model, RowsView batch, const Moments& before,
                                Moments& counted) {
  counted.class_rows.assign(model.score_count(), 0);
  for (const Row* row : batch) ++counted.class_rows[row->label];
  std::vector<double> rows;
  double all = 0;
  for (size_t k = 0; k < model.score_count(); ++k) {
    const uint64_t earlier = before.class_rows.empty() ? 0 : before.class_rows[k];
    rows.push_back(static_cast<double>(1 + earlier + counted.class_rows[k]));
    all += rows.back();
  }
  std::vector<float> weights;
  for (const double of_class : rows) {
    const double parts = static_cast<double>(rows.size()) * of_class;
    weights.push_back(static_cast<float>(std::min(all / parts, 100.0)));
  }
  return model.WithClassWeights(weights);
}

// What is the same for all batches of a job.
struct Scheme {
  bool scales = true;
  bool balances = false;
  bool regression = false;
  uint32_t workers = 1;
};

Part Compute(const Model& model, RowsView batch, const Moments& before, const Scheme& scheme,
             std::span<const float> weights, Rows& embeddings) {
  const bool scale = scheme.scales;
  const bool counts_classes = !scheme.regression && !scheme.balances && model.uses_targets();
  Part part{GradientSum(weights.size(), model.block_size()), Moments(before.columns())};
  if (counts_classes) part.moments.class_rows.resize(model.score_count());
  for (const Row* row : batch) {
    if (scale) part.moments.Add(*row);
    if (scheme.regression) part.moments.target.Add(row->target);
    if (counts_classes) ++part.moments.class_rows[row->label];
  }
  Moments merged = before;
  merged.Merge(part.moments);
  Scaler scaler = scale ? Scaler(merged) : Scaler::Identity(before.columns());
  scaler.set_target(merged.target);
  scaler.set_class_rows(before.class_rows);
  std::unique_ptr<Model> weighted;
  if (scheme.balances) weighted = Balanced(model, batch, before, part.moments);
  const auto compute = [&](const EmbeddingBatch& rows) {
    return (weighted != nullptr ? *weighted : model)
        .Compute(batch, scaler, weights, rows, &part.gradient, {});
  };
  part.weight = embeddings.With(model, batch, compute).weight_sum;
  return part;
}

Part Learn(const OnlineSoftmax& model, RowsView batch, const Moments& before, const Scheme& scheme,
           std::span<const float> weights, Rows& embeddings) {
  Part part{GradientSum(weights.size(), model.block_size()), Moments(before.columns())};
  RunningScaler scaler(before, scheme.scales);
  std::optional<ClassBalance> balance;
  if (scheme.balances) balance.emplace(before, model.score_count());
  std::vector<float> scores(batch.size() * model.score_count());
  const OnlineSoftmax::Batch learnt{.rows = batch,
                                    .trained_end = batch.size(),
                                    .concurrent = scheme.workers,
                                    .balance = scheme.balances ? &*balance : nullptr};
  const auto learn = [&](const EmbeddingBatch& rows) {
    return model.Learn(learnt, scaler, weights, rows, part.gradient, scores);
  };
  part.weight = embeddings.With(model, batch, learn).weight_sum;
  for (size_t i = 0; i < batch.size(); ++i) {
    if (batch[i]->replayed) continue;
    if (i == 0 && scheme.regression && !before.target.known()) {
      part.tested.AddUnpredicted();
      continue;
    }
    const size_t width = model.score_count();
    part.tested.AddRow(*batch[i], std::span(scores).subspan(i * width, width),
                       scheme.regression ? 0 : width);
  }
  part.moments = scaler.added();
  if (scheme.balances) part.moments.class_rows = balance->added();
  return part;
}

Status Run(const JobFlags& flags, const std::string& output, const std::string& rows_folder,
           const std::string& leases) {
  MILLRACE_ASSIGN_OR_RETURN(JobConfig config, flags.Load());
  SetDefaults(*config.mutable_training());
  // An online learner's numbers do not depend on where they are kept: here only ids have rows.
  if (config.training().update().kind() == Training::Update::ONLINE) {
    config.mutable_training()->set_wide_above(UINT64_MAX);
  }
  FeatureSpec spec = config.features();
  MILLRACE_ASSIGN_OR_RETURN(std::vector<std::vector<Row>> partitions, ReadPartitions(config, spec));
  MILLRACE_ASSIGN_OR_RETURN(std::vector<Stream> streams, StreamsOf(std::move(partitions), leases));
  MILLRACE_ASSIGN_OR_RETURN(const FeatureEncoder encoder, FeatureEncoder::Create(spec));
  JobFeatures features;
  features.set_workers(config.workers());
  features.set_feature_count(encoder.feature_count());
  *features.mutable_spec() = spec;
  JobTraining job_training;
  job_training.set_shards(1);
  *job_training.mutable_training() = config.training();
  const Training& training = config.training();
  const ServerOptions options = MakeServerOptions(features, job_training, 0);

  const std::unique_ptr<Model> model = MakeModel(features, training);
  const std::unique_ptr<Optimizer> optimizer = Optimizer::Create(options.optimizer);
  std::vector<float> weights =
      InitialWeights(options.random_init_ranges, options.seed, {0, model->parameter_count()});
  std::vector<float> slots(weights.size() * optimizer->slot_count());
  Rows embeddings(options, *optimizer);
  const OnlineSoftmax* const online = model->online();
  Moments moments(encoder.numeric_count());
  const Scheme scheme = {
      .scales = training.scaling() == Training::RUNNING,
      .balances = training.class_weight_size() > 0 && training.class_weight(0) == "balanced",
      .regression = spec.regression(),
      .workers = config.workers()};
  const bool grows = !training.has_batch_rows() && online != nullptr;
  const size_t first_rows = grows ? 1 : training.first_batch_rows();

  const size_t most_rows = grows
                               ? std::clamp<size_t>(config.producer().rows_per_turn() / 2, 32, 128)
                               : training.batch_rows();
  Drifts drifts(static_cast<size_t>(spec.classes_size()));
  for (size_t round = 0;; ++round) {
    // Who computes a part of this round has been told of it.
    const bool forgets = drifts.Take() && training.on_drift() == Training::FORGET;
    std::vector<float> sum(weights.size());
    std::vector<Moments> seen;
    double weight = 0;
    bool any = false;
    for (Stream& stream : streams) {
      if (!stream.TakesPartIn(round)) continue;
      any = true;
      // A thirty-second of the rows before, and slower when that would be more than 64.
      const size_t grown =
          stream.begin < 32 * 64 ? stream.begin / 32 : std::max<size_t>(64, stream.begin / 128);
      const size_t batch_rows =
          first_rows > 0 ? std::clamp(grown, first_rows, most_rows) : most_rows;
      size_t end = std::min(stream.begin + batch_rows, stream.rows.size());
      const auto lease_end = stream.ends.upper_bound(stream.begin);
      if (lease_end != stream.ends.end()) end = std::min(end, *lease_end);
      std::vector<const Row*> batch;
      while (stream.begin < end) batch.push_back(&stream.rows[stream.begin++]);
      const Part part = online != nullptr
                            ? Learn(*online, batch, moments, scheme, weights, embeddings)
                            : Compute(*model, batch, moments, scheme, weights, embeddings);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += part.gradient.values()[i];
      weight += part.weight;
      seen.push_back(part.moments);
      drifts.Count(part.tested);
    }
    if (!any) break;
    const float factor = online != nullptr ? 1.0f : static_cast<float>(1.0 / weight);
    for (float& value : sum) value *= factor;
    if (options.l2 > 0) {
      for (size_t i = 0; i < model->penalised_end(); ++i) {
        sum[i] += static_cast<float>(options.l2) * weights[i];
      }
    }
    optimizer->Step(round, sum, weights, slots, {model->penalised_end(), model->linear_end()});
    embeddings.Step(round, factor);
    if (forgets) {
      online->forgetting().Forget(0, weights);
      embeddings.Forget();
    }
    for (const Moments& batch_moments : seen) moments.Merge(batch_moments);
  }
  if (!rows_folder.empty()) MILLRACE_RETURN_IF_ERROR(embeddings.Write(rows_folder));
  if (online != nullptr) weights = online->PredictingWeights(weights, {});
  const size_t columns = online != nullptr ? model->score_count() : model->block_size();
  return WriteNpy(output, weights, weights.size() / columns, columns);
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  CLI::App app("The reference loop that a sequential one-pass run must equal", "reference_loop");
  std::string output;
  std::string rows_folder;
  std::string leases;
  app.add_option("--leases", leases, "What lease_log prints: the rows that each worker had");
  app.add_option("--output", output, "Weights go here")->required();
  app.add_option("--rows-output", rows_folder, "Embedding rows go here, a folder that is there");
  millrace::JobFlags flags(app);
  flags.AddFeatures();
  flags.AddTraining();
  flags.AddProducer();
  return millrace::RunProgram(app, "reference_loop", argc, argv,
                              [&] { return millrace::Run(flags, output, rows_folder, leases); });
}
