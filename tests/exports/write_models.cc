// Writes models of random weights, and what they predict of the rows of a CSV, for onnx_test.py and
// model_format_test.py.
//
//   write_models FLIGHTS.csv FOLDER     FOLDER/NAME/model and FOLDER/NAME/scores.npy of each
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/distinct_ids.h"
#include "base/private_file.h"
#include "exports/model_reader.h"
#include "exports/model_scorer.h"
#include "features/csv_row_encoder.h"
#include "formats/csv_file.h"
#include "formats/npy_file.h"
#include "tests/exports/small_models.h"

namespace millrace {
namespace {

struct Kind {
  SmallModel model;
  bool scaled = true;
  bool has_range = false;  // of a regression
};

std::vector<Kind> Kinds() {
  constexpr ModelShape::Kind kLinear = ModelShape::LINEAR;
  constexpr ModelShape::Kind kNetwork = ModelShape::NETWORK;
  return {{{"online", kLinear, 2, false, true, false}},
          {{"online-wide-unscaled", kLinear, 2, false, true, true}, false},
          {{"softmax", kLinear, 2, false, false, false}},
          {{"online-classes", kLinear, 3, false, true, false}},
          {{"softmax-classes", kLinear, 3, false, false, false}},
          {{"online-regression", kLinear, 0, false, true, false}},
          {{"regression", kLinear, 0, false, false, false}},
          {{"fm", ModelShape::FACTORIZATION_MACHINE, 2, true}},
          {{"deepfm", ModelShape::DEEP_FM, 2, true}},
          {{"deepfm-regression", ModelShape::DEEP_FM, 0, true}},
          {{"online-ids", kLinear, 2, true, true, false}},
          {{"network-wide-ids", kNetwork, 2, true, false, true}},
          {{"network", kNetwork, 2, false, false, false}},
          {{"network-classes", kNetwork, 3, false, false, false}},
          {{"network-wide", kNetwork, 2, false, false, true}},
          {{"network-regression", kNetwork, 0, false, false, false}},
          {{"online-regression-range", kLinear, 0, false, true, false}, true, true},
          {{"network-regression-range", kNetwork, 0, false, false, false}, true, true}};
}

// Cells of all kinds. (A gust of 0 is none.) Of a regression there are 0 classes; of three the
// label is the airport.
FeatureSpec FlightsSpec(size_t classes, bool ids) {
  FeatureSpec spec;
  spec.set_label(classes == 0 ? "hour_flights" : classes == 2 ? "late" : "origin");
  spec.set_regression(classes == 0);
  std::vector<std::string> names;
  if (classes == 2) names = {"no", "yes"};
  if (classes == 3) names = {"EWR", "JFK", "LGA"};
  for (const std::string& name : names) spec.add_classes(name);
  for (const char* column : {"distance", "wind_gust", "temp", "time.days"})
    spec.add_numeric(column);
  const char* const cross = classes == 3 ? "carrier*weekday" : "origin*weekday";
  for (const char* term : {"carrier", "time.hour", cross, "dest*wind_gust"}) {
    spec.add_categorical(term);
  }
  spec.set_categorical_buckets(200);
  if (ids) {
    for (const char* term : {"dest", "carrier*time.hour", "wind_gust"}) spec.add_ids(term);
  }
  for (const char* column : {"plane_model", "plane_maker"}) spec.add_text(column);
  spec.set_text_buckets(32);
  spec.add_times("time");
  spec.add_missing_tokens("0");
  spec.add_bins("wind_gust:3");
  FeatureSpec::BinEdges& edges = *spec.add_bin_edges();
  edges.set_column("wind_gust");
  for (const double edge : {21.0, 26.5}) edges.add_edge(edge);
  return spec;
}

StatusOr<std::vector<Row>> ReadRows(const std::string& path, const FeatureSpec& spec) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<CsvFile> file, CsvFile::Open(path));
  MILLRACE_ASSIGN_OR_RETURN(CsvRowEncoder encoder,
                            CsvRowEncoder::Create(spec, file->columns(), file->name()));
  std::vector<Row> rows;
  CsvRecord record;
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(const bool more, file->Next(&record));
    if (!more) return rows;
    MILLRACE_RETURN_IF_ERROR(encoder.Encode(record.fields, &rows.emplace_back()));
  }
}

// The others have the rows of new ones.
void KnowEverySecondId(const std::vector<Row>& rows, ExportedModel& model) {
  const size_t width = model.description.shape().row_width();
  if (width == 0) return;
  const std::unique_ptr<Model> predictor = MakePredictor(model.description);
  std::vector<EmbeddingId> ids;
  for (const Row& row : rows) predictor->AppendIds(row, ids);
  SortDistinct(ids);
  model.ids.clear();
  for (size_t i = 0; i < ids.size(); i += 2) model.ids.push_back(ids[i]);
  std::mt19937 random(2);
  model.rows = RandomFloats(model.ids.size() * width, 0.5f, random);
}

Status WriteOne(const Kind& kind, const std::string& csv, const std::string& folder) {
  ModelDescription description = SmallDescription(kind.model);
  const FeatureSpec spec = FlightsSpec(kind.model.classes, kind.model.ids);
  *description.mutable_features() = spec;
  MILLRACE_ASSIGN_OR_RETURN(const FeatureEncoder encoder, FeatureEncoder::Create(spec));
  description.mutable_shape()->set_numeric(static_cast<uint32_t>(encoder.numeric_count()));
  description.mutable_shape()->set_features(static_cast<uint32_t>(encoder.feature_count()));
  description.mutable_shape()->set_scaled(kind.scaled);
  if (kind.has_range) {
    description.mutable_target()->set_least(9.5);
    description.mutable_target()->set_most(10.5);
  }
  description.mutable_shape()->set_ids(static_cast<uint32_t>(spec.ids_size()));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<Row> rows, ReadRows(csv, spec));
  ExportedModel model = RandomModel(std::move(description));
  model.moments = Moments(encoder.numeric_count());
  for (const Row& row : rows) model.moments.Add(row);
  KnowEverySecondId(rows, model);
  // (Numbers that are not scaled would leave no probability but 0 and 1.)
  for (float& weight : model.weights) weight *= kind.scaled ? 1.0f : 1e-4f;
  if (const std::error_code error = MakePrivateFolder(folder); error) {
    return absl::UnavailableError(folder + ": " + error.message());
  }
  MILLRACE_RETURN_IF_ERROR(Write(folder + "/model", model));
  MILLRACE_ASSIGN_OR_RETURN(ExportedModel read, ReadModel(folder + "/model"));
  const ModelScorer scorer(std::move(read));
  const size_t width = scorer.score_count();
  std::vector<float> scores(rows.size() * width);
  scorer.Score(Pointers(rows), scores);
  return WriteNpy(folder + "/scores.npy", scores, rows.size(), width);
}

Status Run(const std::string& csv, const std::string& folder) {
  for (const Kind& kind : Kinds()) {
    MILLRACE_RETURN_IF_ERROR(WriteOne(kind, csv, folder + "/" + kind.model.name));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  if (argc != 3) {
    (void)std::fprintf(stderr, "usage: write_models FLIGHTS.csv FOLDER\n");
    return 2;
  }
  const millrace::Status status = millrace::Run(argv[1], argv[2]);
  if (status.ok()) return 0;
  (void)std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return 1;
}
