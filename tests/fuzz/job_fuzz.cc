// Features and training in the job topic, of any content: refused, or tasks can be made of them.
#include "apps/config_checks.h"
#include "base/check.h"
#include "features/feature_encoder.h"
#include "messages/records.pb.h"
#include "stores/memory_byte_map.h"
#include "tasks/parameter_options.h"
#include "tasks/shard_task.h"
#include "tasks/task_options.h"
#include "tasks/trainer_task.h"
#include "tasks/worker_task.h"
#include "tests/fuzz/fuzz_job.h"
#include "tests/fuzz/mutate_message.h"
#include "tests/fuzz/target.h"
#include "topics/message_codec.h"
#include "topics/parameter_layout.h"
#include "topics/row_codec.h"

namespace millrace::fuzz {
namespace {

JobFeatures FeaturesOf(const simulation::Scenario& job) {
  JobFeatures features;
  features.set_epoch(simulation::kEpoch);
  features.set_job("fuzz");
  features.set_workers(job.workers);
  features.set_feature_count(job.features());
  FeatureSpec& spec = *features.mutable_spec();
  spec.set_label("label");
  for (size_t k = 0; k < job.classes; ++k) spec.add_classes(std::to_string(k));
  for (size_t column = 0; column < job.numeric; ++column) spec.add_numeric(std::to_string(column));
  for (size_t column = 0; column < job.ids; ++column) spec.add_ids(std::to_string(column));
  if (job.numeric > 0) {
    spec.add_bins("0:4");
    FeatureSpec::BinEdges& bins = *spec.add_bin_edges();
    bins.set_column("0");
    for (const double edge : {-1.0, 0.5}) bins.add_edge(edge);
  }
  return features;
}

// A valid job may be larger than this process may become.
bool IsSmall(const JobFeatures& features, const Training& training) {
  const StatusOr<std::vector<KeyRange>> keys = LayOutParameters(features);
  if (!keys.ok() || (!keys->empty() && keys->back().end > 100'000)) return false;
  const FeatureSpec& spec = features.spec();
  uint64_t units = training.embedding().factors() * static_cast<uint64_t>(spec.ids_size()) + 64;
  for (const uint32_t layer : training.hidden()) units = std::max<uint64_t>(units, layer);
  const uint64_t parameters = features.feature_count() * (spec.classes_size() + 1U);
  return units < 512 && parameters < 100'000 &&
         features.workers() * (parameters + units) < 1'000'000 &&
         training.buffer().max_rows() < 100'000;
}

void MakeTasks(const JobFeatures& features, const JobTraining& training) {
  const std::unique_ptr<Model> model = MakeModel(features, training.training());
  std::vector<OutgoingRecord> out;
  for (const ShardId shard : {ShardId(0), ShardId(training.shards() - 1)}) {
    MemoryByteMap store;
    ShardTask task(MakeServerOptions(features, training, shard), store);
    MILLRACE_CHECK(task.Load().ok() && task.StartReplay(0, 0).ok() && task.Announce(out).ok());
  }
  if (!CheckLearnsRows(features).ok()) {
    TrainerTask trainer(MakeWorkerOptions(features, training, 0), *model,
                        *LayOutParameters(features), 1);
    return trainer.Start(out);
  }
  const RowShape shape = RowShapeFrom(features);
  WorkerTask worker(MakeWorkerOptions(features, training, 0), shape, *model, 1);
  MILLRACE_CHECK(worker.StartReading(std::nullopt, 0, nullptr).ok());
  worker.Start(out);
}

// As a server's evaluator does: the columns are refused, or any cells make a row or an error.
void EncodeCells(const FeatureSpec& spec) {
  if (spec.categorical_buckets() > 100'000 || spec.text_buckets() > 100'000) return;
  StatusOr<FeatureEncoder> encoder = FeatureEncoder::Create(spec);
  if (!encoder.ok()) return;
  Row row;
  for (const std::string_view cell : {"0", "-7.5", "1e300", "", "x"}) {
    const std::vector<std::string_view> cells(encoder->required_columns().size(), cell);
    if (!encoder->EncodeFeatures(std::span(cells).subspan(1), &row).ok()) continue;
    for (const uint32_t index : row.index) MILLRACE_CHECK(index < encoder->feature_count());
  }
}

}  // namespace

void FuzzOne(ByteSource& bytes) {
  const simulation::Scenario job = DrawJob(bytes.Below(65536));
  JobFeatures features = FeaturesOf(job);
  *features.mutable_parameters() = {job.parameters.begin(), job.parameters.end()};
  JobTraining training;
  training.set_epoch(simulation::kEpoch);
  training.set_shards(job.shards);
  *training.mutable_training() = job.training;
  while (!bytes.empty()) {
    if (bytes.Chance(96)) {
      Mutate(features, bytes);
    } else {
      Mutate(training, bytes);
    }
  }
  const Status status = CheckJob(features, training);
  if (!status.ok()) {
    MILLRACE_CHECK(absl::IsDataLoss(status));
    return;
  }
  EncodeCells(features.spec());
  if (!CheckHandlers(features).ok()) return;  // somebody else's
  if (IsSmall(features, training.training())) MakeTasks(features, training);
}

}  // namespace millrace::fuzz
