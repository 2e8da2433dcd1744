// A whole job on a CSV in one process and without Kafka, for its figures: what CsvProducer,
// ServerApp and WorkerApps with the same settings learn, in a fraction of their time.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "apps/config_checks.h"
#include "apps/job_flags.h"
#include "apps/program.h"
#include "benchmarks/learning/memory_job.h"
#include "features/bin_scan.h"
#include "features/class_scan.h"
#include "features/feature_encoder.h"
#include "features/spec_checks.h"
#include "formats/csv_file.h"
#include "models/evaluation.h"
#include "producer/csv_stream.h"
#include "producer/job_features.h"
#include "producer/level_search.h"
#include "producer/progress_display.h"
#include "tasks/task_options.h"
#include "topics/figures_codec.h"
#include "topics/figures_verdict.h"

namespace millrace {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kDescription[] =
    "Learns a CSV as a job does, in one process and without Kafka, and prints the figures of "
    "every\n"
    "row tested before it was learned, as one line of JSON: of all rows, and of the last fifth\n"
    "(of the rows from --tail-after on, if that is given). worse_than_prior says in words\n"
    "that the model is worse than the class frequencies, or the mean, alone; null: it is not.";

constexpr char kFooter[] =
    "Examples\n"
    "  learn_csv --input flights.csv --label late --numeric distance --categorical carrier,dest\n"
    "  learn_csv --input flights.csv --label late --numeric distance --workers 4 \\\n"
    "            --update gradient --optimizer adam --learning-rate 0.01\n"
    "\n"
    "All settings are those of CsvProducer and ServerApp, with the same defaults. Where and how "
    "fast\n"
    "rows and messages are sent (--brokers, --rate) makes no difference here: with\n"
    "--schedule buffer all rows come at once.\n"
    "\n"
    "seconds_per_row is processor time: of learning and passing on messages, without reading and\n"
    "encoding the rows.";

// Counts are enough.
class NoRejects final : public RejectSink {
 public:
  Status Add(const RejectedRow&) override { return absl::OkStatus(); }
  Status Finish() override { return absl::OkStatus(); }
  const std::string& name() const override { return name_; }
  bool is_kept() const override { return false; }

 private:
  const std::string name_ = "nowhere";
};

Status FindClasses(const std::string& path, FeatureSpec& spec) {
  if (spec.classes_size() > 0 || spec.regression()) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<CsvFile> file, CsvFile::Open(path));
  MILLRACE_ASSIGN_OR_RETURN(const ClassScan scan, ScanClasses(*file, spec, {}));
  spec.mutable_classes()->Assign(scan.classes.begin(), scan.classes.end());
  return absl::OkStatus();
}

Status FindBins(const std::string& path, FeatureSpec& spec) {
  if (spec.bins_size() == 0 || spec.bin_edges_size() > 0) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<CsvFile> file, CsvFile::Open(path));
  MILLRACE_ASSIGN_OR_RETURN(const BinScan scan, ScanBins(*file, spec, {}));
  *spec.mutable_bin_edges() = scan.edges;
  return absl::OkStatus();
}

StatusOr<std::unique_ptr<CsvStream>> OpenStream(const JobConfig& config, const FeatureSpec& spec,
                                                RejectSink& rejects) {
  CsvStream::Options options;
  options.spec = spec;
  options.epochs = config.producer().epochs();
  options.max_rejects = config.producer().max_rejects();
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<CsvFile> file,
                            CsvFile::Open(config.producer().input()));
  return CsvStream::Create(std::move(file), {}, options, rejects);
}

Status ReadRows(CsvStream& stream, MemoryRows& rows) {
  StreamRecord record;
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(const CsvStream::Event event, stream.Next(&record));
    if (event == CsvStream::Event::kEnd) break;
    if (event == CsvStream::Event::kRow) rows.Add(record.row);
  }
  rows.Finish();
  if (rows.rows() > 0) return absl::OkStatus();
  return absl::FailedPreconditionError("no row of the input can be used; the last: " +
                                       stream.last_reason());
}

// As CsvProducer publishes them.
StatusOr<JobFeatures> FeaturesAsOfAFile(const JobConfig& config, const FeatureSpec& spec) {
  ProgressDisplay quiet(true);
  StreamTraits traits;
  MILLRACE_ASSIGN_OR_RETURN(
      traits.is_for_one_worker,
      IsForOneWorker(
          config, [&] { return SearchForMovingLevel(config.producer().input(), {}, spec); },
          quiet));
  return FeaturesOf(config, spec, traits, std::nullopt);
}

