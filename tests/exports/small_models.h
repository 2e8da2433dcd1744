// Models of every kind with random weights, for tests.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "exports/exported_model.h"
#include "exports/model_shape.h"
#include "exports/model_writer.h"
#include "tests/models/random_rows.h"

namespace millrace {

// Two numeric columns, a categorical one of 8 buckets, and two id columns if `ids`; the indicators
// of missing numbers make it 2 + 2 + 8 features. `classes` 0: a regression.
inline ModelDescription DescriptionFor(ModelShape::Kind kind, size_t classes, bool ids) {
  ModelDescription description;
  description.set_job("job");
  FeatureSpec& spec = *description.mutable_features();
  spec.set_label("y");
  spec.set_regression(classes == 0);
  for (size_t k = 0; k < classes; ++k) spec.add_classes("class " + std::to_string(k));
  spec.add_numeric("a");
  spec.add_numeric("b");
  spec.add_categorical("c");
  spec.set_categorical_buckets(8);
  if (ids) spec.add_ids("u");
  if (ids) spec.add_ids("v");
  ModelShape& shape = *description.mutable_shape();
  shape.set_kind(kind);
  shape.set_numeric(2);
  shape.set_features(12);
  shape.set_classes(static_cast<uint32_t>(classes));
  shape.set_ids(ids ? 2 : 0);
  shape.set_row_seed(5);
  shape.set_row_limit(0.25f);
  shape.set_scaled(true);
  const bool has_factors = kind == ModelShape::FACTORIZATION_MACHINE || kind == ModelShape::DEEP_FM;
  if (has_factors) shape.set_factors(3);
  if (kind == ModelShape::DEEP_FM || kind == ModelShape::NETWORK) {
    shape.add_hidden(5);
    shape.add_hidden(4);
  }
  if (classes == 0) {
    ModelDescription::Target& target = *description.mutable_target();
    target.set_count(4);
    target.set_mean(10);
    target.set_m2(36);
    target.set_unit(3);
  }
  if (classes > 0 && kind != ModelShape::LINEAR) {
    for (size_t k = 0; k < classes; ++k) description.mutable_frequencies()->add_rows(3 + 7 * k);
  }
  return description;
}

// Sets what follows from the model.
inline void SetRowWidth(ModelDescription& description) {
  const auto model = MakePredictor(description);
  const size_t width = model->row_width();
  description.mutable_shape()->set_row_width(static_cast<uint32_t>(width));
  description.mutable_shape()->set_row_zeros(
      static_cast<uint32_t>(width > 0 ? model->row_linear_end() : 0));
}

// Rows of some features and of some of the ids 0, 7, 14, ... below 140.
inline ExportedModel RandomModel(ModelDescription description, unsigned seed = 1) {
  std::mt19937 random(seed);
  SetRowWidth(description);
  ExportedModel model;
  model.weights = RandomFloats(MakePredictor(description)->parameter_count(), 0.5f, random);
  const size_t width = description.shape().row_width();
  for (EmbeddingId id = 0; id < 140 && width > 0; id += id < 12 ? 3 : 7) model.ids.push_back(id);
  model.rows = RandomFloats(model.ids.size() * width, 0.5f, random);
  model.moments = Moments(2);
  model.moments.count = {10, 20};
  model.moments.mean = {0.5, -0.25};
  model.moments.m2 = {40, 5};
  model.description = std::move(description);
  return model;
}

// One of each kind.
struct SmallModel {
  const char* name;
  ModelShape::Kind kind;
  size_t classes;
  bool ids;
  bool mixed = false;
  bool wide = false;
};

inline std::vector<SmallModel> AllSmallModels() {
  return {{"Softmax", ModelShape::LINEAR, 3, false},
          {"WideSoftmax", ModelShape::LINEAR, 3, false, false, true},
          {"Regression", ModelShape::LINEAR, 0, false},
          {"RegressionWithIds", ModelShape::LINEAR, 0, true},
          {"OnlineOfTwoClasses", ModelShape::LINEAR, 2, false, true},
          {"OnlineOfManyClasses", ModelShape::LINEAR, 4, false, true},
          {"OnlineWide", ModelShape::LINEAR, 3, false, true, true},
          {"OnlineWithIds", ModelShape::LINEAR, 2, true, true},
          {"OnlineWideWithIds", ModelShape::LINEAR, 2, true, true, true},
          {"OnlineRegression", ModelShape::LINEAR, 0, false, true},
          {"OnlineRegressionWithIds", ModelShape::LINEAR, 0, true, true, true},
          {"FactorizationMachine", ModelShape::FACTORIZATION_MACHINE, 2, true},
          {"FactorizationMachineOfANumber", ModelShape::FACTORIZATION_MACHINE, 0, true},
          {"DeepFm", ModelShape::DEEP_FM, 2, true},
          {"Network", ModelShape::NETWORK, 3, false},
          {"NetworkWithIds", ModelShape::NETWORK, 0, true},
          {"WideNetwork", ModelShape::NETWORK, 2, true, false, true}};
}

inline ModelDescription SmallDescription(const SmallModel& each) {
  ModelDescription description = DescriptionFor(each.kind, each.classes, each.ids);
  description.mutable_shape()->set_mixed(each.mixed);
  description.mutable_shape()->set_wide(each.wide);
  if (each.mixed && each.classes == 0) description.mutable_target()->set_unit(1);
  if (each.kind == ModelShape::NETWORK && each.classes > 0) {
    for (size_t k = 0; k < each.classes; ++k) {
      description.mutable_frequencies()->add_weight(0.5f + static_cast<float>(k));
    }
  }
  return description;
}
inline ExportedModel ModelOf(const SmallModel& each) { return RandomModel(SmallDescription(each)); }

inline std::vector<Row> SomeRows(const SmallModel& each) {
  std::mt19937 random(3);
  std::vector<Row> rows = RandomRows({.numeric = 2,
                                      .hashed = 10,
                                      .hashed_in_row = 4,
                                      .missing = 0.2,
                                      .ids = {0, 7, 9, 21, 70, 1000, 1001, 1u << 30},
                                      .ids_in_row = each.ids ? 2u : 0u},
                                     std::max<size_t>(each.classes, 1), 50, random);
  if (!each.ids) {
    for (Row& row : rows) row.ids.clear();
  }
  return rows;
}

inline Status Write(const std::string& folder, const ExportedModel& model) {
  const size_t width = model.description.shape().row_width();
  return WriteModel(folder,
                    {.description = model.description,
                     .weights = model.weights,
                     .moments = model.moments,
                     .visit_rows = [&](const ModelToWrite::TakeRow& take) -> Status {
                       for (size_t i = 0; i < model.ids.size(); ++i) {
                         MILLRACE_RETURN_IF_ERROR(
                             take(model.ids[i], std::span(model.rows).subspan(i * width, width)));
                       }
                       return absl::OkStatus();
                     }});
}

}  // namespace millrace
