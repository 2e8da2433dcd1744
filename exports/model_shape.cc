#include "exports/model_shape.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "features/feature_encoder.h"
#include "models/deep_fm.h"
#include "models/factorization_machine.h"
#include "models/mixed_softmax.h"
#include "models/moments.h"
#include "models/softmax_regression.h"
#include "models/wide_network.h"
#include "models/wide_softmax.h"

namespace millrace {
namespace {

// As jobs may have them (apps/config_checks.cc).
constexpr int kMostLayers = 8;
constexpr uint32_t kMostUnits = 4096;
constexpr uint32_t kMostFactors = 10'000;
// Of the weights of one model, so that no product of sizes wraps.
constexpr uint64_t kMostParameters = uint64_t{1} << 40;

Status Wrong(const std::string& what) { return absl::InvalidArgumentError(what); }

bool HasFactors(const ModelShape& shape) {
  return shape.kind() == ModelShape::FACTORIZATION_MACHINE || shape.kind() == ModelShape::DEEP_FM;
}
bool HasLayers(const ModelShape& shape) {
  return shape.kind() == ModelShape::DEEP_FM || shape.kind() == ModelShape::NETWORK;
}

Status CheckLayers(const ModelShape& shape) {
  if (!HasLayers(shape)) {
    return shape.hidden().empty() ? absl::OkStatus() : Wrong("the model has no hidden layers");
  }
  const auto is_wrong = [](uint32_t units) { return units < 1 || units > kMostUnits; };
  if (shape.hidden_size() < 1 || shape.hidden_size() > kMostLayers ||
      std::ranges::any_of(shape.hidden(), is_wrong)) {
    return Wrong("it needs 1 to 8 hidden layers of 1 to 4096 units each");
  }
  return absl::OkStatus();
}

OnlineSoftmax::Shape MixedShape(const ModelShape& shape) {
  return {.numeric = shape.numeric(),
          .features = shape.features(),
          .classes = shape.classes(),
          .wide = shape.wide(),
          .ids = shape.ids() > 0};
}

std::unique_ptr<Model> MakeLinear(const ModelShape& shape) {
  if (shape.mixed()) return std::make_unique<MixedSoftmax>(MixedShape(shape));
  if (shape.classes() == 0) {
    return std::make_unique<FactorizationMachine>(
        FactorizationMachine::Shape{.features = shape.features(), .has_ids = shape.ids() > 0},
        ScoreLoss{.of_classes = false});
  }
  if (shape.wide()) {
    return std::make_unique<WideSoftmax>(shape.numeric(), shape.features(), shape.classes());
  }
  return std::make_unique<SoftmaxRegression>(shape.features(), shape.classes());
}

Status CheckTarget(const ModelDescription& description) {
  const ModelDescription::Target& target = description.target();
  if (description.has_target() != (description.shape().classes() == 0)) {
    return Wrong("a regression has a target, and no other model has one");
  }
  const TargetMoments moments = TargetOf(description);
  if (!moments.IsValid() || target.has_least() != target.has_most()) {
    return Wrong("the target's mean, deviation and range are those of no numbers");
  }
  if (!description.has_target()) return absl::OkStatus();
  const double unit = description.shape().mixed() ? 1.0 : moments.deviation();
  return target.unit() == unit ? absl::OkStatus() : Wrong("the target's unit is not its deviation");
}

Status CheckFrequencies(const ModelDescription& description) {
  if (!description.has_frequencies()) return absl::OkStatus();
  const ModelShape& shape = description.shape();
  if (shape.kind() == ModelShape::LINEAR || shape.classes() == 0) {
    return Wrong("the scores of such a model do not begin at the frequencies of classes");
  }
  const ModelDescription::Frequencies& frequencies = description.frequencies();
  const auto classes = static_cast<int>(shape.classes());
  const auto is_no_count = [](uint64_t rows) { return rows > Moments::kMostClassRows; };
  const auto is_no_factor = [](float weight) { return !std::isfinite(weight) || weight < 0; };
  if (frequencies.rows_size() != classes || std::ranges::any_of(frequencies.rows(), is_no_count)) {
    return Wrong("the frequencies are not those of the classes");
  }
  const bool has_factors = frequencies.weight_size() > 0;
  if (has_factors && (frequencies.weight_size() != classes || HasFactors(shape) ||
                      std::ranges::any_of(frequencies.weight(), is_no_factor))) {
    return Wrong("the classes' weights are not those of the classes");
  }
  return absl::OkStatus();
}

Status CheckColumns(const FeatureSpec& spec, const ModelShape& shape) {
  MILLRACE_ASSIGN_OR_RETURN(const FeatureEncoder encoder, FeatureEncoder::Create(spec));
  const size_t classes = spec.regression() ? 0 : static_cast<size_t>(spec.classes_size());
  if (encoder.numeric_count() == shape.numeric() && encoder.feature_count() == shape.features() &&
      classes == shape.classes() && static_cast<uint32_t>(spec.ids_size()) == shape.ids()) {
    return absl::OkStatus();
  }
  return Wrong("the features (numeric, hashed, classes, ids) are not those of the shape");
}

}  // namespace

Status CheckShape(const ModelShape& shape) {
  if (!ModelShape::Kind_IsValid(shape.kind())) return Wrong("there is no model of this kind");
  if (shape.classes() == 1 || shape.numeric() > shape.features()) {
    return Wrong("a model has no classes or two and more, and its numeric columns are features");
  }
  if (shape.mixed() && shape.kind() != ModelShape::LINEAR) {
    return Wrong("only linear models are mixed");
  }
  if (shape.wide() &&
      (HasFactors(shape) || shape.numeric() == shape.features() ||
       (shape.kind() == ModelShape::LINEAR && !shape.mixed() && shape.classes() == 0))) {
    return Wrong("such a model cannot be wide");
  }
  if ((shape.kind() == ModelShape::DEEP_FM && shape.factors() == 0) ||
      (!HasFactors(shape) && shape.factors() > 0)) {
    return Wrong("a model of this kind has another number of factors");
  }
  if (HasFactors(shape) && (shape.ids() == 0 || shape.classes() > 2)) {
    return Wrong("a model with factors has id columns, and two classes or none");
  }
  if (shape.factors() > kMostFactors) return Wrong("it has more than 10000 factors");
  if (shape.kind() == ModelShape::LINEAR && !shape.mixed() && shape.classes() > 0 &&
      shape.ids() > 0) {
    return Wrong("such a linear model has no ids");
  }
  if (!std::isfinite(shape.row_limit()) || shape.row_limit() < 0) {
    return Wrong("the limit of new rows is no number");
  }
  MILLRACE_RETURN_IF_ERROR(CheckLayers(shape));
  const uint64_t of_feature = shape.kind() == ModelShape::NETWORK
                                  ? shape.classes() + uint64_t{shape.hidden(0)}
                                  : shape.classes();
  if ((uint64_t{shape.features()} + 1) * std::max<uint64_t>(of_feature, 1) > kMostParameters) {
    return Wrong("it has more weights than any machine can hold");
  }
  return absl::OkStatus();
}

std::unique_ptr<Model> MakePredictor(const ModelDescription& description) {
  const ModelShape& shape = description.shape();
  MILLRACE_CHECK(CheckShape(shape).ok());
  const ModelDescription::Frequencies& frequencies = description.frequencies();
  const ScoreLoss loss{.of_classes = shape.classes() > 0,
                       .from_frequencies = description.has_frequencies()};
  const std::vector<size_t> hidden(shape.hidden().begin(), shape.hidden().end());
  switch (shape.kind()) {
    case ModelShape::FACTORIZATION_MACHINE:
      return std::make_unique<FactorizationMachine>(
          FactorizationMachine::Shape{.features = shape.features(), .factors = shape.factors()},
          loss);
    case ModelShape::DEEP_FM:
      return std::make_unique<DeepFm>(
          DeepFm::Shape{shape.features(), shape.numeric(), shape.ids(), shape.factors(), hidden},
          loss);
    case ModelShape::NETWORK:
      return std::make_unique<WideNetwork>(
          WideNetwork::Shape{.features = shape.features(),
                             .numeric = shape.numeric(),
                             .classes = shape.classes(),
                             .wide = shape.wide(),
                             .has_ids = shape.ids() > 0,
                             .hidden = hidden},
          loss, std::vector<float>(frequencies.weight().begin(), frequencies.weight().end()));
    default:
      return MakeLinear(shape);
  }
}

Status CheckDescription(const ModelDescription& description) {
  const ModelShape& shape = description.shape();
  MILLRACE_RETURN_IF_ERROR(CheckShape(shape));
  MILLRACE_RETURN_IF_ERROR(CheckColumns(description.features(), shape));
  MILLRACE_RETURN_IF_ERROR(CheckTarget(description));
  MILLRACE_RETURN_IF_ERROR(CheckFrequencies(description));
  const std::unique_ptr<Model> model = MakePredictor(description);
  const size_t width = model->row_width();
  if (shape.row_width() != width ||
      shape.row_zeros() != (width > 0 ? model->row_linear_end() : 0)) {
    return Wrong("the width of embedding rows is not the model's");
  }
  return absl::OkStatus();
}

TargetMoments TargetOf(const ModelDescription& description) {
  const ModelDescription::Target& target = description.target();
  const bool has_range = target.has_least() && target.has_most();
  return {.count = target.count(),
          .mean = target.mean(),
          .m2 = target.m2(),
          .errors = has_range ? 1.0 : 0.0,
          .least = target.least(),
          .most = target.most(),
          .range_votes = has_range ? 1.0 : 0.0};
}

size_t WeightColumns(const ModelDescription& description) {
  if (description.shape().kind() != ModelShape::LINEAR) return 0;
  return std::max<size_t>(description.shape().classes(), 1);
}

}  // namespace millrace