// Sequential results do not depend on the number of shards.
JobTraining TrainingOf(const JobConfig& config, uint64_t rows) {
  JobTraining training;
  training.set_epoch(config.epoch());
  training.set_shards(1);
  *training.mutable_training() = config.training();
  Training& settings = *training.mutable_training();
  SetDefaults(settings);
  if (!settings.has_tail_after_rows() && !settings.has_freeze_after_rows()) {
    settings.set_tail_after_rows(rows - rows / 5);
  }
  return training;
}

Json ToJson(const EvaluationSums& sums, size_t classes) {
  const auto number = [](const std::optional<double>& value) {
    return value ? Json(*value) : Json();
  };
  const EvaluationFigures figures = ComputeFigures(sums, classes);
  if (figures.rmse) {
    return {{"rows", figures.rows},
            {"rmse", *figures.rmse},
            {"prior_rmse", figures.prior_rmse},
            {"mae", number(figures.mae)},
            {"r2", number(figures.r2)}};
  }
  return {{"rows", figures.rows},
          {"log_loss", figures.log_loss},
          {"prior_log_loss", figures.prior_log_loss},
          {"accuracy", figures.accuracy},
          {"f1_macro", figures.f1_macro},
          {"f1_weighted", figures.f1_weighted},
          {"auc", number(figures.auc)}};
}

// What a job's displays say of a model that is worse than the prior; null: it is not.
Json VerdictOn(const EvaluationSums& all, const EvaluationSums& window, size_t classes) {
  const std::optional<std::string> warning =
      WorseThanPriorText(ToFigures(all, classes), ToFigures(window, classes));
  return warning ? Json(*warning) : Json();
}

Status Run(const JobFlags& flags) {
  MILLRACE_ASSIGN_OR_RETURN(const JobConfig config, flags.Load());
  if (config.producer().input().empty()) {
    return absl::InvalidArgumentError("no input: give --input FILE");
  }
  FeatureSpec spec = CompleteSpec(config.features());
  MILLRACE_RETURN_IF_ERROR(ValidateColumns(spec));
  MILLRACE_RETURN_IF_ERROR(FindClasses(config.producer().input(), spec));
  AgreeOnBuckets(
      nullptr, config.features(),
      [&config](FeatureSpec& chosen) { SetDefaultBuckets(&config.training(), chosen); }, spec);
  MILLRACE_RETURN_IF_ERROR(FindBins(config.producer().input(), spec));
  NoRejects rejects;
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<CsvStream> stream,
                            OpenStream(config, spec, rejects));
  MILLRACE_ASSIGN_OR_RETURN(const JobFeatures features, FeaturesAsOfAFile(config, spec));
  MemoryRows rows(DealingOf(features), features.workers());
  MILLRACE_RETURN_IF_ERROR(ReadRows(*stream, rows));

  const JobTraining training = TrainingOf(config, rows.rows());
  MILLRACE_RETURN_IF_ERROR(CheckModel(features, training.training()));
  MILLRACE_RETURN_IF_ERROR(CheckJob(features, training));
  MemoryJob job(features, training, rows);
  const std::clock_t begin = std::clock();
  MILLRACE_RETURN_IF_ERROR(job.Run());
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;

  const ServerProcessor& shard = job.processor();
  const size_t classes = static_cast<size_t>(spec.classes_size());
  const Json result = {
      {"rows", rows.rows()},
      {"rejected", stream->rows_rejected()},
      {"update", Training::Update::Kind_Name(training.training().update().kind())},
      {"non_finite_updates", shard.counters().non_finite_updates()},
      {"drifts", shard.drift().last().count},
      {"seconds_per_row", seconds / static_cast<double>(rows.rows())},
      {"worse_than_prior", VerdictOn(shard.progressive(), shard.window().last(), classes)},
      {"whole", ToJson(shard.progressive(), classes)},
      {"last_fifth", ToJson(shard.tail(), classes)},
  };
  std::printf("%s\n", result.dump().c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  CLI::App app(millrace::kDescription, "learn_csv");
  app.footer(millrace::kFooter);
  millrace::JobFlags flags(app);
  flags.AddFeatures();
  flags.AddTraining();
  flags.AddProducer();
  return millrace::RunProgram(app, "learn_csv", argc, argv, [&] { return millrace::Run(flags); });
}
