// Predicts the rows of a CSV by an exported model, and prints the figures as the server's
// evaluation log has them, for test_topology.py.
//
//   score_model MODEL_FOLDER FILE.csv
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exports/model_reader.h"
#include "exports/model_scorer.h"
#include "features/csv_row_encoder.h"
#include "formats/csv_file.h"
#include "models/evaluation.h"

namespace millrace {
namespace {

Status Run(const std::string& folder, const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(ExportedModel model, ReadModel(folder));
  const ModelScorer scorer(std::move(model));
  const ModelDescription& description = scorer.model().description;
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<CsvFile> file, CsvFile::Open(path));
  MILLRACE_ASSIGN_OR_RETURN(
      CsvRowEncoder encoder,
      CsvRowEncoder::Create(description.features(), file->columns(), file->name()));
  const size_t classes = description.shape().classes();
  EvaluationSums sums;
  CsvRecord record;
  Row row;
  const Row* const view = &row;
  std::vector<float> scores(scorer.score_count());
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(const bool more, file->Next(&record));
    if (!more) break;
    if (!record.ok() || !encoder.Encode(record.fields, &row).ok()) continue;
    scorer.Score(RowsView(&view, 1), scores);
    sums.AddRow(row, scores, classes);
  }
  const EvaluationFigures figures = ComputeFigures(sums, classes);
  const auto print = [](const char* name, const std::optional<double>& value) {
    if (value) std::printf("%s=%.6f\n", name, *value);
  };
  if (figures.rmse) {
    print("rmse", figures.rmse);
    print("mae", figures.mae);
    print("r2", figures.r2);
  } else {
    print("loss", figures.log_loss);
    print("fMeasure", figures.f1_weighted);
    print("accuracy", figures.accuracy);
    print("auc", figures.auc);
    print("calibration_error", figures.calibration_error);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  if (argc != 3) {
    (void)std::fprintf(stderr, "usage: score_model MODEL_FOLDER FILE.csv\n");
    return 2;
  }
  const millrace::Status status = millrace::Run(argv[1], argv[2]);
  if (status.ok()) return 0;
  (void)std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return 1;
}
