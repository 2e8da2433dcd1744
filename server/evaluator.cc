#include "server/evaluator.h"

#include <algorithm>
#include <utility>

#include "base/distinct_ids.h"
#include "features/csv_format.h"
#include "features/csv_row_encoder.h"
#include "formats/csv_file.h"

namespace millrace {
namespace {

constexpr size_t kRowsAtOnce = 256;  // scores of so many rows are held

}  // namespace

StatusOr<TestSet> ReadTestSet(const std::string& path, const CsvFormat& format,
                              const FeatureSpec& spec) {
  CsvFile::Options options;
  MILLRACE_RETURN_IF_ERROR(ApplyCsvFormat(format, &options));
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<CsvFile> file, CsvFile::Open(path, options));
  MILLRACE_ASSIGN_OR_RETURN(CsvRowEncoder encoder,
                            CsvRowEncoder::Create(spec, file->columns(), file->name()));
  TestSet test_set;
  CsvRecord record;
  Row row;
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(const bool more, file->Next(&record));
    if (!more) break;
    const Status encoded = record.ok() ? encoder.Encode(record.fields, &row)
                                       : absl::InvalidArgumentError(record.error);
    if (encoded.ok()) {
      test_set.rows.push_back(row);
      continue;
    }
    if (test_set.rejected++ == 0) {
      test_set.first_reject =
          "line " + std::to_string(record.line) + ": " + std::string(encoded.message());
    }
  }
  if (test_set.rows.empty()) {
    return absl::InvalidArgumentError(
        path + " has no usable row for evaluation; check that it has the columns of the stream" +
        (test_set.rejected > 0 ? "; " + test_set.first_reject : std::string()));
  }
  return test_set;
}

Evaluator::Evaluator(TestSet test_set, const Model& model, size_t classes, bool scale,
                     Report report)
    : test_set_(std::move(test_set)),
      model_(model),
      classes_(classes),
      scale_(scale),
      report_(std::move(report)) {
  if (const OnlineSoftmax* online = model.online()) mixed_.emplace(online->shape());
  for (const Row& row : test_set_.rows) {
    views_.push_back(&row);
    model.AppendIds(row, ids_);
  }
  SortDistinct(ids_);
}

void Evaluator::Offer(EvaluationInput input) {
  worker_.Post("evaluation", [this, input = std::move(input)] { report_(input, Evaluate(input)); });
}

EvaluationFigures Evaluator::Evaluate(const EvaluationInput& input) const {
  Scaler scaler = scale_ ? Scaler(input.moments) : Scaler::Identity(input.moments.columns());
  scaler.set_target(input.moments.target);
  scaler.set_class_rows(input.moments.class_rows);
  const Model& model = mixed_ ? static_cast<const Model&>(*mixed_) : model_;
  std::span<const float> parameters = input.parameters;
  std::span<const float> named = input.rows;
  std::vector<float> mixed;
  std::vector<float> mixed_rows;
  if (const OnlineSoftmax* online = model_.online()) {
    parameters = mixed = online->MixedParameters(input.parameters);
    named = mixed_rows = online->MixBlocks(input.parameters, input.rows);
  }
  const size_t width = model.score_count();
  EvaluationSums sums;
  std::vector<float> scores(kRowsAtOnce * width);
  for (size_t begin = 0; begin < views_.size(); begin += kRowsAtOnce) {
    const size_t count = std::min(kRowsAtOnce, views_.size() - begin);
    const RowsView rows(views_.data() + begin, count);
    const std::span<float> part(scores.data(), count * width);
    model.Compute(rows, scaler, parameters, {ids_, named}, nullptr, part);
    for (size_t i = 0; i < count; ++i) {
      sums.AddRow(*rows[i], part.subspan(i * width, width), classes_);
    }
  }
  return ComputeFigures(sums, classes_);
}

}  // namespace millrace
