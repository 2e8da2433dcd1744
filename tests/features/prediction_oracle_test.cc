// What docs/predict.py computes from a weights file, against the encoder, the scaling and the model
// that the weights were trained with, by the file that make_prediction_oracle.py wrote.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "features/csv_row_encoder.h"
#include "formats/csv_file.h"
#include "models/factorization_machine.h"
#include "models/moments.h"
#include "models/softmax_regression.h"

namespace millrace {
namespace {

constexpr size_t kClasses = 3;

FeatureSpec Spec() {
  FeatureSpec spec;
  spec.set_label("y");
  for (const char* name : {"no", "maybe", "yes"}) spec.add_classes(name);
  for (const char* column : {"n", "wide", "constant", "paid", "at.days"}) spec.add_numeric(column);
  spec.add_booleans("paid");
  spec.add_times("at");
  for (const char* term :
       {"c", "d", "c*d", "a=b\\", "c*b*n", "at.hour", "at.weekday*at.month", "\"e*f\"*c"}) {
    spec.add_categorical(term);
  }
  spec.set_categorical_buckets(7);
  for (const char* item : {"b:8", "n"}) spec.add_bins(item);
  for (const auto& [column, edges] :
       {std::pair("b", std::vector<double>{-25, 1, 1e9}), {"n", std::vector<double>{0.5}}}) {
    FeatureSpec::BinEdges& added = *spec.add_bin_edges();
    added.set_column(column);
    for (double edge : edges) added.add_edge(edge);
  }
  for (const char* column : {"t", "u"}) spec.add_text(column);
  spec.set_text_buckets(16);
  spec.set_missing(FeatureSpec::MEAN_AND_INDICATOR);
  return spec;
}

std::vector<float> Weights(size_t features) {
  std::vector<float> weights;
  for (size_t f = 0; f <= features; ++f) {
    for (size_t k = 0; k < kClasses; ++k) {
      const auto number = static_cast<int>((f * 7919 + k * 104729) % 2001) - 1000;
      weights.push_back(static_cast<float>(number / 4000.0));
    }
  }
  return weights;
}

TEST(PredictionOracle, TheProgramOfThePageComputesWhatTheModelDoes) {
  const auto file = CsvFile::Open(MILLRACE_PREDICTION_ORACLE).value();
  CsvRowEncoder encoder = CsvRowEncoder::Create(Spec(), file->columns(), file->name()).value();
  const size_t features = encoder.encoder().feature_count();
  const SoftmaxRegression model(features, kClasses);
  Moments moments(5);
  moments.count = {10, 10, 4, 9, 20};
  moments.mean = {1.5, -2e6, 3, 0.5, 15000};
  moments.m2 = {40, 9e12, 0, 2.25, 5e9};
  std::vector<float> of_first_class;
  for (size_t f = 0; f <= features; ++f) of_first_class.push_back(Weights(features)[f * kClasses]);
  const FactorizationMachine regression({.features = features, .has_ids = false},
                                        {.of_classes = false});
  moments.target = {
      .count = 4, .mean = 100, .m2 = 16, .errors = 1, .least = 98.5, .most = 101, .range_votes = 1};
  Scaler scaler(moments);
  scaler.set_target(moments.target);
  const size_t first = FindColumn(file->columns(), "p no", "").value();
  CsvRecord record;
  int rows = 0;
  for (; file->Next(&record).value(); ++rows) {
    Row row;
    const Status encoded = encoder.Encode(record.fields, &row);
    ASSERT_TRUE(encoded.ok()) << "line " << record.line << ": " << encoded;
    const Row* const batch[] = {&row};
    std::vector<float> scores(kClasses);
    model.Compute(batch, Scaler(moments), Weights(features), nullptr, scores);
    for (size_t k = 0; k < kClasses; ++k) {
      EXPECT_NEAR(scores[k], std::strtod(std::string(record.fields[first + k]).c_str(), nullptr),
                  3e-6)
          << "line " << record.line << ", class " << k;
    }
    std::vector<float> estimate(1);
    regression.Compute(batch, scaler, of_first_class, {}, nullptr, estimate);
    EXPECT_NEAR(estimate[0],
                std::strtod(std::string(record.fields[first + kClasses]).c_str(), nullptr), 1e-4)
        << "line " << record.line;
  }
  EXPECT_EQ(rows, 48);
}

}  // namespace
}  // namespace millrace
