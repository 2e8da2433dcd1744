// One pass over a CSV in one process and without Kafka: parse, hash, test, train, step. What
// remains of the product when nothing is sent, to be held against other programs that learn from a
// file.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "apps/job_flags.h"
#include "apps/program.h"
#include "features/csv_row_encoder.h"
#include "formats/csv_file.h"
#include "models/evaluation.h"
#include "models/optimizer.h"
#include "tasks/task_options.h"

namespace millrace {
namespace {

class Learner {
 public:
  Learner(const JobFeatures& features, const JobTraining& training)
      : options_(MakeServerOptions(features, training, 0)),
        model_(MakeModel(features, training.training())),
        optimizer_(Optimizer::Create(options_.optimizer)),
        weights_(model_->parameter_count()),
        slots_(weights_.size() * optimizer_->slot_count()),
        mean_(weights_.size()),
        gradient_(weights_.size(), model_->block_size()) {}

  // Tests the rows by the weights as they are, then makes one step on them. Text has no numeric
  // columns, hence nothing to scale.
  void Learn(RowsView rows) {
    gradient_.Clear();
    scores_.resize(rows.size() * options_.classes);
    const BatchLoss loss =
        model_->Compute(rows, Scaler::Identity(0), weights_, &gradient_, scores_);
    for (size_t i = 0; i < rows.size(); ++i) {
      const std::span<const float> scores(scores_.data() + i * options_.classes, options_.classes);
      sums_.Add(rows[i]->label, scores);
    }
    const auto factor = static_cast<float>(1.0 / loss.weight_sum);
    for (size_t i = 0; i < mean_.size(); ++i) mean_[i] = factor * gradient_.values()[i];
    optimizer_->Step(steps_++, mean_, weights_, slots_);
  }

  EvaluationFigures figures() const { return ComputeFigures(sums_, options_.classes); }

 private:
  const ServerOptions options_;
  const std::unique_ptr<Model> model_;
  const std::unique_ptr<Optimizer> optimizer_;
  std::vector<float> weights_;
  std::vector<float> slots_;
  std::vector<float> mean_;
  GradientSum gradient_;
  std::vector<float> scores_;
  EvaluationSums sums_;
  uint64_t steps_ = 0;
};

Status Run(const JobFlags& flags) {
  MILLRACE_ASSIGN_OR_RETURN(const JobConfig config, flags.Load());
  MILLRACE_ASSIGN_OR_RETURN(const FeatureEncoder encoder,
                            FeatureEncoder::Create(config.features()));
  JobFeatures features;
  features.set_workers(1);
  features.set_feature_count(encoder.feature_count());
  *features.mutable_spec() = config.features();
  JobTraining training;
  training.set_shards(1);
  *training.mutable_training() = config.training();
  Learner learner(features, training);

  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<CsvFile> file,
                            CsvFile::Open(config.producer().input()));
  MILLRACE_ASSIGN_OR_RETURN(
      CsvRowEncoder rows, CsvRowEncoder::Create(config.features(), file->columns(), file->name()));
  std::vector<Row> batch(config.training().batch_rows());
  std::vector<const Row*> pointers;
  CsvRecord record;
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(const bool more, file->Next(&record));
    if (more && record.ok() && rows.Encode(record.fields, &batch[pointers.size()]).ok()) {
      pointers.push_back(&batch[pointers.size()]);
    }
    const bool full = pointers.size() == batch.size();
    if (full || (!more && !pointers.empty())) {
      learner.Learn(pointers);
      pointers.clear();
    }
    if (!more) break;
  }
  const EvaluationFigures figures = learner.figures();
  std::printf("rows %llu accuracy %.4f log_loss %.4f\n",
              static_cast<unsigned long long>(figures.rows), figures.accuracy, figures.log_loss);
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  CLI::App app("One pass over a CSV of text, without Kafka; prints progressive figures",
               "one_pass");
  millrace::JobFlags flags(app);
  flags.AddFeatures();
  flags.AddTraining();
  flags.AddProducer();
  return millrace::RunProgram(app, "one_pass", argc, argv, [&] { return millrace::Run(flags); });
}
