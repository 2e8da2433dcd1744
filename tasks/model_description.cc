#include "tasks/model_description.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "models/evaluation.h"
#include "tasks/class_weights.h"
#include "tasks/task_options.h"
#include "topics/figures_codec.h"
#include "topics/row_codec.h"

namespace millrace {
namespace {

ModelShape::Kind KindOf(Training::Model model) {
  switch (model) {
    case Training::SOFTMAX:
    case Training::EXTERNAL:  // never described
      return ModelShape::LINEAR;
    case Training::FACTORIZATION_MACHINE:
      return ModelShape::FACTORIZATION_MACHINE;
    case Training::DEEP_FM:
      return ModelShape::DEEP_FM;
    case Training::NETWORK:
      return ModelShape::NETWORK;
  }
  return ModelShape::LINEAR;
}

void SetTarget(const TargetMoments& moments, ModelDescription& description) {
  ModelDescription::Target& target = *description.mutable_target();
  target.set_count(moments.count);
  target.set_mean(moments.mean);
  target.set_m2(moments.m2);
  target.set_unit(description.shape().mixed() ? 1.0 : moments.deviation());
  target.clear_least();
  target.clear_most();
  if (!moments.keeps_to_range()) return;
  target.set_least(moments.least);
  target.set_most(moments.most);
}

void SetFrequencies(const std::vector<uint64_t>& class_rows, const std::vector<float>& weights,
                    ModelDescription& description) {
  ModelDescription::Frequencies& frequencies = *description.mutable_frequencies();
  frequencies.Clear();
  for (size_t k = 0; k < description.shape().classes(); ++k) {
    frequencies.add_rows(k < class_rows.size() ? class_rows[k] : 0);
  }
  if (description.shape().kind() != ModelShape::NETWORK) return;
  frequencies.mutable_weight()->Assign(weights.begin(), weights.end());
}

}  // namespace

ModelShape ShapeOfModel(const JobFeatures& features, const Training& training) {
  const RowShape row = RowShapeFrom(features);
  ModelShape shape;
  shape.set_kind(KindOf(training.model()));
  shape.set_mixed(training.update().kind() == Training::Update::ONLINE);
  shape.set_numeric(static_cast<uint32_t>(row.numeric));
  shape.set_features(static_cast<uint32_t>(row.features));
  shape.set_classes(static_cast<uint32_t>(row.classes));
  shape.set_ids(static_cast<uint32_t>(row.ids));
  shape.set_wide(IsWide(features, training));
  const bool is_linear = training.model() == Training::SOFTMAX;
  if (!is_linear && training.model() != Training::NETWORK) {
    shape.set_factors(training.embedding().factors());
  }
  if (training.model() == Training::DEEP_FM || training.model() == Training::NETWORK) {
    for (const size_t units : HiddenLayers(training)) {
      shape.add_hidden(static_cast<uint32_t>(units));
    }
  }
  shape.set_row_seed(training.embedding().seed());
  shape.set_row_limit(static_cast<float>(training.embedding().initial_limit()));
  shape.set_scaled(training.scaling() == Training::RUNNING);
  return shape;
}

void DescribeRows(const Model& model, ModelShape& shape) {
  if (model.row_width() == 0) return;
  const bool is_mixed = model.online() != nullptr;
  const size_t width = is_mixed ? model.score_count() : model.row_width();
  shape.set_row_width(static_cast<uint32_t>(width));
  shape.set_row_zeros(static_cast<uint32_t>(is_mixed ? width : model.row_linear_end()));
}

void DescribeFigures(const ShardState& first, ModelDescription& description) {
  const size_t classes = description.shape().classes();
  *description.mutable_progressive() = ToFigures(FromProto(first.progressive()), classes);
  *description.mutable_window() = ToFigures(FromProto(first.window()), classes);
  description.set_window_end(first.window_end());
  description.set_rows(first.rows_trained());
}

Moments MomentsOfColumns(const MomentsMessage& message, size_t columns) {
  Moments moments = FromProto(message);
  for (std::vector<double>* sums : {&moments.count, &moments.mean, &moments.m2}) {
    sums->resize(columns);
  }
  return moments;
}

void DescribeMoments(const Moments& moments, const JobFeatures& features, const Training& training,
                     const Model& model, ModelDescription& description) {
  if (description.shape().classes() == 0) {
    SetTarget(moments.target, description);
  } else if (model.uses_targets()) {
    SetFrequencies(moments.class_rows, *ClassWeightsOf(features.spec(), training), description);
  }
}

}  // namespace millrace
