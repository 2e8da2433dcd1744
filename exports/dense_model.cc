#include "exports/dense_model.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>

#include "base/check.h"
#include "exports/embedding_rows.h"
#include "exports/model_shape.h"
#include "models/model.h"
#include "models/online_softmax.h"
#include "models/wide_network.h"

namespace millrace {
namespace {

// A file is held in memory some times over while it is written.
constexpr uint64_t kMostFloats = uint64_t{64} << 20;

size_t OutputsOf(const ModelShape& shape) { return std::max<size_t>(shape.classes(), 1); }

// Hands out the parameters of a layer after the other.
class Parameters {
 public:
  explicit Parameters(std::span<const float> all) : rest_(all) {}
  std::vector<float> Take(size_t count) {
    const std::span<const float> taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return {taken.begin(), taken.end()};
  }
  bool empty() const { return rest_.empty(); }

 private:
  std::span<const float> rest_;
};

std::vector<float> RowsOfHashedFeatures(const ExportedModel& model) {
  const ModelShape& shape = model.description.shape();
  std::vector<EmbeddingId> ids(shape.features() - shape.numeric());
  std::iota(ids.begin(), ids.end(), EmbeddingId{shape.numeric()});
  return EmbeddingRowsOf(model, ids);
}

void AddLinear(const ExportedModel& model, DenseModel& dense) {
  Parameters parameters(model.weights);
  const ModelShape& shape = model.description.shape();
  dense.weights =
      parameters.Take((shape.wide() ? shape.numeric() : shape.features()) * dense.outputs);
  dense.bias = parameters.Take(dense.outputs);
  MILLRACE_CHECK(parameters.empty());
  if (!shape.wide()) return;
  const std::vector<float> rows = RowsOfHashedFeatures(model);
  dense.weights.insert(dense.weights.end(), rows.begin(), rows.end());
}

// The first layer's weights of hashed features (its bag) are before the network on the numeric
// ones.
void AddNetwork(const ExportedModel& model, const WideNetwork& network, DenseModel& dense) {
  const ModelShape& shape = model.description.shape();
  const std::vector<float> narrow =
      shape.wide() ? network.NarrowParameters(model.weights, RowsOfHashedFeatures(model))
                   : std::vector<float>();
  Parameters parameters(shape.wide() ? narrow : model.weights);
  dense.weights = parameters.Take(dense.inputs * dense.outputs);
  dense.bias = parameters.Take(dense.outputs);
  const std::vector<float> bag =
      parameters.Take((shape.features() - shape.numeric()) * size_t{shape.hidden(0)});
  size_t inputs = shape.numeric();
  for (const uint32_t units : shape.hidden()) {
    DenseModel::Layer& layer = dense.hidden.emplace_back();
    layer.weights = parameters.Take(inputs * units);
    layer.biases = parameters.Take(units);
    inputs = units;
  }
  std::vector<float>& first = dense.hidden.front().weights;
  first.insert(first.end(), bag.begin(), bag.end());
  dense.output_weights = parameters.Take(inputs * dense.outputs);
  MILLRACE_CHECK(parameters.empty());
}

// (A softmax does not notice what is added to all scores.)
void AddFrequencies(const ModelDescription::Frequencies& frequencies, std::vector<float>& bias) {
  for (int k = 0; k < frequencies.rows_size(); ++k) {
    const double weight = frequencies.weight().empty() ? 1 : double{frequencies.weight(k)};
    const double rows = static_cast<double>(frequencies.rows(k)) + 0.5;
    float& of_class = bias[static_cast<size_t>(k)];
    of_class = static_cast<float>(double{of_class} + std::log(weight > 0 ? weight * rows : 0.5));
  }
}

}  // namespace

std::string WhyNotDense(const ModelShape& shape) {
  if (shape.ids() > 0) {
    return "the model has id columns, each of whose values has weights of its own; such a graph "
           "has "
           "no place for them";
  }
  if (shape.kind() != ModelShape::LINEAR && shape.kind() != ModelShape::NETWORK) {
    return "only linear models and networks have such a graph";
  }
  const uint64_t of_feature =
      OutputsOf(shape) + (shape.hidden().empty() ? 0 : uint64_t{shape.hidden(0)});
  if (shape.features() * of_feature <= kMostFloats) return "";
  return "the model has more than " + std::to_string(kMostFloats) +
         " weights of features; use fewer buckets";
}

DenseModel ToDense(const ExportedModel& model) {
  const ModelShape& shape = model.description.shape();
  MILLRACE_CHECK(WhyNotDense(shape).empty());
  const std::unique_ptr<Model> predictor = MakePredictor(model.description);
  MILLRACE_CHECK(model.weights.size() == predictor->parameter_count());
  DenseModel dense;
  dense.inputs = shape.features();
  dense.outputs = OutputsOf(shape);
  if (shape.mixed()) dense.largest = OnlineRace::kLargestFeature;
  if (const WideNetwork* network = predictor->network()) {
    AddNetwork(model, *network, dense);
  } else {
    AddLinear(model, dense);
  }
  AddFrequencies(model.description.frequencies(), dense.bias);
  return dense;
}

}  // namespace millrace
